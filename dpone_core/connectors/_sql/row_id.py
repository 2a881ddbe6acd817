"""`__dpone__row_id` as an SQL expression: hex sha256 over the canonical JSON of a row's key (LIFE-42).

Text: `{"key":{..},"source_schema":..,"source_table":..,"source_type":..}`, keys sorted by code point, compact, UTF-8
unescaped, values that JSON does not know as `str(value)`; if there are any, `\\x1e` and the sorted JSON list of
`{"path":"key.<column>","python_type":"<module.class>"}` follow. Only kinds whose Python text every engine can
reproduce are supported; the others are refused with a reason, never approximated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import LineageColumns

_INTEGERS: Final = frozenset(
    {
        ColumnKind.INT8,
        ColumnKind.INT16,
        ColumnKind.INT32,
        ColumnKind.INT64,
        ColumnKind.UINT8,
        ColumnKind.UINT16,
        ColumnKind.UINT32,
        ColumnKind.UINT64,
    }
)
_FOREIGN_TYPES: Final = {
    ColumnKind.DATE: "datetime.date",
    ColumnKind.TIMESTAMP: "datetime.datetime",
    ColumnKind.TIMESTAMP_TZ: "datetime.datetime",
    ColumnKind.DECIMAL: "decimal.Decimal",
    ColumnKind.UUID: "uuid.UUID",
}
ROW_ID_KINDS: Final = _INTEGERS | {ColumnKind.BOOLEAN, ColumnKind.STRING} | frozenset(_FOREIGN_TYPES)
MAX_DECIMAL_SCALE: Final = 6
"""Past six digits `str(Decimal)` turns to exponents for small values; no engine does."""

CONTROL_ESCAPES: Final = tuple(
    (chr(code), {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(code, f"\\u{code:04x}")) for code in range(32)
)


class RowIdDialect(Protocol):
    """One engine's SQL for the parts of a row id; `plain_text` is the text that Python's `str()` gives for a value of
    the column."""

    def literal(self, text: str) -> str: ...

    def concat(self, parts: tuple[str, ...]) -> str: ...

    def plain_text(self, column: Column) -> str: ...

    def json_string(self, expression: str) -> str: ...

    def or_null_text(self, column: Column, expression: str) -> str: ...

    def sha256_hex(self, expression: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIdRefusal:
    """The key column that has no deterministic row id, and the reason in words."""

    column: str
    reason: str


def row_id_refusal(schema: TableSchema, key: tuple[str, ...]) -> RowIdRefusal | None:
    """Why no deterministic row id exists for this key; None when it does."""
    for name in key:
        column = schema.find(name)
        if column is None:
            return RowIdRefusal(column=name, reason="the column is not part of the payload")
        if column.type.kind not in ROW_ID_KINDS:
            return RowIdRefusal(column=name, reason=f"{column.type} has no text form that is equal on every engine")
        if column.type.kind in _FOREIGN_TYPES and column.nullable:
            return RowIdRefusal(column=name, reason=f"a nullable {column.type} cannot be part of a row id")
        if column.type.kind is ColumnKind.DECIMAL and (column.type.scale or 0) > MAX_DECIMAL_SCALE:
            return RowIdRefusal(column=name, reason=f"a decimal scale above {MAX_DECIMAL_SCALE} digits")
        if (column.type.fraction or 0) > 6:
            return RowIdRefusal(column=name, reason="timestamps finer than microseconds")
    return None


def row_id_expression(lineage: LineageColumns, schema: TableSchema, dialect: RowIdDialect) -> str:
    """The SQL of the row id; call only when `row_id_refusal` is None."""
    columns = sorted((column for column in map(schema.find, lineage.row_id_columns) if column), key=lambda c: c.name)
    parts: list[str] = []
    opening = '{"key":{'
    for column in columns:
        opening += json.dumps(column.name, ensure_ascii=False) + ":"
        parts += [dialect.literal(opening), _json_value(column, dialect)]
        opening = ","
    parts.append(dialect.literal("}," + _origin_json(lineage) + "}" + _foreign_marker(columns)))
    return dialect.sha256_hex(dialect.concat(tuple(parts)))


def _json_value(column: Column, dialect: RowIdDialect) -> str:
    text = dialect.plain_text(column)
    if column.type.kind is ColumnKind.STRING:
        text = dialect.json_string(text)
    elif column.type.kind in _FOREIGN_TYPES:
        text = dialect.concat((dialect.literal('"'), text, dialect.literal('"')))
    return dialect.or_null_text(column, text) if column.nullable else text


def _origin_json(lineage: LineageColumns) -> str:
    origin = {
        "source_schema": lineage.source_schema,
        "source_table": lineage.source_table,
        "source_type": lineage.source_type,
    }
    return json.dumps(origin, sort_keys=True, separators=(",", ":"), ensure_ascii=False)[1:-1]


def _foreign_marker(columns: list[Column]) -> str:
    return _marker_of(
        {column.name: _FOREIGN_TYPES[column.type.kind] for column in columns if column.type.kind in _FOREIGN_TYPES}
    )


def _marker_of(foreign: Mapping[str, str]) -> str:
    if not foreign:
        return ""
    entries = sorted(({"path": f"key.{name}", "python_type": kind} for name, kind in foreign.items()), key=str)
    return "\x1e" + json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
