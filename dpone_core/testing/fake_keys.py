"""Key handling of the in-memory sink: refuses keys that identify no row, merges by key, replaces by partition."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import PartitionGranularity
from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, object]

_CHARACTERS: Final = {PartitionGranularity.DAY: 10, PartitionGranularity.MONTH: 7, PartitionGranularity.YEAR: 4}
_DATED: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


def refuse_keys(request: StageRequest) -> None:
    """Raises ConnectorError for a merge key or a partition key that the request's schema cannot have."""
    if _merges(request):
        columns = [request.schema.find(name) for name in request.unique_key if name not in request.target_only]
        if not columns or any(c is None or c.type.kind.value.startswith("float") for c in columns):
            raise ConnectorError("the unique key identifies no row", code="merge_key_unsupported")
    partition = request.physical_design.partition_by
    column = request.schema.find(partition.column) if partition is not None else None
    if partition is None and request.strategy is not StrategyMode.PARTITION_REPLACE:
        return
    if partition is None or column is None or (partition.granularity in _CHARACTERS and column.type.kind not in _DATED):
        raise ConnectorError("the partition key forms no partitions", code="physical_design_mismatch")


def refuse_null_keys(request: StageRequest, batch: pa.RecordBatch) -> None:
    """Raises ConnectorError, code merge_key_null, when a merge key of the batch holds NULL."""
    for name in request.unique_key if _merges(request) else ():
        if batch.column(name).null_count:
            raise ConnectorError(f"key column {name!r} is NULL", code="merge_key_null")


def refuse_repeated_keys(request: StageRequest, rows: list[Row]) -> None:
    """Raises ConnectorError, code merge_key_duplicate, when two staged rows have the same merge key."""
    keys = Counter(_key(row, request) for row in rows) if _merges(request) else Counter()
    if any(count > 1 for count in keys.values()):
        raise ConnectorError(f"the key {request.unique_key} is not unique", code="merge_key_duplicate")


def publish_rows(request: StageRequest, target: list[Row] | None, staged: list[Row]) -> tuple[list[Row], int]:
    """Rows of the target after publishing the staged rows, and the number of rows that a merge updated."""
    if target is None or request.strategy is StrategyMode.FULL_REFRESH:
        return list(staged), 0
    match request.strategy:
        case StrategyMode.INCREMENTAL_MERGE:
            return _merge(request, target, staged)
        case StrategyMode.PARTITION_REPLACE:
            replaced = {_partition(row, request) for row in staged}
            return [*(row for row in target if _partition(row, request) not in replaced), *staged], 0
        case _:
            return [*target, *staged], 0


def _merge(request: StageRequest, target: list[Row], staged: list[Row]) -> tuple[list[Row], int]:
    arriving = {_key(row, request) for row in staged}
    old = {_key(row, request): row for row in target if _key(row, request) in arriving}
    kept = [row for row in target if _key(row, request) not in arriving]
    if len(old) != len(target) - len(kept):
        raise ConnectorError(f"the key {request.unique_key} is not unique in the target", code="merge_key_duplicate")
    nothing: Row = {}
    fresh = [
        row | {name: old.get(_key(row, request), nothing).get(name) for name in request.target_only} for row in staged
    ]
    return [*kept, *fresh], len(old)


def _merges(request: StageRequest) -> bool:
    return request.strategy is StrategyMode.INCREMENTAL_MERGE


def _key(row: Row, request: StageRequest) -> tuple[object, ...]:
    return tuple(row[name] for name in request.unique_key)


def _partition(row: Row, request: StageRequest) -> object:
    partition = request.physical_design.partition_by
    assert partition is not None
    value = row[partition.column]
    return str(value)[: _CHARACTERS[partition.granularity]] if partition.granularity in _CHARACTERS else value
