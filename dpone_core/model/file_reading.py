"""What a manifest declares about files that do not describe themselves: columns, CSV dialect and absent NDJSON keys."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

_PLAIN: Final = "boolean|int8|int16|int32|int64|uint8|uint16|uint32|uint64|float32|float64|string|binary|date|uuid"
DECLARED_TYPE_PATTERN: Final = (
    rf"^({_PLAIN}|(time|timestamp|timestamp_tz)(\([0369]\))?|decimal\(([1-9]|[1-6][0-9]|7[0-6]),(0|[1-9][0-9]?)\))$"
)
"""Types as messages print them; fractions are those that every engine and Arrow keep."""
DEFAULT_FRACTION: Final = 6


class CsvDelimiter(StrEnum):
    """Character between the values of a CSV line, by the word a manifest uses."""

    COMMA = "comma"
    SEMICOLON = "semicolon"
    TAB = "tab"
    PIPE = "pipe"

    @property
    def character(self) -> str:
        """The character itself."""
        return {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}[self.value]


class MissingKeys(StrEnum):
    """What it means when an NDJSON object lacks a declared key: an error (`refuse`) or NULL (`as_null`)."""

    REFUSE = "refuse"
    AS_NULL = "as_null"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """CSV as RFC 4180 defines it, with one delimiter. An unquoted value equal to `null` is read as NULL."""

    delimiter: CsvDelimiter = CsvDelimiter.COMMA
    header: bool = True
    null: str = "\\N"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """How files are read. Empty `columns` means that the file names its own; a NULL in a `not_null` column stops the
    read. With `widen` files that describe themselves may lack columns and have narrower types.
    """

    columns: tuple[Column, ...] = ()
    not_null: tuple[str, ...] = ()
    widen: bool = False
    csv: CsvDialect = field(default_factory=CsvDialect)
    missing: MissingKeys = MissingKeys.REFUSE


def declared_type(text: str) -> ColumnType | None:
    """Parses a column type as a manifest writes it. Returns None for any other text, and for a decimal with scale >
    precision.
    """
    if re.fullmatch(DECLARED_TYPE_PATTERN, text) is None:
        return None
    name, _, digits = text.rstrip(")").partition("(")
    first, _, second = digits.partition(",")
    kind = ColumnKind(name)
    if kind is ColumnKind.DECIMAL:
        precision, scale = int(first), int(second)
        return ColumnType(kind=kind, precision=precision, scale=scale) if scale <= precision else None
    if kind in (ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        return ColumnType(kind=kind, fraction=int(first) if first else DEFAULT_FRACTION)
    return ColumnType(kind=kind)
