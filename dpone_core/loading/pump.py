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

from dpone_core.errors import ETLExecutionError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.cancellation import Cancellation
from dpone_core.ports.progress import Progress, RowForecast
from dpone_core.ports.source import BatchStream, CountedStream

QUEUE_BATCHES = 2
_POLL_SECONDS = 0.2


@dataclass(slots=True)
class PumpCounters:
    """Rows and Arrow bytes handed to the sink so far; complete once the iterator is exhausted."""

    rows: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Pump:
    """Iterates a stream once; `observe` sees every batch just before the sink does.

    Closing (or abandoning) the iterator stops the reader thread and closes the stream.
    """

    stream: BatchStream
    payload: TableSchema
    progress: Progress
    cancellation: Cancellation
    observe: Callable[[pa.RecordBatch], None] | None = None
    counters: PumpCounters = field(default_factory=PumpCounters)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches with the payload's columns in order, those the source lacks as NULL; raises reader errors."""
        self._forecast()
        ahead = _ReadAhead(self.stream, self.cancellation)
        ahead.start()
        try:
            for batch in ahead:
                self.cancellation.checkpoint()
                self.counters.rows += batch.num_rows
                self.counters.size_bytes += batch.nbytes
                self.progress.rows(self.counters.rows, self.counters.size_bytes)
                shaped = _shaped(batch, self.payload)
                if self.observe is not None:
                    self.observe(shaped)
                yield shaped
        finally:
            ahead.stop()

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
    arrays = [batch.column(name) if name in present else pa.nulls(batch.num_rows) for name in payload.names]
    return pa.RecordBatch.from_arrays(arrays, names=list(payload.names))
