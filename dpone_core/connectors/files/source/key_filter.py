"""The rows of Parquet files that lie in one key range, and the row groups in which none can lie.

Every row is compared by its decoded value; a file's statistics only leave out whole row groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors._sql.extract import range_key
from dpone_core.connectors._sql.key_ranges import key_text
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyRange
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema

from .cursor import CURSOR_KINDS, cursor_text

if TYPE_CHECKING:
    import pyarrow.dataset as ds

KEY_KINDS: Final = CURSOR_KINDS | {ColumnKind.DECIMAL, ColumnKind.UUID}
_MOMENTS: Final = frozenset({ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
_TICKS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_EPOCH: Final = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class _End:
    compare: Callable[..., pa.Array]
    value: pa.Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFilter:
    """`key` is a column of the rows that are read."""

    key: Column
    bounds: KeyRange
    ends: tuple[_End, ...] = field(default=(), repr=False)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = batch.column(self.key.name)
        if self.bounds.is_null_partition:
            return batch.filter(pc.is_null(values))
        for end in self.ends:
            batch = batch.filter(end.compare(values, end.value))
            values = batch.column(self.key.name)
        return batch

    def row_groups(self, path: Path) -> list[int] | None:
        """The row groups that may hold rows of the range; None where statistics say nothing about it."""
        import pyarrow.dataset as ds
        from pyarrow.fs import LocalFileSystem

        fragment = ds.ParquetFileFormat().make_fragment(str(path), LocalFileSystem())
        found = fragment.physical_schema
        if self.key.name not in found.names or found.field(self.key.name).type != arrow_type(self.key.type):
            return None
        kept = fragment.split_by_row_group(filter=self._expression(pc.field(self.key.name)))
        return [group.id for each in kept for group in each.row_groups]

    def _expression(self, key: ds.Expression) -> ds.Expression:
        if self.bounds.is_null_partition:
            return key.is_null()
        expression = key.is_valid()
        for end in self.ends:
            expression &= end.compare(key, end.value)
        return expression


def key_filter(schema: TableSchema, column: str, bounds: KeyRange) -> KeyFilter:
    """ConnectorError `partition_key_unsupported`, or `source_value_out_of_range` for a bound of another kind."""
    key = file_key(schema, column)
    ends = []
    if bounds.lower is not None:
        ends.append(_End(pc.greater_equal, _bound_scalar(key, bounds.lower, rounds_up=True)))
    if bounds.upper is not None:
        compare = pc.less_equal if bounds.include_upper else pc.less
        ends.append(_End(compare, _bound_scalar(key, bounds.upper, rounds_up=not bounds.include_upper)))
    return KeyFilter(key=key, bounds=bounds, ends=tuple(ends))


def file_key(schema: TableSchema, column: str) -> Column:
    return range_key(schema, column, KEY_KINDS, "files")


def file_key_text(key: Column, value: pa.Scalar) -> str | None:
    """A key as `KeyRange` writes it; None for NULL."""
    if not value.is_valid:
        return None
    match key.type.kind:
        case ColumnKind.UUID:
            return str(UUID(bytes=value.as_py()))
        case ColumnKind.DECIMAL:
            return key_text(key, f"{value.as_py():f}")
        case _:
            return key_text(key, cursor_text(value))


def _bound_scalar(key: Column, text: str, *, rounds_up: bool) -> pa.Scalar:
    """A bound in the column's type; one with more digits is rounded to the next tick that compares the same."""
    try:
        return _exact_scalar(key, text, rounds_up)
    except (pa.ArrowException, ValueError, OverflowError, InvalidOperation) as error:
        raise ConnectorError(
            f"a bound of {key.name!r} is not a {key.type}", code="source_value_out_of_range"
        ) from error


def _exact_scalar(key: Column, text: str, rounds_up: bool) -> pa.Scalar:
    wanted = arrow_type(key.type)
    match key.type.kind:
        case ColumnKind.UUID:
            return pa.scalar(UUID(text).bytes, wanted)
        case ColumnKind.DECIMAL:
            return pa.scalar(Decimal(text), wanted)
        case ColumnKind.STRING:
            return pa.scalar(text, wanted)
        case kind if kind in _MOMENTS:
            ticks, rest = divmod(_nanoseconds(text, zoned=kind is ColumnKind.TIMESTAMP_TZ), _TICKS[wanted.unit])
            return pa.scalar(ticks + (1 if rest and rounds_up else 0), pa.int64()).cast(wanted)
        case ColumnKind.DATE:
            return pa.scalar(text).cast(wanted)
        case _:
            return pa.scalar(int(text), wanted)


def _nanoseconds(text: str, *, zoned: bool) -> int:
    if zoned is not text.endswith("+00:00"):
        raise ValueError("a wall clock is not an instant")
    whole, _, fraction = text.removesuffix("+00:00").partition(".")
    span = datetime.fromisoformat(whole) - _EPOCH
    return (span.days * 86_400 + span.seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
