"""Key ranges of a SQLite selection. Each reader has a read transaction of its own: there is no shared snapshot.

Text compares byte by byte in UTF-8, which is the order of code points, whatever collation the column declares. A
decimal compares as the number its text says, because that text is what is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.sqlite.database import Database
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reader import SqliteStream, iso_moment
from .reading import Relation
from .selection import Parameter, Selection, bound_value, selection
from .types import comparison_expression

_KINDS: Final = frozenset(
    {ColumnKind.INT64, ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.DECIMAL}
)

_CLASSES: Final = {ColumnKind.INT64: ("integer",), ColumnKind.DECIMAL: ("integer", "real", "text")}


class SqliteRanges:
    """RangeSourcePort over one database file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        yield None

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        key = _key(schema, column)
        self._refuse_utf16(key)
        row = self._bounds(request, schema, key)
        if {row[1], row[2]} - {*_CLASSES.get(key.type.kind, ("text",)), "null"}:
            raise ConnectorError(
                f"column {key.name!r}: a value is not stored as {key.type}", code="source_value_out_of_range"
            )
        lower, upper = (None if value is None else _text_of(key, str(value)) for value in row[3:5])
        return KeyBounds(lower=lower, upper=upper, rows=int(str(row[0])))

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> SqliteStream:
        check_columns(schema)
        key = _key(schema, column)
        chosen = selection(request, schema)
        conditions, parameters = _conditions(key, bounds)
        joint = "AND" if request.window is not None and _is_bounded(request) else "WHERE"
        ranged = Selection(
            text=f"{chosen.text} {joint} {' AND '.join(conditions)}", parameters=(*chosen.parameters, *parameters)
        )
        return SqliteStream(self._database, ranged, schema, Relation.of(self._database, request))

    def _bounds(self, request: ExtractRequest, schema: TableSchema, key: Column) -> tuple[object, ...]:
        """Rows, the storage classes of the least and the greatest value, and both as text: classes are ordered among
        each other, so that a foreign one shows at an end. (A real among integers does not; reading refuses it.)"""
        chosen = selection(request, schema)
        ordered, quoted = _sort_expression(key), quote_ansi(key.name)
        questions = [
            "count(*)",
            *(f"typeof({end}({quoted}))" for end in ("min", "max")),
            *(_exact_text(f"{end}({ordered})") for end in ("min", "max")),
        ]
        if not chosen.parameters and self._is_indexed(request, key):
            return self._database.rows(f"SELECT {', '.join(f'(SELECT {each} {chosen.text})' for each in questions)}")[0]
        return self._database.rows(f"SELECT {', '.join(questions)} {chosen.text}", chosen.parameters)[0]

    def _is_indexed(self, request: ExtractRequest, key: Column) -> bool:
        """Whether the key is an integer that leads the primary key, so that its bounds are found without a scan."""
        if request.table is None or key.type.kind is not ColumnKind.INT64:
            return False
        place = (request.table.name, request.table.schema or "main", key.name)
        return self._database.rows("SELECT pk FROM pragma_table_xinfo(?, ?) WHERE name = ?", place) == [(1,)]

    def _refuse_utf16(self, key: Column) -> None:
        """A UTF-16 database orders text by its bytes there, which is another order."""
        if key.type.kind is ColumnKind.STRING and self._database.rows("PRAGMA encoding")[0][0] != "UTF-8":
            raise ConnectorError(
                "a UTF-16 SQLite database does not order text by code point", code="partition_key_unsupported"
            )


def _exact_text(expression: str) -> str:
    """A number as text, with as many digits as it needs to read back equal."""
    return (
        f"CASE typeof({expression}) WHEN 'real' THEN printf('%!.20g', {expression}) ELSE CAST({expression} AS TEXT) END"
    )


def _key(schema: TableSchema, column: str) -> Column:
    key = schema.find(column)
    if key is None:
        raise ConnectorError(
            f"the partitioning column {column!r} is not a column of the source", code="source_object_not_found"
        )
    if key.type.kind not in _KINDS:
        raise ConnectorError(
            f"SQLite cannot split column {column!r} of type {key.type} into key ranges",
            code="partition_key_unsupported",
            fix="choose an integer, decimal, date, timestamp or text column",
        )
    return key


def _is_bounded(request: ExtractRequest) -> bool:
    window = request.window
    return window is not None and (window.lower is not None or window.upper is not None)


def _sort_expression(key: Column) -> str:
    quoted = quote_ansi(key.name)
    match key.type.kind:
        case ColumnKind.DECIMAL:
            return f"CAST(CAST({quoted} AS TEXT) AS NUMERIC)"
        case ColumnKind.STRING:
            return f"{quoted} COLLATE BINARY"
        case _:
            return comparison_expression(key, quoted)


def _conditions(key: Column, bounds: KeyRange) -> tuple[list[str], list[Parameter]]:
    if bounds.is_null_partition:
        return [f"{quote_ansi(key.name)} IS NULL"], []
    mark = "CAST(? AS NUMERIC)" if key.type.kind is ColumnKind.DECIMAL else "?"
    conditions: list[str] = []
    parameters: list[Parameter] = []
    if bounds.lower is not None:
        lower = bound_value(key, bounds.lower)
        if key.type.kind is ColumnKind.TIMESTAMP:  # the day alone lets an index narrow the scan
            conditions.append(f"{quote_ansi(key.name)} >= ?")
            parameters.append(str(lower)[:10])
        conditions.append(f"{_sort_expression(key)} >= {mark}")
        parameters.append(lower)
    if bounds.upper is not None:
        conditions.append(f"{_sort_expression(key)} {'<=' if bounds.include_upper else '<'} {mark}")
        parameters.append(bound_value(key, bounds.upper))
    return conditions, parameters


def _text_of(key: Column, value: str) -> str:
    """The bound as `KeyRange` writes it. Raises ConnectorError `source_value_out_of_range` for a time that is written
    in another form, which would not compare as a time."""
    if key.type.kind is not ColumnKind.TIMESTAMP:
        return value
    moment = iso_moment(key, value)
    if bound_value(key, moment) != value:
        raise ConnectorError(f"column {key.name!r}: a value does not fit {key.type}", code="source_value_out_of_range")
    return moment
