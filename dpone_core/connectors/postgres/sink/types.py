"""Column types of dpone as PostgreSQL types, and which types of an existing table can take rows exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dpone_core.connectors._sql.layout import LayoutDialect
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.type_map import MAX_PRECISION
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

IDENTIFIER_LIMIT_BYTES: Final = 63
UINT64_DIGITS: Final = 20
_PLAIN: Final = {
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.INT8: "smallint",
    ColumnKind.INT16: "smallint",
    ColumnKind.INT32: "integer",
    ColumnKind.INT64: "bigint",
    ColumnKind.UINT8: "smallint",
    ColumnKind.UINT16: "integer",
    ColumnKind.UINT32: "bigint",
    ColumnKind.UINT64: f"numeric({UINT64_DIGITS},0)",
    ColumnKind.FLOAT32: "real",
    ColumnKind.FLOAT64: "double precision",
    ColumnKind.STRING: "text",
    ColumnKind.BINARY: "bytea",
    ColumnKind.DATE: "date",
    ColumnKind.UUID: "uuid",
}
_TIMES: Final = {
    ColumnKind.TIME: ("time", "without time zone"),
    ColumnKind.TIMESTAMP: ("timestamp", "without time zone"),
    ColumnKind.TIMESTAMP_TZ: ("timestamp", "with time zone"),
}
_PADS_OR_CUTS: Final = frozenset({"character", "bpchar", "name", '"char"', "bit", "bit varying"})
"""Types that pad a value or cut it when it is cast to them; an interval with a precision rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """A staging column. Rows are copied into type `wire`, which becomes `declared_type` before gates run."""

    column: Column
    wire: str
    declared_type: str

    @property
    def is_cast(self) -> bool:
        return self.wire != self.declared_type

    @property
    def definition(self) -> str:
        return f"{quote_ansi(self.column.name)} {self.wire}{'' if self.column.nullable else ' NOT NULL'}"


def type_text(column: Column) -> str:
    """ConnectorError `sink_column_unsupported` where PostgreSQL has no exact type."""
    kind = column.type.kind
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is ColumnKind.DECIMAL and (column.type.precision or 0) <= MAX_PRECISION:
        return f"numeric({column.type.precision},{column.type.scale})"
    fraction = 6 if column.type.fraction is None else column.type.fraction
    if kind in _TIMES and fraction <= 6:
        name, zone = _TIMES[kind]
        return f"{name}{'' if fraction == 6 else f'({fraction})'} {zone}"
    raise ConnectorError(
        f"column {column.name!r}: PostgreSQL has no type for {column.type}", code="sink_column_unsupported"
    )


def new_column(column: Column) -> StoredColumn:
    """The staging column for a column that this load creates."""
    text = type_text(column)
    return StoredColumn(column=column, wire=text, declared_type=text)


def existing_column(column: Column, declared: str) -> StoredColumn:
    """The staging column for a column of the target, in its own type; `declared` may be a domain."""
    native = column.type.native
    wire = "text" if column.type.kind is ColumnKind.STRING and not _is_plain_string(native) else native
    return StoredColumn(column=column, wire=wire, declared_type=declared)


def described_type(column: Column) -> ColumnType:
    """The type that PostgreSQL will describe for a created column; another kind where PostgreSQL has no such type."""
    kinds = {
        ColumnKind.INT8: ColumnKind.INT16,
        ColumnKind.UINT8: ColumnKind.INT16,
        ColumnKind.UINT16: ColumnKind.INT32,
        ColumnKind.UINT32: ColumnKind.INT64,
    }
    if column.type.kind is ColumnKind.UINT64:
        return replace(column.type, kind=ColumnKind.DECIMAL, precision=UINT64_DIGITS, scale=0)
    return replace(column.type, kind=kinds.get(column.type.kind, column.type.kind))


LAYOUT: Final = LayoutDialect(
    created=lambda column, request: new_column(column), existing=existing_column, described_type=described_type
)


def writable_type(type_: ColumnType) -> ColumnType:
    """The type of a target's column for writing; `unsupported` where writing would silently change a value."""
    native = type_.native
    changes = native.partition("(")[0] in _PADS_OR_CUTS or (native.startswith("interval") and native != "interval")
    if type_.kind is ColumnKind.STRING and changes:
        return replace(type_, kind=ColumnKind.UNSUPPORTED, native=f"{native}: it would pad, cut or round values")
    if type_.kind is ColumnKind.INT64 and native == "oid":
        return replace(type_, kind=ColumnKind.UNSUPPORTED)
    if type_.kind is ColumnKind.DECIMAL and native != f"numeric({type_.precision},{type_.scale})":
        return replace(type_, kind=ColumnKind.UNSUPPORTED, native=f"{native}: it would round values")
    return type_


def stored_schema(schema: TableSchema) -> TableSchema:
    """The schema that PostgreSQL will describe for a table created from this payload. Raises ConnectorError
    `sink_column_unsupported` for names and types that it cannot hold."""
    for column in schema.columns:
        require_name(column.name)
        type_text(column)
    return schema


def require_name(name: str) -> None:
    """`sink_column_unsupported` for a name that PostgreSQL would shorten, which could make two names equal."""
    if len(name.encode()) > IDENTIFIER_LIMIT_BYTES:
        raise ConnectorError(
            f"the name {name!r} is longer than the {IDENTIFIER_LIMIT_BYTES} bytes that PostgreSQL keeps",
            code="sink_column_unsupported",
            fix="use a shorter name; an alias in options.query renames a column",
        )


def _is_plain_string(native: str) -> bool:
    return native == "text" or native.startswith("character varying")
