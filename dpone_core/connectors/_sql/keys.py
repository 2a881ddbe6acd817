"""Rules for the unique key of a merge, the same in every SQL sink. Errors name key columns and never values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

if TYPE_CHECKING:
    import pyarrow as pa

_INEXACT: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})
_DUPLICATE: Final = "merge_key_duplicate"


def check_merge_key(request: StageRequest) -> None:
    """Refuses, before the first row, a merge without a key, with a key column that is not extracted, or with one of a
    floating-point type (NaN equals nothing). Raises ConnectorError `merge_key_unsupported`."""
    if request.strategy is not StrategyMode.INCREMENTAL_MERGE:
        return
    if not request.unique_key:
        raise ConnectorError(
            "incremental_merge needs a unique_key, and the manifest gives none", code="merge_key_unsupported"
        )
    for name in request.unique_key:
        column = request.schema.find(name)
        if column is None or name in request.target_only:
            raise ConnectorError(f"key column {name!r} is not a column of the source", code="merge_key_unsupported")
        if column.type.kind in _INEXACT:
            raise ConnectorError(
                f"key column {name!r} is a floating-point number, which cannot identify a row",
                code="merge_key_unsupported",
                fix="cast it to a decimal in options.query, or choose another unique_key",
            )


def refuse_null_keys(request: StageRequest, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes the batches on. For a merge it raises ConnectorError `merge_key_null` at the first batch with NULL in a
    key column; other strategies may have NULL there."""
    keys = request.unique_key if request.strategy is StrategyMode.INCREMENTAL_MERGE else ()
    for batch in batches:
        for name in keys:
            nulls = batch.column(name).null_count
            if nulls:
                raise ConnectorError(
                    f"key column {name!r} is NULL in {nulls} rows of one batch",
                    code="merge_key_null",
                    fix="give them a value or filter them in options.query, or choose another unique_key",
                )
        yield batch


def refuse_repeated_keys(request: StageRequest, repeated: int) -> None:
    """Raises ConnectorError `merge_key_duplicate` unless `repeated`, the number of key values that more than one staged
    row has, is 0."""
    if repeated:
        raise ConnectorError(
            f"every value of the key ({_key_names(request)}) must be in one staged row; {repeated} values are"
            " in several",
            code=_DUPLICATE,
            fix="keep one row per key in options.query, or choose another unique_key",
        )


def refuse_ambiguous_target(request: StageRequest, *, staged_matches: int, target_matches: int) -> None:
    """Raises ConnectorError `merge_key_duplicate` when the target has several rows of one staged key: a merge could not
    tell which of them to update. `target_matches` are rows, `staged_matches` key values."""
    if staged_matches != target_matches:
        raise ConnectorError(
            f"each of the {staged_matches} staged values of the key ({_key_names(request)}) that the target"
            f" has must be there once; {target_matches} rows have them",
            code=_DUPLICATE,
            fix="remove the duplicates from the target, or load it once with full_refresh",
        )


def _key_names(request: StageRequest) -> str:
    return ", ".join(repr(name) for name in request.unique_key)
