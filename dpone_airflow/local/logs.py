"""The log of one container: lines with their time, bounded in memory, followed by any number of readers."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from dpone_airflow.local.pulse import Pulse
from dpone_airflow.local.wire import log_timestamp

LINE_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without its line end."""

    time_ns: int
    text: bytes

    def render(self, *, timestamps: bool) -> bytes:
        prefix = log_timestamp(self.time_ns).encode() + b" " if timestamps else b""
        return prefix + self.text + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which lines a reader wants: the last `tail_lines`, none older than `since_seconds`; and whether to wait."""

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: float | None = None


class LogBuffer:
    """Keeps the last `limit_bytes` of a container's output and says so where older lines are missing.

    Lines have absolute positions, so a reader that falls behind learns how many lines it lost. A line longer than
    LINE_LIMIT_BYTES is cut into several.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lines: deque[LogLine] = deque()
        self._size_bytes = 0
        self._dropped = 0
        self._partial = b""
        self._closed = False
        self._pulse = Pulse()

    def feed(self, chunk: bytes) -> None:
        """Appends output as the process wrote it; a line becomes visible once its end has been seen."""
        *complete, self._partial = (self._partial + chunk).split(b"\n")
        while len(self._partial) >= LINE_LIMIT_BYTES:
            complete.append(self._partial[:LINE_LIMIT_BYTES])
            self._partial = self._partial[LINE_LIMIT_BYTES:]
        for text in complete:
            self._append(text)
        if complete:
            self._pulse.fire()

    def close(self) -> None:
        """No output follows: a last line without an end becomes visible and followers finish."""
        if self._partial:
            self._append(self._partial)
            self._partial = b""
        self._closed = True
        self._pulse.fire()

    def tail(self, lines: int) -> bytes:
        """The last lines, joined."""
        return b"\n".join(line.text for line in list(self._lines)[-lines:])

    def texts(self, limit_bytes: int) -> list[str]:
        """The last lines that fit into the limit, readable."""
        lines: deque[str] = deque()
        for line in reversed(self._lines):
            limit_bytes -= len(line.text) + 1
            if limit_bytes < 0:
                break
            lines.appendleft(line.text.decode(errors="replace"))
        return list(lines)

    async def read(self, query: LogQuery) -> AsyncIterator[list[LogLine]]:
        """Yields the wanted lines in order, as many at a time as there are; with `follow`, ends only after `close`."""
        position = self._start(query)
        oldest_ns = time.time_ns() - int((query.since_seconds or 0) * 1e9) if query.since_seconds else 0
        while True:
            beat = self._pulse.beat()
            batch = []
            if position < self._dropped:
                batch = [self._loss_notice(self._dropped - position)]
                position = self._dropped
            if position < self._end():
                unread = itertools.islice(self._lines, position - self._dropped, None)
                batch += [line for line in unread if line.time_ns >= oldest_ns]
                position = self._end()
            if batch:
                yield batch
                continue
            if self._closed or not query.follow:
                return
            await beat.wait()

    def _start(self, query: LogQuery) -> int:
        return 0 if query.tail_lines is None else max(self._dropped, self._end() - query.tail_lines)

    def _end(self) -> int:
        return self._dropped + len(self._lines)

    def _append(self, text: bytes) -> None:
        self._lines.append(LogLine(time.time_ns(), text))
        self._size_bytes += len(text) + 1
        while self._size_bytes > self._limit_bytes and len(self._lines) > 1:
            self._size_bytes -= len(self._lines.popleft().text) + 1
            self._dropped += 1

    def _loss_notice(self, lines: int) -> LogLine:
        kept = f"{self._limit_bytes / (1 << 20):g} MiB"
        text = f"[local pod runner: {lines} earlier lines dropped, the last {kept} of a container are kept]"
        time_ns = self._lines[0].time_ns if self._lines else time.time_ns()
        return LogLine(time_ns, text.encode())
