"""Acceptance metrics of files, as a source and as a target: streamed, never held.

Row and null counts come from the decoded batches; a required Parquet column has no place for a NULL and is not decoded
for its count. Distinct counts are exact: each column's distinct values are kept
as one Arrow array, merged when as much new has gathered as is already known (amortised linear), and bounded: past
MAX_DISTINCT_BYTES the probe stops with `metric_memory_exceeded` instead of guessing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors.files.sink.target_directory import TargetDirectory
from dpone_core.declared.files import MAX_DISTINCT_BYTES
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.source import ExtractRequest, SourcePort

from .part_files import read_part

_FIRST_MERGE_ROWS: Final = 262_144


class SourceMetricProbe:
    """MetricProbe over the files of an extract request; one pass over the columns asked for."""

    def __init__(self, source: SourcePort) -> None:
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError(
                "metrics of a source need an extract request, and the request has none", code="source_request_invalid"
            )
        extract, window = request.extract, request.extract.window
        schema = self._source.describe(extract)
        required = self._required_columns(extract)
        counted = replace(request, null_counts=tuple(name for name in request.null_counts if name not in required))
        read = _columns_to_read(counted, schema, () if window is None else (window.column,))
        answer = _count(counted, self._source.open_stream(extract, read).batches())
        nulls = {name: answer.nulls.get(name, 0) for name in request.null_counts}
        return replace(answer, nulls=nulls).as_mapping(request)

    def _required_columns(self, extract: ExtractRequest) -> frozenset[str]:
        """Columns that cannot be NULL because of the files themselves; a declaration alone does not count."""
        if extract.format not in (None, "parquet"):
            return frozenset()
        undeclared = replace(extract, reading=replace(extract.reading, not_null=()))
        return frozenset(column.name for column in self._source.describe(undeclared).columns if not column.nullable)


class TargetMetricProbe:
    """MetricProbe over every visible file of a target; a column that a file lacks is NULL in its rows."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.table is None:
            raise ConnectorError(
                "metrics of a sink need a table, and the request names none", code="source_request_invalid"
            )
        target = TargetDirectory(base=self._base, table=request.table)
        known = target.describe()
        if known is None:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        read = _columns_to_read(request, known.schema)
        batches = (batch for part in target.parts() for batch in read_part(part, read))
        return _count(request, batches).as_mapping(request)


def _columns_to_read(request: MetricRequest, schema: TableSchema, needed: tuple[str, ...] = ()) -> TableSchema:
    """The columns to read; the first one when only rows are counted. Raises ConnectorError `metric_column_unknown`."""
    asked = {*request.null_counts, *request.distinct_counts}
    for name in asked - set(schema.names):
        raise ConnectorError(f"column {name!r} is not in the dataset", code="metric_column_unknown")
    columns = tuple(column for column in schema.columns if column.name in asked.union(needed))
    return TableSchema(columns=columns or schema.columns[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    rows: int
    nulls: Mapping[str, int]
    distincts: Mapping[str, int]

    def as_mapping(self, request: MetricRequest) -> Mapping[str, object]:
        answer: dict[str, object] = {"null_counts": dict(self.nulls), "distinct_counts": dict(self.distincts)}
        return answer | {"row_count": self.rows} if request.row_count else answer


def _count(request: MetricRequest, batches: Iterable[pa.RecordBatch]) -> _Counts:
    rows = 0
    nulls = dict.fromkeys(request.null_counts, 0)
    distincts = {name: _DistinctValues() for name in request.distinct_counts}
    for batch in batches:
        rows += batch.num_rows
        for name in nulls:
            nulls[name] += batch.column(name).null_count
        for name, values in distincts.items():
            values.add(batch.column(name))
        _refuse_many(distincts)
    counted = {name: values.count() for name, values in distincts.items()}
    _refuse_many(distincts)
    return _Counts(rows=rows, nulls=nulls, distincts=counted)


def _refuse_many(distincts: Mapping[str, _DistinctValues]) -> None:
    """Raises ConnectorError for the greatest column when all together hold too much."""
    if sum(values.held_bytes for values in distincts.values()) > MAX_DISTINCT_BYTES:
        name = max(distincts, key=lambda each: distincts[each].held_bytes)
        raise ConnectorError(
            f"column {name!r} has more distinct values than the probe may hold",
            code="metric_memory_exceeded",
            fix="ask for distinct counts of key columns only",
        )


class _DistinctValues:
    """The distinct non-null values of one column."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._chunks: list[pa.Array] = []
        self._known_rows = 0
        self._pending_rows = 0

    def add(self, values: pa.Array) -> None:
        fresh = pc.unique(values).drop_null()
        self._chunks.append(fresh)
        self._pending_rows += len(fresh)
        if self._pending_rows > max(self._known_rows, _FIRST_MERGE_ROWS):
            self._merge()

    def count(self) -> int:
        self._merge()
        return self._known_rows

    def _merge(self) -> None:
        if not self._chunks:
            return
        known = pc.unique(pa.chunked_array(self._chunks))
        self._chunks, self._known_rows, self._pending_rows = [known], len(known), 0
        self.held_bytes = known.nbytes
