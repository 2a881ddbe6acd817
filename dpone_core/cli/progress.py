"""What a person or a log sees of a running load: a bar on a terminal, lines elsewhere. Never a row, SQL text or URL.

Everything goes to stderr. A bar is drawn where stderr is a terminal that can (`TERM` is not dumb) and a person may look
(`CI` is not set); `NO_COLOR` takes the colour away. Progress that cannot be written is dropped: it must fail no load.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, TextIO

from dpone_core.cli.console import TextSink
from dpone_core.cli.progress_line import PhaseState, bar_line, finished_line
from dpone_core.ports.runtime import Progress
from dpone_core.use_cases.call import SilentProgress

HEARTBEAT_SECONDS: Final = 10.0
_REDRAW_SECONDS: Final = 0.25
_KEPT_SECONDS: Final = 1.0
_ERASE: Final = "\r\x1b[2K"
_LOG: Final = logging.getLogger("dpone")


@contextmanager
def progress_on(
    stream: TextIO, mode: str, env: Mapping[str, str], *, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> Iterator[tuple[Progress, TextSink]]:
    """The progress of a run, and where its log records go meanwhile, so that they stand above a bar."""
    if mode == "none":
        yield SilentProgress(), stream
    elif mode != "log" and _can_draw(stream, env) and (mode == "bar" or not env.get("CI")):
        bar = BarProgress(stream, colour=not env.get("NO_COLOR"))
        with _ticking(bar.redraw, _REDRAW_SECONDS):
            try:
                yield bar, bar.above
            finally:
                bar.close()
    else:
        log = LogProgress(label="run", heartbeat_seconds=heartbeat_seconds)
        with _ticking(log.beat, heartbeat_seconds):
            yield log, stream


def _can_draw(stream: TextIO, env: Mapping[str, str]) -> bool:
    return stream.isatty() and env.get("TERM", "dumb") != "dumb"


@contextmanager
def _ticking(tick: Callable[[], None], seconds: float) -> Iterator[None]:
    """Calls `tick` from a thread of its own while the block runs: a phase without rows goes on being seen."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            tick()

    thread = threading.Thread(target=run, name="dpone-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(slots=True)
class LogProgress:
    """One line per phase, and one heartbeat with counters per `heartbeat_seconds` of a phase, rows or not."""

    label: str
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    _state: PhaseState = field(default_factory=lambda: PhaseState(name="", started=time.monotonic()))

    def phase(self, name: str) -> None:
        self._state = PhaseState(name=name, started=time.monotonic())
        _LOG.info("%s phase=%s", self.label, name)

    def rows(self, total_rows: int, total_bytes: int) -> None:
        self._state = replace(self._state, rows=total_rows, size_bytes=total_bytes)

    def expect(self, total_rows: int) -> None:
        self._state = replace(self._state, expected_rows=total_rows)

    def beat(self) -> None:
        state, now = self._state, time.monotonic()
        elapsed = state.elapsed(now)
        if not state.name or elapsed < self.heartbeat_seconds / 2:
            return
        told = f"{self.label} phase={state.name} seconds={elapsed:.0f}"
        if state.rows:
            told += f" rows={state.rows} bytes={state.size_bytes} rows_per_second={state.rate(now):.0f}"
        share = state.share()
        if share is not None:
            told += f" percent={100 * share:.0f}"
        _LOG.info("%s", told)


class BarProgress:
    """One line that is drawn again; a phase that moved rows or took a while leaves its last state behind."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        self._stream = stream
        self._colour = colour
        self._fine = (stream.encoding or "").lower().replace("-", "") == "utf8"
        self._guard = threading.RLock()
        self._state: PhaseState | None = None
        self._drawn = 0.0
        self.above: TextSink = _Above(self)

    def phase(self, name: str) -> None:
        with self._guard:
            self._leave()
            self._state = PhaseState(name=name, started=time.monotonic())
            self._draw()

    def rows(self, total_rows: int, total_bytes: int) -> None:
        with self._guard:
            if self._state is not None:
                self._state = replace(self._state, rows=total_rows, size_bytes=total_bytes)
            if time.monotonic() - self._drawn >= _REDRAW_SECONDS:
                self._draw()

    def expect(self, total_rows: int) -> None:
        with self._guard:
            if self._state is not None:
                self._state = replace(self._state, expected_rows=total_rows)

    def redraw(self) -> None:
        with self._guard:
            self._draw()

    def print_above(self, text: str) -> None:
        """A log record: the bar is taken away, and drawn again below it."""
        with self._guard:
            self._write(_ERASE + text)
            self._draw()

    def close(self) -> None:
        with self._guard:
            self._leave()
            self._state = None

    def _leave(self) -> None:
        state, now = self._state, time.monotonic()
        if state is None:
            return
        kept = state.rows > 0 or state.elapsed(now) >= _KEPT_SECONDS
        self._write(_ERASE + (finished_line(state, now, self._width()) + "\n" if kept else ""))

    def _draw(self) -> None:
        if self._state is None:
            return
        self._drawn = time.monotonic()
        line = bar_line(self._state, self._drawn, self._width(), colour=self._colour, fine=self._fine)
        self._write(_ERASE + line)

    def _width(self) -> int:
        """One column is left free: a full line wraps on some terminals."""
        with suppress(OSError, ValueError):
            return max(os.get_terminal_size(self._stream.fileno()).columns, 20) - 1
        return 79

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class _Above:
    """Where log records go while a bar is drawn."""

    def __init__(self, bar: BarProgress) -> None:
        self._bar = bar

    def write(self, text: str) -> int:
        self._bar.print_above(text)
        return len(text)
