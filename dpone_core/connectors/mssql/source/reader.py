"""Reads SQL Server: types from the catalogue, values in exact form, by a reader in a child process. Wire-tested against
a TDS double; the same suite runs against a server."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows
from dpone_core.connectors._arrow.child_reader import ChildReader, ChildRequest
from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.session import Session
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.connectors.mssql.types import (
    TEXTUAL_KINDS,
    column_type,
    is_unbounded,
    length_expression,
    reading_expression,
)
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .child import OUT_OF_RANGE, SourceValueError
from .selection import DEFAULT_SCHEMA, Selection, bound_query, find_cursor_column, selection

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger("dpone")
_CHILD: Final = "dpone_core.connectors.mssql.source.child"
_DIRTY: Final = re.compile(r"\b(nolock|readuncommitted)\b|\bread\s+uncommitted\b", re.IGNORECASE)
_NAME_OF_INVALID_OBJECT: Final = 208
_FIRST_RESULT: Final = (
    "SELECT name, system_type_name, user_type_name, error_number"
    " FROM sys.dm_exec_describe_first_result_set(?, ?, 0) ORDER BY column_ordinal"
)


class MssqlSource:
    """SourcePort over one server; describe reads no rows."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def describe(self, request: ExtractRequest) -> TableSchema:
        if request.table is not None:
            return TableSchema(columns=self._table_columns(request.table))
        return TableSchema(columns=self._query_columns(request))

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> MssqlStream:
        return self.stream_of(request, selection(request, schema), schema)

    def stream_of(self, request: ExtractRequest, chosen: Selection, schema: TableSchema) -> MssqlStream:
        """Reads what `chosen` selects of the request."""
        check_columns(schema)
        self._require_isolation()
        if request.query is not None and _DIRTY.search(request.query.text):
            _LOG.warning("mssql source: the query reads uncommitted rows; its counts cannot be reconciled")
        return MssqlStream(self._session, chosen, schema)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = find_cursor_column(schema, column)
        chosen = selection(request, schema)
        name = quote_name(column)
        sql = f"{chosen.head}SELECT {reading_expression(cursor)} FROM (SELECT MAX({name}) AS {name} {chosen.text})"
        return key_text(cursor, self._session.rows(f"{sql} AS dpone_maximum", chosen.parameters)[0][0])

    def _table_columns(self, table: TableName) -> tuple[Column, ...]:
        named = TableName(schema=table.schema or DEFAULT_SCHEMA, name=table.name)
        columns = table_columns(self._session.rows, named)
        if not columns:
            raise ConnectorError("the source table does not exist", code="source_object_not_found")
        return columns

    def _query_columns(self, request: ExtractRequest) -> tuple[Column, ...]:
        text, values = bound_query(request, lambda ordinal: f"@p{ordinal}")
        declared = ", ".join(f"@p{ordinal} nvarchar(4000)" for ordinal in range(len(values)))
        rows = self._session.rows(_FIRST_RESULT, (text, declared))
        number = next((row[3] for row in rows if row[3] is not None), None)
        if number == _NAME_OF_INVALID_OBJECT:
            raise ConnectorError("a table of the source query does not exist", code="source_object_not_found")
        if number is not None:
            raise ConnectorError("SQL Server refused the query of the source", code="source_query_refused")
        if any(not row[0] for row in rows):
            raise ConnectorError(
                "a column of the source query has no name", code="source_column_unsupported", fix="give it an alias"
            )
        return tuple(Column(name=str(row[0]), type=column_type(str(row[1] or row[2] or "unknown"))) for row in rows)

    def _require_isolation(self) -> None:
        if self._session.address.isolation != "snapshot":
            return
        rows = self._session.rows("SELECT snapshot_isolation_state FROM sys.databases WHERE name = DB_NAME()")
        if [row[0] for row in rows] != [1]:
            raise ConnectorError(
                "the connection asks for snapshot isolation, which the database does not allow",
                code="source_refused",
                fix="ALTER DATABASE .. SET ALLOW_SNAPSHOT_ISOLATION ON, or take isolation=snapshot out of the URI",
            )


def key_text(column: Column, value: Any) -> str | None:
    """A value read by `reading_expression`, as `CursorWindow` and `KeyRange` write it."""
    if value is None:
        return None
    if column.type.kind in TEXTUAL_KINDS:
        return str(value).replace(" ", "T").replace("Z", "+00:00")
    return str(value)


class MssqlStream:
    """One pass over a selection. Closing while another thread iterates takes effect at once."""

    def __init__(self, session: Session, chosen: Selection, schema: TableSchema) -> None:
        self.schema = schema
        self._session = session
        self._chosen = chosen
        self._cast = StrictCast(schema, code=OUT_OF_RANGE)
        self._reader = ChildReader(_request(session, chosen, schema))

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in limit_batch_rows(self._reader.batches()):
                yield self._cast(batch)
        except ConnectorError as error:
            raise self._explain(error) from error.__cause__

    def close(self) -> None:
        self._reader.close()

    def _explain(self, error: ConnectorError) -> ConnectorError:
        """The ConnectorError for an error of the child process, which arrives as its code; it gets its class again and
        names the column."""
        if error.code != OUT_OF_RANGE:
            return error
        column = next((c for c in self.schema.columns if error.message.startswith(f"column {c.name!r}:")), None)
        if column is None:
            return self._find_too_long(error)
        fix = error.fix
        if column.type.kind in TEXTUAL_KINDS and (column.type.fraction or 0) > 6:
            fix = "nanoseconds hold 1678 to 2261: CAST the column to a precision of 6 in a query"
        return SourceValueError(error.message, fix=fix)

    def _find_too_long(self, error: ConnectorError) -> ConnectorError:
        limit = self._session.address.max_text_size
        columns = [column for column in self.schema.columns if is_unbounded(column)]
        parts = ", ".join(f"MAX({length_expression(column)})" for column in columns)
        longest = self._session.rows(self._chosen.query(parts), self._chosen.parameters)[0]
        for column, length in zip(columns, longest, strict=True):
            if length is not None and length > limit:
                return SourceValueError(
                    f"column {column.name!r}: a value is longer than the {limit} units of the reader's buffer",
                    fix="raise max_text_size in the connection's URI, or set reader=pyodbc, which has no limit",
                )
        return SourceValueError(error.message, fix=error.fix)


def _request(session: Session, chosen: Selection, schema: TableSchema) -> ChildRequest:
    address = session.address
    isolation = "SNAPSHOT" if address.isolation == "snapshot" else "READ COMMITTED"
    values = ", ".join(f"{reading_expression(c)} AS {quote_name(c.name)}" for c in schema.columns)
    arguments: dict[str, object] = {
        "connection_string": session.connection_string,
        "sql": f"SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL {isolation}; {chosen.query(values)}",
        "parameters": chosen.parameters,
    }
    snapshot = "one snapshot" if address.isolation == "snapshot" else "read committed, no snapshot"
    reason = _reason_for_pyodbc(session, f"{arguments['sql']}{''.join(chosen.parameters)}")
    if reason is not None:
        _LOG.info("mssql source: reader=pyodbc (%s), %s", reason, snapshot)
        arguments["types"] = [_wire_type(column) for column in schema.columns]
        return ChildRequest(module=_CHILD, function="read_by_pyodbc", arguments=arguments, engine="SQL Server")
    unbounded = any(is_unbounded(column) for column in schema.columns)
    bound = f"unbounded values up to {address.max_text_size} units" if unbounded else "no unbounded column"
    _LOG.info("mssql source: reader=arrow-odbc (%s), %s", bound, snapshot)
    arguments["max_text_size"] = address.max_text_size if unbounded else None
    return ChildRequest(module=_CHILD, function="read_by_arrow_odbc", arguments=arguments, engine="SQL Server")


def _reason_for_pyodbc(session: Session, text: str) -> str | None:
    """Why this query needs pyodbc; None when arrow-odbc can read it. arrow-odbc takes narrow text only, which the
    driver manager silently turns to Latin-1."""
    if session.address.reader == "pyodbc":
        return "asked for by the connection"
    if not text.isascii():
        return "names or values beyond ASCII"
    if not session.connection_string.isascii():
        return "a login beyond ASCII"
    return None


def _wire_type(column: Column) -> str:
    kind = column.type.kind
    if kind is ColumnKind.DECIMAL:
        return f"decimal:{column.type.precision},{column.type.scale}"
    if kind.value.startswith(("int", "uint")):
        return "int"
    known = {
        ColumnKind.BOOLEAN: "bool",
        ColumnKind.FLOAT32: "double",
        ColumnKind.FLOAT64: "double",
        ColumnKind.DATE: "date",
        ColumnKind.BINARY: "binary",
        ColumnKind.UUID: "binary",
    }
    return known.get(kind, "string")
