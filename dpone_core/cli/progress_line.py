"""The one line that shows a phase: counters of a running one with a bar, and what a finished one leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIN_BAR: Final = 6
_MAX_BAR: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseState:
    """Counters of the running phase; `expected_rows` is a forecast, None = unknown."""

    name: str
    started: float
    rows: int = 0
    size_bytes: int = 0
    expected_rows: int | None = None

    def elapsed(self, now: float) -> float:
        return max(now - self.started, 0.0)

    def rate(self, now: float) -> float:
        """Rows per second of the phase so far."""
        return self.rows / max(self.elapsed(now), 0.001)

    def share(self) -> float | None:
        if not self.expected_rows:
            return None
        return min(self.rows / self.expected_rows, 1.0)


def bar_line(state: PhaseState, now: float, width: int, *, colour: bool, fine: bool) -> str:
    """One line of at most `width` columns; the bar takes what the numbers leave, and goes first where space ends."""
    share = state.share()
    if share is None:
        return finished_line(state, now, width)
    elapsed = state.elapsed(now)
    remaining = f"eta {_clock((1 - share) * elapsed / share):>5}" if 0 < share < 1 else " " * 9
    rows = f"{state.rows:,}".rjust(len(f"{state.expected_rows:,}"))
    rate, size = f"{_short(state.rate(now)):>5}/s", f"{_size(state.size_bytes):>8}"
    numbers = (f"{rows} rows", rate, size, f"{_clock(elapsed):>5}", remaining)
    head, tail = f"{state.name:9} ", f" {share:4.0%}  {'  '.join(numbers)}"
    room = min(width - len(head) - len(tail), _MAX_BAR)
    if room < _MIN_BAR:
        return (head + tail.lstrip())[:width].rstrip()
    filled = int(share * room)
    full, empty = ("━", "─") if fine else ("#", "-")
    begun, rest = full * filled, empty * (room - filled)
    return head + (f"\x1b[36m{begun}\x1b[0m\x1b[2m{rest}\x1b[0m" if colour else begun + rest) + tail.rstrip()


def finished_line(state: PhaseState, now: float, width: int) -> str:
    """Counters without a bar: of a phase whose end nobody knows, and of one that is over."""
    counters = (f"{state.rows:,} rows", f"{_short(state.rate(now))}/s", _size(state.size_bytes)) if state.rows else ()
    return f"{state.name:9} {'  '.join((*counters, _clock(state.elapsed(now))))}"[:width]


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}" if number < 100 * limit else f"{number / limit:.0f}{unit}"
    return f"{number:.0f}"


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
