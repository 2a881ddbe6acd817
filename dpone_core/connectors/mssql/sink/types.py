"""Column types of dpone as T-SQL types, and which types of an existing table can take rows exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dpone_core.connectors._sql.layout import LayoutDialect
from dpone_core.connectors._sql.schema_rules import refuse_case_twins
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.connectors.mssql.types import UNBOUNDED, column_type, parts_of
from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LINEAGE_TYPES, ROW_ID
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema

IDENTIFIER_LIMIT: Final = 128
"""Characters of UTF-16. A name of 128 letters of any script fits."""
KEY_CHARACTERS: Final = 450
"""The longest nvarchar that an index key of 900 bytes holds."""
MAX_PRECISION: Final = 38
_MAX_FRACTION: Final = 7
_DEFAULT_FRACTION: Final = 6
_UNSUPPORTED: Final = "sink_column_unsupported"
_PLAIN: Final = {
    ColumnKind.BOOLEAN: "bit",
    ColumnKind.INT8: "smallint",
    ColumnKind.INT16: "smallint",
    ColumnKind.INT32: "int",
    ColumnKind.INT64: "bigint",
    ColumnKind.UINT8: "tinyint",
    ColumnKind.UINT16: "int",
    ColumnKind.UINT32: "bigint",
    ColumnKind.UINT64: "decimal(20,0)",
    ColumnKind.FLOAT32: "real",
    ColumnKind.FLOAT64: "float",
    ColumnKind.STRING: "nvarchar(max)",
    ColumnKind.BINARY: "varbinary(max)",
    ColumnKind.DATE: "date",
    ColumnKind.UUID: "uniqueidentifier",
}
_TIMES: Final = {
    ColumnKind.TIME: "time",
    ColumnKind.TIMESTAMP: "datetime2",
    ColumnKind.TIMESTAMP_TZ: "datetimeoffset",
}
_INEXACT: Final = {
    **dict.fromkeys(("char", "nchar", "binary"), "it would pad values"),
    **dict.fromkeys(("varchar", "text"), "it would change characters outside its code page"),
    **dict.fromkeys(("datetime", "smalldatetime"), "it would round values"),
    **dict.fromkeys(("ntext", "image", "xml"), "it does not keep values as they are"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """A column of staging and the type that T-SQL declares for it."""

    column: Column
    declared_type: str

    @property
    def definition(self) -> str:
        return f"{quote_name(self.column.name)} {self.declared_type} {'NULL' if self.column.nullable else 'NOT NULL'}"

    @property
    def longest(self) -> int | None:
        """UTF-16 units of text or bytes of binary that fit; None = no bound."""
        name, size, _ = parts_of(self.declared_type)
        if name not in ("nvarchar", "varbinary") or size == UNBOUNDED:
            return None
        return size


def type_text(column: Column, *, is_key: bool = False) -> str:
    """ConnectorError `sink_column_unsupported` where T-SQL has no exact type."""
    kind = column.type.kind
    if kind is ColumnKind.STRING and is_key:
        return f"nvarchar({KEY_CHARACTERS})"
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is ColumnKind.DECIMAL and (column.type.precision or 0) <= MAX_PRECISION:
        return f"decimal({column.type.precision},{column.type.scale})"
    fraction = _DEFAULT_FRACTION if column.type.fraction is None else column.type.fraction
    if kind in _TIMES and fraction <= _MAX_FRACTION:
        return f"{_TIMES[kind]}({fraction})"
    raise ConnectorError(f"column {column.name!r}: SQL Server has no type for {column.type}", code=_UNSUPPORTED)


def new_column(column: Column, unique_key: tuple[str, ...] = ()) -> StoredColumn:
    """The staging column for a column that this load creates. Text of a key gets a bound, so that it can be indexed."""
    return StoredColumn(column=column, declared_type=type_text(column, is_key=column.name in unique_key))


LAYOUT: Final = LayoutDialect(
    created=lambda column, request: new_column(column, request.unique_key),
    existing=lambda column, declared: StoredColumn(column=column, declared_type=declared),
    described_type=lambda column: column_type(type_text(column)),
)


def lineage_type(name: str) -> str:
    if name == ROW_ID:
        return "nvarchar(64)"
    is_instant = LINEAGE_TYPES[name].kind is ColumnKind.TIMESTAMP_TZ
    return "datetimeoffset(6)" if is_instant else f"nvarchar({KEY_CHARACTERS})"


def writable_column(column: Column) -> Column:
    """A column of the target for writing; its type is `unsupported` where writing would silently change a value."""
    why = _INEXACT.get(parts_of(column.type.native)[0])
    if why is None:
        return column
    native = f"{column.type.native}: {why}"
    return replace(column, type=replace(column.type, kind=ColumnKind.UNSUPPORTED, native=native))


def require_storable(schema: TableSchema) -> None:
    """`sink_column_unsupported` for types SQL Server lacks, and for names that are bad or differ by case only."""
    for column in schema.columns:
        require_name(column.name)
        type_text(column)
    refuse_case_twins(schema, "SQL Server")


def require_name(name: str) -> None:
    if not name or "\0" in name or len(name.encode("utf-16-le")) // 2 > IDENTIFIER_LIMIT:
        raise ConnectorError(
            f"the name {name!r} is empty, holds a NUL or has more than the {IDENTIFIER_LIMIT} characters of SQL Server",
            code=_UNSUPPORTED,
            fix="use a shorter name; an alias in options.query renames a column",
        )
