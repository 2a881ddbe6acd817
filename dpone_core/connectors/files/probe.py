"""Acceptance metrics of Parquet files: streamed, never held.

Row and null counts come from the decoded batches. Distinct counts are exact: each column's distinct values are kept
as one Arrow array, merged when as much new has gathered as is already known (amortised linear), and bounded: past
MAX_DISTINCT_BYTES the probe stops with `metric_memory_exceeded` instead of guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.metrics import MetricRequest

from .reader import ParquetSource

MAX_DISTINCT_BYTES: Final = 512 * 1024 * 1024
_FIRST_MERGE_ROWS: Final = 262_144


class ParquetMetricProbe:
    """MetricProbe over the files of an extract request; one pass over the columns asked for."""

    def __init__(self, source: ParquetSource) -> None:
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema = self._source.describe(request.extract)
        asked = {*request.null_counts, *request.distinct_counts}
        for name in asked - set(schema.names):
            raise ConnectorError(f"column {name!r} is not in the source", code="metric_column_unknown")
        window = request.extract.window
        if window is not None:
            asked.add(window.column)
        columns = tuple(column for column in schema.columns if column.name in asked) or schema.columns[:1]
        rows = 0
        nulls = dict.fromkeys(request.null_counts, 0)
        distincts = {name: _DistinctValues(name) for name in request.distinct_counts}
        for batch in self._source.open_stream(request.extract, TableSchema(columns=columns)).batches():
            rows += batch.num_rows
            for name in nulls:
                nulls[name] += batch.column(name).null_count
            for name, values in distincts.items():
                values.add(batch.column(name))
        counts = {name: values.count() for name, values in distincts.items()}
        answer: dict[str, object] = {"null_counts": nulls, "distinct_counts": counts}
        if request.row_count:
            answer["row_count"] = rows
        return answer


class _DistinctValues:
    """The distinct non-null values of one column."""

    def __init__(self, name: str) -> None:
        self._name = name
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
        if known.nbytes > MAX_DISTINCT_BYTES:
            raise ConnectorError(
                f"column {self._name!r} has more distinct values than the probe may hold",
                code="metric_memory_exceeded",
                fix="ask for distinct counts of key columns only",
            )
        self._chunks, self._known_rows, self._pending_rows = [known], len(known), 0
