"""Joins a driver's small batches into fewer large ones, limited by rows and by bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from .cast import MAX_BATCH_ROWS

MAX_BATCH_BYTES: Final = 32 << 20


def join_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches. A batch is sent when it holds 65,536 rows or 32 MiB; one wide batch may be
    larger."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pending and (rows + batch.num_rows > MAX_BATCH_ROWS or size >= MAX_BATCH_BYTES):
            yield pa.concat_batches(pending)
            pending, rows, size = [], 0, 0
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if pending:
        yield pa.concat_batches(pending)
