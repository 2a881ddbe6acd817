"""Tables, columns and column types between every source and every sink. Not Arrow's types: planning works without
pyarrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ColumnKind(StrEnum):
    """Kinds of column types. `unsupported` marks a type of the engine that dpone cannot carry."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TZ = "timestamp_tz"
    UUID = "uuid"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """One column type. `precision` and `scale` (digits) belong to decimals, `fraction` (0 to 9 digits) to times and
    timestamps.

    A decimal without both raises ValueError, because engines would fill in different ones. `timestamp` is a wall clock
    without a zone, `timestamp_tz` an instant in UTC. `native` is the engine's own name of the type, for messages; an
    `unsupported` column is refused before any row is read.
    """

    kind: ColumnKind
    precision: int | None = None
    scale: int | None = None
    fraction: int | None = None
    native: str = ""

    def __post_init__(self) -> None:
        if self.kind is ColumnKind.DECIMAL and (self.precision is None or self.scale is None):
            raise ValueError("a decimal type needs both a precision and a scale")

    def __str__(self) -> str:
        if self.kind is ColumnKind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ, ColumnKind.TIME) and self.fraction is not None:
            return f"{self.kind}({self.fraction})"
        if self.kind is ColumnKind.UNSUPPORTED:
            return f"unsupported({self.native})"
        return self.kind.value

    def same_values(self, other: ColumnType) -> bool:
        """Whether both types hold the same set of values; the engine's names for them do not matter."""
        return (self.kind, self.precision, self.scale, self.fraction) == (
            other.kind,
            other.precision,
            other.scale,
            other.fraction,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A named column; `nullable` False means that it holds no NULL."""

    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Columns in physical order. Names are unique and compared exactly, including case."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in physical order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of exactly this name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def without(self, other: TableSchema) -> TableSchema:
        """The columns whose names `other` does not have."""
        return TableSchema(columns=tuple(column for column in self.columns if other.find(column.name) is None))

    def widened(self, added: TableSchema) -> TableSchema:
        """These columns and then the added ones whose names are new."""
        return TableSchema(columns=(*self.columns, *added.without(self).columns))

    @property
    def business_columns(self) -> tuple[Column, ...]:
        """Columns other than the technical `__dpone__*` ones (ACC-22)."""
        return tuple(column for column in self.columns if not is_framework_column(column.name))


NO_COLUMNS: Final = TableSchema(columns=())
FRAMEWORK_PREFIX = "__dpone__"


def is_framework_column(name: str) -> bool:
    """Whether the name has the reserved prefix `__dpone__`, in any case."""
    return name.lower().startswith(FRAMEWORK_PREFIX)
