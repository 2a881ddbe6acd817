"""Moves rows from source to sink: one thread reads ahead into a queue of two batches, the caller writes them.

The queue bounds memory whatever the size of the source; rows stay in Arrow. The source rows of every load are counted
here, from the batches that were handed to the sink.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.errors import ETLExecutionError
from dpone_core.model.special_values import ConvertedValues, SpecialValueRule, flag_name
from dpone_core.model.table_schema import TableSchema, is_framework_column
from dpone_core.ports.runtime import Cancellation, Progress, RowForecast
from dpone_core.ports.source import BatchStream, CountedStream

QUEUE_BATCHES = 2
_POLL_SECONDS = 0.2


class UncountedValuesError(ETLExecutionError):
    """A source converted special values without the flag columns that say in which rows; they cannot be counted."""

    code = "special_values_uncounted"


@dataclass(slots=True)
class PumpCounters:
    """Rows and Arrow bytes handed to the sink so far, and per special-value rule the values converted in those rows.

    Complete once the iterator is exhausted. `ended_at` is when the source had delivered its last batch.
    """

    rows: int = 0
    size_bytes: int = 0
    converted: list[int] = field(default_factory=list)
    ended_at: datetime | None = None


@dataclass(slots=True)
class Pump:
    """Reads one stream, once. `observe` is called with every batch just before the sink gets it.

    For each rule of `special_values` the source adds a flag column; the pump sums the flags and drops the columns.
    `now` tells the time at which the source has come to its end. Closing (or abandoning) the iterator stops the reader
    thread and closes the stream.
    """

    stream: BatchStream
    payload: TableSchema
    progress: Progress
    cancellation: Cancellation
    observe: Callable[[pa.RecordBatch], None] | None = None
    special_values: tuple[SpecialValueRule, ...] = ()
    now: Callable[[], datetime] | None = None
    counters: PumpCounters = field(default_factory=PumpCounters)

    @property
    def converted_values(self) -> tuple[ConvertedValues, ...]:
        """How many values each rule has converted in the rows handed on so far."""
        return tuple(
            ConvertedValues(rule=rule, count=count)
            for rule, count in zip(self.special_values, self.counters.converted, strict=True)
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches with the payload's columns in order; a column the source lacks is NULL.

        Raises what the reader raised, an interruption, and UncountedValuesError for missing flags.
        """
        self._forecast()
        self.counters.converted = [0] * len(self.special_values)
        ahead = _ReadAhead(self.stream, self.cancellation, self._end)
        ahead.start()
        try:
            for batch in ahead:
                self.cancellation.checkpoint()
                if self.special_values:
                    batch = self._count_flags(batch)
                self.counters.rows += batch.num_rows
                self.counters.size_bytes += batch.nbytes
                self.progress.rows(self.counters.rows, self.counters.size_bytes)
                shaped = _arrange_columns(batch, self.payload)
                if self.observe is not None:
                    self.observe(shaped)
                yield shaped
        finally:
            ahead.stop()

    def _end(self) -> None:
        self.counters.ended_at = None if self.now is None else self.now()

    def _count_flags(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = [flag_name(ordinal) for ordinal in range(len(self.special_values))]
        for ordinal, name in enumerate(names):
            index = batch.schema.get_field_index(name)
            flags = batch.column(index) if index >= 0 else None
            if flags is None or flags.type != pa.bool_() or flags.null_count:
                column = self.special_values[ordinal].column
                raise UncountedValuesError(
                    f"the source converted values of column {column!r} without saying in which rows; they are uncounted"
                )
            self.counters.converted[ordinal] += int(pc.sum(flags, min_count=0).as_py())
        return batch.select([name for name in batch.schema.names if name not in names])

    def _forecast(self) -> None:
        if isinstance(self.progress, RowForecast) and isinstance(self.stream, CountedStream):
            with suppress(ETLExecutionError):  # a forecast that fails must not fail the load
                expected = self.stream.expected_rows()
                if expected is not None:
                    self.progress.expect(expected)


class _ReadAhead:
    """A reader thread with a bounded queue. Its items: a batch, an exception to raise, or None at the end.

    A source may keep its caller waiting for hours, so the caller checks for an interruption while it waits.
    """

    def __init__(self, stream: BatchStream, cancellation: Cancellation, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended
        self._cancellation = cancellation
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(QUEUE_BATCHES)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="dpone-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Closes the stream, which ends a read that waits for a server, and returns when the reader thread has ended.

        The stream is closed again while the thread lives: a close just before a read began may have had no effect.
        """
        self._stopped.set()
        self._stream.close()
        self._thread.join(_POLL_SECONDS)
        while self._thread.is_alive():
            self._stream.close()
            self._thread.join(_POLL_SECONDS)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (item := self._wait_for_item()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _wait_for_item(self) -> pa.RecordBatch | BaseException | None:
        while True:
            try:
                return self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                self._cancellation.checkpoint()

    def _read(self) -> None:
        try:
            for batch in self._stream.batches():
                if not self._offer(batch):
                    return
            self._ended()
            self._offer(None)
        except BaseException as error:  # noqa: BLE001 - carried to the writer's thread, raised there
            self._offer(error)
        finally:
            self._stream.close()

    def _offer(self, item: pa.RecordBatch | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False


def _arrange_columns(batch: pa.RecordBatch, payload: TableSchema) -> pa.RecordBatch:
    if batch.schema.names == list(payload.names):
        return batch
    present = set(batch.schema.names)
    if any(is_framework_column(name) for name in present):
        raise UncountedValuesError(
            "the source delivered flag columns of special values, but no rule of this load counts them"
        )
    arrays = [batch.column(name) if name in present else pa.nulls(batch.num_rows) for name in payload.names]
    return pa.RecordBatch.from_arrays(arrays, names=list(payload.names))
