"""Our own column types, between every source and every sink. Not Arrow's: planning must work without pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ColumnKind(StrEnum):
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
    """`precision`/`scale` belong to decimals (digits), `fraction` to times and timestamps (0..9 decimal digits).

    A decimal has both, or an engine would fill in what is missing in its own way (ValueError, VAL-16). `timestamp` is a
    naive wall-clock value, `timestamp_tz` an instant in UTC. `native` names the engine's own type for messages; an
    `unsupported` column is refused before any row is read.
    """

    kind: ColumnKind
    precision: int | None = None
    scale: int | None = None
    fraction: int | None = None
    native: str = ""

    def __post_init__(self) -> None:
        if self.kind is ColumnKind.DECIMAL and (self.precision is None or self.scale is None):
            raise ValueError("a decimal has a precision and a scale")

    def __str__(self) -> str:
        if self.kind is ColumnKind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ, ColumnKind.TIME) and self.fraction is not None:
            return f"{self.kind}({self.fraction})"
        if self.kind is ColumnKind.UNSUPPORTED:
            return f"unsupported({self.native})"
        return self.kind.value

    def same_values(self, other: ColumnType) -> bool:
        """Whether both describe the same set of values, whatever the engine calls them."""
        return (self.kind, self.precision, self.scale, self.fraction) == (
            other.kind,
            other.precision,
            other.scale,
            other.fraction,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Columns in physical order; names are unique and compared exactly."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def business_columns(self) -> tuple[Column, ...]:
        """Without the framework's own `__dpone__*` columns (ACC-22)."""
        return tuple(column for column in self.columns if not is_framework_column(column.name))


FRAMEWORK_PREFIX = "__dpone__"


def is_framework_column(name: str) -> bool:
    return name.lower().startswith(FRAMEWORK_PREFIX)
