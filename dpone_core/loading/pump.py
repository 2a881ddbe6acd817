"""The hot path: one reader thread, a queue of two batches, the caller as the one writer.

Memory is bounded by the queue whatever the result size; rows stay in Arrow. Source rows are counted here, from the
batches that flowed to the sink, on every route (design "Quality").
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

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
    """A source converted values and did not say in which rows."""

    code = "special_values_uncounted"


@dataclass(slots=True)
class PumpCounters:
    """Rows and Arrow bytes handed to the sink so far, and the values of them that each rule converted; complete once
    the iterator is exhausted."""

    rows: int = 0
    size_bytes: int = 0
    converted: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Pump:
    """Iterates a stream once; `observe` sees every batch just before the sink does.

    `special_values` are the rules of the stream's request: their flags are summed here, of the very rows that go on,
    and go no further. Closing (or abandoning) the iterator stops the reader thread and closes the stream.
    """

    stream: BatchStream
    payload: TableSchema
    progress: Progress
    cancellation: Cancellation
    observe: Callable[[pa.RecordBatch], None] | None = None
    special_values: tuple[SpecialValueRule, ...] = ()
    counters: PumpCounters = field(default_factory=PumpCounters)

    @property
    def converted_values(self) -> tuple[ConvertedValues, ...]:
        """What each rule has converted of the rows so far."""
        return tuple(
            ConvertedValues(rule=rule, count=count)
            for rule, count in zip(self.special_values, self.counters.converted, strict=True)
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches with the payload's columns in order, those the source lacks as NULL; raises reader errors."""
        self._forecast()
        self.counters.converted = [0] * len(self.special_values)
        ahead = _ReadAhead(self.stream, self.cancellation)
        ahead.start()
        try:
            for batch in ahead:
                self.cancellation.checkpoint()
                if self.special_values:
                    batch = self._without_flags(batch)
                self.counters.rows += batch.num_rows
                self.counters.size_bytes += batch.nbytes
                self.progress.rows(self.counters.rows, self.counters.size_bytes)
                shaped = _shaped(batch, self.payload)
                if self.observe is not None:
                    self.observe(shaped)
                yield shaped
        finally:
            ahead.stop()

    def _without_flags(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = [flag_name(ordinal) for ordinal in range(len(self.special_values))]
        for ordinal, name in enumerate(names):
            index = batch.schema.get_field_index(name)
            flags = batch.column(index) if index >= 0 else None
            if flags is None or flags.type != pa.bool_() or flags.null_count:
                column = self.special_values[ordinal].column
                raise UncountedValuesError(f"column {column!r}: the source does not say which values it converted")
            self.counters.converted[ordinal] += int(pc.sum(flags, min_count=0).as_py())
        return batch.select([name for name in batch.schema.names if name not in names])

    def _forecast(self) -> None:
        if isinstance(self.progress, RowForecast) and isinstance(self.stream, CountedStream):
            with suppress(ETLExecutionError):  # how far a load is must not decide whether it runs
                expected = self.stream.expected_rows()
                if expected is not None:
                    self.progress.expect(expected)


class _ReadAhead:
    """Reader thread and bounded queue. Items: a batch, an exception to raise, or None at the end.

    A source may make its caller wait for hours: the wait looks for a termination, whatever thread it is in.
    """

    def __init__(self, stream: BatchStream, cancellation: Cancellation) -> None:
        self._stream = stream
        self._cancellation = cancellation
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(QUEUE_BATCHES)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="dpone-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the reader thread has ended; closing the stream first ends a read that a server makes wait.

        Closed again while it lasts: what came just before the read had begun may have gone unheard.
        """
        self._stopped.set()
        self._stream.close()
        self._thread.join(_POLL_SECONDS)
        while self._thread.is_alive():
            self._stream.close()
            self._thread.join(_POLL_SECONDS)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (item := self._awaited()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _awaited(self) -> pa.RecordBatch | BaseException | None:
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


def _shaped(batch: pa.RecordBatch, payload: TableSchema) -> pa.RecordBatch:
    if batch.schema.names == list(payload.names):
        return batch
    present = set(batch.schema.names)
    if any(is_framework_column(name) for name in present):
        raise UncountedValuesError("the source marks converted values that nobody counts")
    arrays = [batch.column(name) if name in present else pa.nulls(batch.num_rows) for name in payload.names]
    return pa.RecordBatch.from_arrays(arrays, names=list(payload.names))
