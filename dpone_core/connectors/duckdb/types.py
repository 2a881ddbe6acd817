"""Column types of dpone as DuckDB types and back."""

from __future__ import annotations

import re
from typing import Final

from dpone_core.connectors._sql.layout import LayoutDialect
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

_PLAIN: Final = {
    ColumnKind.BOOLEAN: "BOOLEAN",
    ColumnKind.INT8: "TINYINT",
    ColumnKind.INT16: "SMALLINT",
    ColumnKind.INT32: "INTEGER",
    ColumnKind.INT64: "BIGINT",
    ColumnKind.UINT8: "UTINYINT",
    ColumnKind.UINT16: "USMALLINT",
    ColumnKind.UINT32: "UINTEGER",
    ColumnKind.UINT64: "UBIGINT",
    ColumnKind.FLOAT32: "FLOAT",
    ColumnKind.FLOAT64: "DOUBLE",
    ColumnKind.STRING: "VARCHAR",
    ColumnKind.BINARY: "BLOB",
    ColumnKind.DATE: "DATE",
    ColumnKind.UUID: "UUID",
}
_KIND_OF_PLAIN: Final = {text: kind for kind, text in _PLAIN.items()}
_NAIVE: Final = {0: "TIMESTAMP_S", 3: "TIMESTAMP_MS", 6: "TIMESTAMP", 9: "TIMESTAMP_NS"}
_FRACTION_OF_NAIVE: Final = {text: fraction for fraction, text in _NAIVE.items()}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_INSTANT: Final = "TIMESTAMP WITH TIME ZONE"


def type_text(column: Column) -> str:
    """The DuckDB type of a column in DDL. Raises ConnectorError `sink_column_unsupported` where
    there is no exact type."""
    kind = column.type.kind
    fraction = 6 if column.type.fraction is None else column.type.fraction
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    match kind:
        case ColumnKind.DECIMAL if column.type.precision is not None and column.type.precision <= 38:
            return f"DECIMAL({column.type.precision},{column.type.scale})"
        case ColumnKind.TIMESTAMP:
            return _NAIVE[next(held for held in _NAIVE if fraction <= held)]
        case ColumnKind.TIMESTAMP_TZ:
            return _INSTANT
        case ColumnKind.TIME:
            return "TIME"
        case _:
            raise ConnectorError(
                f"column {column.name!r}: DuckDB has no type for {column.type}", code="sink_column_unsupported"
            )


def column_definition(column: Column) -> str:
    return f"{quote_ansi(column.name)} {type_text(column)}{'' if column.nullable else ' NOT NULL'}"


def column_of(name: str, text: str, *, nullable: bool) -> Column:
    return Column(name=name, type=_type_of(text), nullable=nullable)


def _type_of(text: str) -> ColumnType:
    plain = _KIND_OF_PLAIN.get(text)
    if plain is not None:
        return ColumnType(kind=plain, native=text)
    if (decimal := _DECIMAL.fullmatch(text)) is not None:
        return ColumnType(
            kind=ColumnKind.DECIMAL, precision=int(decimal.group(1)), scale=int(decimal.group(2)), native=text
        )
    if text in _FRACTION_OF_NAIVE:
        return ColumnType(kind=ColumnKind.TIMESTAMP, fraction=_FRACTION_OF_NAIVE[text], native=text)
    if text == _INSTANT:
        return ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6, native=text)
    if text == "TIME":
        return ColumnType(kind=ColumnKind.TIME, fraction=6, native=text)
    return ColumnType(kind=ColumnKind.UNSUPPORTED, native=text)


def stored_schema(schema: TableSchema) -> TableSchema:
    """The schema that DuckDB will describe for a table created from this payload."""
    return TableSchema(columns=tuple(map(stored_column, schema.columns)))


def stored_column(column: Column) -> Column:
    """The column with the type that DuckDB will describe for it."""
    return column_of(column.name, type_text(column), nullable=column.nullable)


LAYOUT: Final = LayoutDialect(
    created=lambda column, request: stored_column(column),
    existing=lambda column, declared: column,
    described_type=lambda column: stored_column(column).type,
    replaces_attached=False,
)
"""DuckDB compares a new row's key with rows deleted in the same transaction too, so a keyed table is not refilled."""
