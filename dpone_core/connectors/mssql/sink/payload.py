"""The rows of a load as statement parameters: cast strictly, and checked for values that SQL Server would round,
shorten or refuse.

Decimals, dates, times and uuids travel as text that the server reads alike in every language setting. As typed
parameters the driver would change them (a datetimeoffset has no parameter type, Python's times have six digits).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows, refuse_kind_change
from dpone_core.connectors._arrow.moments import all_within, digits_of, has_at_most, numbers_of
from dpone_core.connectors.mssql.odbc import pyodbc
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema

from .types import StoredColumn

MAX_PARAMETERS: Final = 2_000
"""Of one statement; SQL Server takes 2,100."""
MAX_ROWS: Final = 1_000
"""Of one VALUES."""
MAX_CHUNK_BYTES: Final = 8 << 20
_REFUSED: Final = "staged_value_refused"
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""0001-01-01 and 9999-12-31, in days of 1970."""
_DAY_SECONDS: Final = 86_400
_MAX_FRACTION: Final = 7
_TEXT: Final = (pyodbc.SQL_WVARCHAR, 64, 0)
_INPUTS: Final = {
    ColumnKind.BOOLEAN: (pyodbc.SQL_BIT, 0, 0),
    ColumnKind.FLOAT32: (pyodbc.SQL_DOUBLE, 0, 0),
    ColumnKind.FLOAT64: (pyodbc.SQL_DOUBLE, 0, 0),
    ColumnKind.STRING: (pyodbc.SQL_WVARCHAR, 0, 0),
    ColumnKind.BINARY: (pyodbc.SQL_VARBINARY, 0, 0),
    **dict.fromkeys(
        (
            ColumnKind.DECIMAL,
            ColumnKind.UINT64,
            ColumnKind.DATE,
            ColumnKind.TIME,
            ColumnKind.TIMESTAMP,
            ColumnKind.TIMESTAMP_TZ,
            ColumnKind.UUID,
        ),
        _TEXT,
    ),
}


class PayloadRows:
    """Reads the batches once, in chunks as large as one statement takes: flat lists of whole rows."""

    def __init__(
        self, payload: TableSchema, stored: tuple[StoredColumn, ...], batches: Iterable[pa.RecordBatch]
    ) -> None:
        schema = TableSchema(columns=tuple(column.column for column in stored))
        refuse_kind_change(payload, schema)
        self._stored = stored
        self._cast = StrictCast(schema, code=_REFUSED)
        self._batches = batches
        self.inputs = tuple(_INPUTS.get(column.column.type.kind, (pyodbc.SQL_BIGINT, 0, 0)) for column in stored)
        self.sent = 0

    def chunks(self) -> Iterator[list[object]]:
        most = max(min(MAX_ROWS, MAX_PARAMETERS // len(self._stored)), 1)
        for batch in limit_batch_rows(self._batches):
            cast = self._cast(batch)
            for stored, values in zip(self._stored, cast.columns, strict=True):
                if not _fits(stored, values):
                    raise _misfit(stored.column)
            rows = max(min(most, MAX_CHUNK_BYTES * cast.num_rows // max(cast.nbytes, 1)), 1)
            for start in range(0, cast.num_rows, rows):
                part = cast.slice(start, rows)
                self.sent += part.num_rows
                columns = [
                    _parameters(stored.column, values)
                    for stored, values in zip(self._stored, part.columns, strict=True)
                ]
                yield [value for row in zip(*columns, strict=True) for value in row]


def _misfit(column: Column) -> ConnectorError:
    return ConnectorError(
        f"column {column.name!r}: SQL Server does not take a value of it exactly",
        code=_REFUSED,
        fix="look for NaN, infinities, years outside 1 to 9999, and text longer than the column holds",
    )


def _fits(stored: StoredColumn, values: pa.Array) -> bool:
    match stored.column.type.kind:
        case ColumnKind.FLOAT32 | ColumnKind.FLOAT64:
            return pc.all(pc.is_finite(values), skip_nulls=True).as_py() is not False
        case ColumnKind.STRING:
            return stored.longest is None or _longest_text(values) <= stored.longest
        case ColumnKind.BINARY:
            return stored.longest is None or _greatest(pc.binary_length(values)) <= stored.longest
        case ColumnKind.DATE:
            return all_within(values.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
        case ColumnKind.TIME | ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            return _moments_fit(stored.column, values)
        case _:
            return True


def _moments_fit(column: Column, values: pa.Array) -> bool:
    if not has_at_most(values, 6 if column.type.fraction is None else column.type.fraction):
        return False
    day = _DAY_SECONDS * 10 ** digits_of(values)
    return column.type.kind is ColumnKind.TIME or all_within(
        numbers_of(values), max(_FIRST_DAY * day, -(2**63)), min((_LAST_DAY + 1) * day, 2**63) - 1
    )


def _longest_text(values: pa.Array) -> int:
    """The length of the longest text in UTF-16 units, where a character beyond the basic plane takes two."""
    characters = _greatest(pc.utf8_length(values))
    if _greatest(pc.binary_length(values)) == characters:
        return characters
    return max((len(text.encode("utf-16-le")) // 2 for text in values.to_pylist() if text is not None), default=0)


def _greatest(lengths: pa.Array) -> int:
    return int(pc.max(lengths).as_py() or 0)


def _parameters(column: Column, values: pa.Array) -> Sequence[object]:
    kind = column.type.kind
    if kind is ColumnKind.UINT64:
        return _format_values(values, str)
    if kind is ColumnKind.DECIMAL:
        return _format_values(values, lambda value: format(value, "f"))
    if kind is ColumnKind.DATE:
        return _format_values(values, lambda value: str(value.isoformat()))
    if kind is ColumnKind.UUID:
        return _format_values(values, lambda value: str(uuid.UUID(bytes=value)))
    if kind is ColumnKind.TIME:
        return _seven_digits(values.cast(pa.string()))
    if kind is ColumnKind.TIMESTAMP:
        return _seven_digits(values.cast(pa.string()))
    if kind is ColumnKind.TIMESTAMP_TZ:
        wall = _seven_digits(values.cast(pa.timestamp(values.type.unit)).cast(pa.string()))
        return [None if text is None else f"{text}+00:00" for text in wall]
    return list(values.to_pylist())


def _format_values(values: pa.Array, spelling: Callable[[Any], str]) -> list[object]:
    return [None if value is None else spelling(value) for value in values.to_pylist()]


def _seven_digits(texts: pa.Array) -> list[str | None]:
    """The texts without their last two digits: nanoseconds are written with nine, and the last two are zeros."""
    found: list[str | None] = []
    for text in texts.to_pylist():
        whole, point, digits = (text or "").partition(".")
        found.append(None if text is None else f"{whole}{point}{digits[:_MAX_FRACTION]}")
    return found
