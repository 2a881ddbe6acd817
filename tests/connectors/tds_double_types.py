"""Types of the TDS double: how T-SQL declares them, what DuckDB stores for them, and their bytes on the wire.

Exact are bit, the integers, real, float, decimal, date, time, datetime2, datetimeoffset (the instant; its offset is
lost), uniqueidentifier, varbinary, nvarchar. Everything else has no encoding here and its cells are UNVERIFIED.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from pysqlbridge.tds.result import (
    Bit,
    ColumnType,
    Float,
    Integer,
    NVarChar,
    UniqueIdentifier,
    VarBinary,
    as_utf16,
)

DAY_ONE = dt.date(1, 1, 1)
EPOCH = dt.datetime(1970, 1, 1)
_PLP_NULL = b"\xff" * 8


@dataclass(frozen=True)
class Decimal(ColumnType):
    precision: int
    scale: int

    def type_info(self) -> bytes:
        return bytes([0x6C, 17, self.precision, self.scale])

    def encode(self, value: object) -> bytes:
        if value is None:
            return b"\x00"
        digits = int(decimal.Decimal(str(value)).scaleb(self.scale, decimal.Context(prec=60)).to_integral_exact())
        return bytes([17, 0 if digits < 0 else 1]) + abs(digits).to_bytes(16, "little")


@dataclass(frozen=True)
class Date(ColumnType):
    def type_info(self) -> bytes:
        return b"\x28"

    def encode(self, value: object) -> bytes:
        if value is None:
            return b"\x00"
        assert isinstance(value, dt.date)
        return b"\x03" + (value - DAY_ONE).days.to_bytes(3, "little")


def _ticks(value: dt.time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond).to_bytes(5, "little")


@dataclass(frozen=True)
class Time(ColumnType):
    """Six digits of a second."""

    def type_info(self) -> bytes:
        return bytes([0x29, 6])

    def encode(self, value: object) -> bytes:
        if value is None:
            return b"\x00"
        assert isinstance(value, dt.time)
        return b"\x05" + _ticks(value)


@dataclass(frozen=True)
class DateTime2(ColumnType):
    """Six digits of a second."""

    def type_info(self) -> bytes:
        return bytes([0x2A, 6])

    def encode(self, value: object) -> bytes:
        if value is None:
            return b"\x00"
        assert isinstance(value, dt.datetime)
        return b"\x08" + _ticks(value.time()) + (value.date() - DAY_ONE).days.to_bytes(3, "little")


@dataclass(frozen=True)
class DateTimeOffset(ColumnType):
    """Six digits of a second, always at offset zero."""

    def type_info(self) -> bytes:
        return bytes([0x2B, 6])

    def encode(self, value: object) -> bytes:
        if value is None:
            return b"\x00"
        assert isinstance(value, dt.datetime)
        utc = value.astimezone(dt.UTC)
        return b"\x0a" + _ticks(utc.time()) + (utc.date() - DAY_ONE).days.to_bytes(3, "little") + struct.pack("<h", 0)


def _plp(raw: bytes | None) -> bytes:
    """A MAX value: its length, one chunk, the terminator; an empty value has the terminator too."""
    if raw is None:
        return _PLP_NULL
    chunk = struct.pack("<I", len(raw)) + raw if raw else b""
    return struct.pack("<Q", len(raw)) + chunk + struct.pack("<I", 0)


@dataclass(frozen=True)
class NVarCharMax(NVarChar):
    max_chars: int | None = None

    def encode(self, value: object) -> bytes:
        return _plp(None if value is None else as_utf16(str(value)))


@dataclass(frozen=True)
class VarBinaryMax(ColumnType):
    def type_info(self) -> bytes:
        return b"\xa5\xff\xff"

    def encode(self, value: object) -> bytes:
        assert value is None or isinstance(value, bytes)
        return _plp(value)


_STORED: dict[str, str] = {
    "bit": "BOOLEAN",
    "tinyint": "UTINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "float": "DOUBLE",
    "money": "DECIMAL(19,4)",
    "smallmoney": "DECIMAL(10,4)",
    "date": "DATE",
    "time": "TIME",
    "datetime": "TIMESTAMP",
    "smalldatetime": "TIMESTAMP",
    "datetime2": "TIMESTAMP",
    "datetimeoffset": "TIMESTAMPTZ",
    "uniqueidentifier": "UUID",
    "binary": "BLOB",
    "varbinary": "BLOB",
    "image": "BLOB",
    "rowversion": "BLOB",
    "timestamp": "BLOB",
    "char": "VARCHAR",
    "varchar": "VARCHAR",
    "nchar": "VARCHAR",
    "nvarchar": "VARCHAR",
    "text": "VARCHAR",
    "ntext": "VARCHAR",
    "xml": "VARCHAR",
    "sysname": "VARCHAR",
}
_DECLARED = re.compile(r"^\[?(\w+)\]?\s*(?:\(\s*(\d+|max)\s*(?:,\s*(\d+)\s*)?\))?$", re.IGNORECASE)


@dataclass(frozen=True)
class Declared:
    """A T-SQL type as declared; `length` -1 is MAX."""

    name: str
    length: int | None = None
    scale: int | None = None

    @property
    def stored(self) -> str:
        if self.name in ("decimal", "numeric"):
            return f"DECIMAL({self.length if self.length is not None else 18},{self.scale or 0})"
        return _STORED.get(self.name, "VARCHAR")

    @property
    def system_name(self) -> str:
        if self.length is None:
            return self.name
        digits = "max" if self.length == -1 else str(self.length)
        return f"{self.name}({digits},{self.scale})" if self.scale is not None else f"{self.name}({digits})"

    @property
    def wire(self) -> ColumnType | None:
        """Where the declaration says more than DuckDB's type does."""
        if self.length == -1 or self.name in ("text", "ntext", "xml"):
            return NVarCharMax() if self.stored == "VARCHAR" else VarBinaryMax()
        if self.name in ("varchar", "nvarchar", "char", "nchar") and self.length is not None:
            return NVarChar(min(self.length, 4000))
        return None


def declared(text: str) -> Declared:
    found = _DECLARED.match(text.strip())
    if found is None:
        return Declared(name=text.strip().lower())
    name, length, scale = found.group(1).lower(), found.group(2), found.group(3)
    name = {"integer": "int", "double": "float"}.get(name, name)
    size = None if length is None else -1 if length.lower() == "max" else int(length)
    if name in ("decimal", "numeric"):
        return Declared(name="decimal", length=size if size is not None else 18, scale=int(scale or 0))
    if size is None and name in ("datetime2", "datetimeoffset", "time"):
        size = 7
    return Declared(name=name, length=size)


_WIRE: dict[str, Callable[[], ColumnType]] = {
    "BIGINT": lambda: Integer(8),
    "INTEGER": lambda: Integer(4),
    "SMALLINT": lambda: Integer(2),
    "UTINYINT": lambda: Integer(1),
    "TINYINT": lambda: Integer(2),
    "HUGEINT": lambda: Decimal(38, 0),
    "DOUBLE": lambda: Float(8),
    "FLOAT": lambda: Float(4),
    "BOOLEAN": Bit,
    "DATE": Date,
    "TIME": Time,
    "TIMESTAMP": DateTime2,
    "TIMESTAMP WITH TIME ZONE": DateTimeOffset,
    "UUID": UniqueIdentifier,
    "BLOB": lambda: VarBinary(8000),
    '"NULL"': lambda: Integer(4),
}
_NAMES = {
    "BIGINT": "bigint", "INTEGER": "int", "SMALLINT": "smallint", "UTINYINT": "tinyint", "TINYINT": "smallint",
    "HUGEINT": "decimal(38,0)", "DOUBLE": "float", "FLOAT": "real", "BOOLEAN": "bit", "DATE": "date",
    "TIME": "time(6)", "TIMESTAMP": "datetime2(6)", "TIMESTAMP WITH TIME ZONE": "datetimeoffset(6)",
    "UUID": "uniqueidentifier", "BLOB": "varbinary(8000)",
}  # fmt: skip
_DUCK_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def wire_type(duckdb_type: str) -> ColumnType:
    found = _DUCK_DECIMAL.match(duckdb_type)
    if found:
        return Decimal(int(found.group(1)), int(found.group(2)))
    return _WIRE.get(duckdb_type, lambda: NVarChar(4000))()


def system_type_name(duckdb_type: str) -> str:
    found = _DUCK_DECIMAL.match(duckdb_type)
    if found:
        return f"decimal({found.group(1)},{found.group(2)})"
    return _NAMES.get(duckdb_type, "nvarchar(4000)")
