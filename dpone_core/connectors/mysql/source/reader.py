"""Reads MySQL: types from the catalogue, values in exact form, in one snapshot, by a reader in a child process.
Contract: MYSQL-01 (zero dates), MYSQL-02 (unsigned, tinyint, bit, float digits)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows
from dpone_core.connectors._arrow.child_reader import ChildReader, ChildRequest
from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors.mysql.address import Address
from dpone_core.connectors.mysql.session import READING, Session, end_query
from dpone_core.connectors.mysql.text import quote_name, text_literal
from dpone_core.connectors.mysql.types import (
    TEMPORAL_KINDS,
    NativeType,
    column_type,
    comparison_expression,
    reading_expression,
)
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.special_values import with_flags
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .selection import find_cursor_column, relation, selection
from .special_values import SPECIAL_VALUES

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger("dpone")
_CHILD: Final = "dpone_core.connectors.mysql.source.child"
_OUT_OF_RANGE: Final = "source_value_out_of_range"
_TEMPORAL_FIX: Final = (
    "a zero date, a partial date or a time beyond a day has no exact form: declare what the date becomes in"
    " source.options.special_values, or NULLIF or CAST it in a query"
)


class MySqlSource:
    """SourcePort over one server; describe reads no rows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._database = session.address.database

    def describe(self, request: ExtractRequest) -> TableSchema:
        return SPECIAL_VALUES.describe(self._describe_stored(request), request.special_values)

    def _describe_stored(self, request: ExtractRequest) -> TableSchema:
        if request.table is not None:
            return TableSchema(columns=self._table_columns(request.table))
        fields = self._session.fields(f"SELECT * FROM {relation(request, self._database)} AS dpone_source LIMIT 0")
        return TableSchema(columns=tuple(Column(name=name, type=column_type(native)) for name, native in fields))

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> MySqlStream:
        return stream_of(self._session.address, selection(request, schema, self._database), request, schema)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = find_cursor_column(schema, column)
        chosen = selection(request, schema, self._database)
        value = self._session.rows(f"SELECT MAX({comparison_expression(cursor)}) {chosen}")[0][0]
        return None if value is None else key_text(cursor, value)

    def _table_columns(self, table: TableName) -> tuple[Column, ...]:
        relation(ExtractRequest(table=table), self._database)
        rows = self._session.rows(
            "SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, datetime_precision,"
            " is_nullable FROM information_schema.columns"
            f" WHERE table_schema = {text_literal(table.schema or self._database or '')}"
            f" AND table_name = {text_literal(table.name)} AND extra NOT LIKE '%INVISIBLE%' ORDER BY ordinal_position"
        )
        if not rows:
            raise ConnectorError("the source table does not exist", code="source_object_not_found")
        return tuple(
            Column(
                name=str(name),
                type=column_type(
                    NativeType(
                        name=str(data_type).lower(),
                        label=_type_label(str(full)),
                        unsigned="unsigned" in str(full).lower(),
                        digits=digits,
                        scale=scale,
                        fraction=fraction,
                    )
                ),
                nullable=nullable == "YES",
            )
            for name, data_type, full, digits, scale, fraction, nullable in rows
        )


def _type_label(full: str) -> str:
    """The declared type for messages; the members of an enum are data and are left out."""
    return re.sub(r"^(enum|set)\(.*\)$", r"\1", full, flags=re.IGNORECASE | re.DOTALL)


def key_text(cursor: Column, value: object) -> str:
    """A value of an ordered column as `CursorWindow` and `KeyRange` write it."""
    kind = cursor.type.kind
    if isinstance(value, datetime) and kind is ColumnKind.TIMESTAMP_TZ:
        return value.isoformat(timespec="microseconds") + "+00:00"
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if kind in TEMPORAL_KINDS:
        raise ConnectorError(
            f"column {cursor.name!r}: the greatest value is not a valid {cursor.type}",
            code=_OUT_OF_RANGE,
            fix=_TEMPORAL_FIX,
        )
    return value.decode() if isinstance(value, bytes) else str(value)


def stream_of(address: Address, chosen: str, request: ExtractRequest, schema: TableSchema) -> MySqlStream:
    """Reads what `chosen` (`FROM .. WHERE ..`) selects of the request."""
    check_columns(schema)
    read = with_flags(schema, request.special_values)
    values = ", ".join(f"{reading_expression(c)} AS {quote_name(c.name)}" for c in read.columns)
    return MySqlStream(address, f"SELECT {values} {chosen}", read)


class MySqlStream:
    """One pass over a selection. Closing while another thread iterates takes effect at once, on the server too."""

    def __init__(self, address: Address, sql: str, schema: TableSchema) -> None:
        self.schema = schema
        self._address = address
        self._mark = f"/* dpone {uuid4().hex} */"
        self._cast = StrictCast(schema, code=_OUT_OF_RANGE)
        self._reader = ChildReader(_request(address, f"{self._mark} {sql}", schema))
        self._unfinished = threading.Event()

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._unfinished.set()
        for batch in limit_batch_rows(self._reader.batches()):
            try:
                yield self._cast(batch)
            except ConnectorError as error:
                raise self._add_fix(error) from error.__cause__
        if not self._reader.closed:
            self._unfinished.clear()

    def close(self) -> None:
        """Stops reading and ends the query on the server, which does not notice that its client is gone while it
        computes."""
        self._reader.close()
        if self._unfinished.is_set():
            self._unfinished.clear()
            end_query(self._address, self._mark)

    def _add_fix(self, error: ConnectorError) -> ConnectorError:
        temporal = any(
            column.type.kind in TEMPORAL_KINDS and error.message.startswith(f"column {column.name!r}:")
            for column in self.schema.columns
        )
        return ConnectorError(error.message, code=error.code, fix=_TEMPORAL_FIX if temporal else error.fix)


def _request(address: Address, sql: str, schema: TableSchema) -> ChildRequest:
    """The request for the child process. connectorx reads every kind in the form of `reading_expression`, but cannot
    check certificates."""
    if address.reader == "auto" and address.tls == "off":
        _LOG.info("mysql source: reader=connectorx, binary protocol, one snapshot")
        return ChildRequest(
            module=_CHILD,
            function="read_by_connectorx",
            arguments={"uri": address.rust_uri, "sql": sql, "session": READING},
            engine="MySQL",
        )
    reason = "asked for by the connection" if address.reader == "pymysql" else "TLS"
    _LOG.info("mysql source: reader=pymysql (%s), text protocol, one snapshot", reason)
    return ChildRequest(
        module=_CHILD,
        function="read_by_pymysql",
        arguments={"address": address.as_json(), "sql": sql, "session": READING, "types": _wire_types(schema)},
        engine="MySQL",
    )


def _wire_types(schema: TableSchema) -> list[str]:
    kinds = {ColumnKind.FLOAT32: "double", ColumnKind.FLOAT64: "double", ColumnKind.BINARY: "binary"}
    kinds |= {ColumnKind.UUID: "binary", ColumnKind.BOOLEAN: "int"}
    wire_types = []
    for column in schema.columns:
        kind = column.type.kind
        family = "uint" if kind.value.startswith("uint") else "int" if kind.value.startswith("int") else "string"
        wire_types.append(kinds.get(kind, family))
    return wire_types
