"""Elements of report.html. Every text of a run enters through `Markup.text`: redacted, visible, escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Final

from dpone_core.evidence.redaction import Redactor

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


class Tone(StrEnum):
    """How an element looks; its meaning always stands in words beside it."""

    OK = "ok"
    BAD = "bad"
    WARN = "warn"
    OPEN = "open"
    FLAT = "flat"


_GLYPHS: Final = {Tone.OK: "✓", Tone.BAD: "✕", Tone.WARN: "!", Tone.OPEN: "?", Tone.FLAT: "–"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`html` is markup that is safe already; `number` aligns right, `wide` holds a bar, `empty` hides on phones."""

    html: str
    number: bool = False
    wide: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """Builds elements out of untrusted text."""

    redactor: Redactor

    def text(self, value: object) -> str:
        """Any value as escaped text; control, format and surrogate characters as `\\uXXXX`, None as `unknown`."""
        if value is None:
            return "unknown"
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value:,}"
        shown = _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value))
        return escape(self.redactor.text(shown), quote=True)

    def code(self, value: object) -> str:
        return f"<code>{self.text(value)}</code>"

    def codes(self, values: Iterable[str], none: str) -> str:
        return ", ".join(self.code(value) for value in values) or none

    def tag(self, tone: Tone, word: str) -> str:
        return f'<span class="tag {tone}"><span aria-hidden="true">{_GLYPHS[tone]}</span>{self.text(word)}</span>'

    def table(
        self, caption: str, header: Sequence[str], rows: Iterable[Sequence[Cell] | str], *, numbers: Iterable[int] = ()
    ) -> str:
        """The first cell of a row is its header. A text among the rows is a line across the table."""
        right = frozenset(numbers)
        columns = "".join(
            f'<th scope="col"{_class("n" if index in right else "")}>{self.text(name)}</th>'
            for index, name in enumerate(header)
        )
        body = "\n".join(
            f'<tr class="cut"><td colspan="{len(header)}">{self.text(row)}</td></tr>'
            if isinstance(row, str)
            else self._row(header, row)
            for row in rows
        )
        return (
            f"<table>\n<caption>{self.text(caption)}</caption>\n<thead><tr>{columns}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table>"
        )

    def facts(self, entries: Iterable[tuple[str, str]], style: str) -> str:
        """A list of terms; the descriptions are markup. `facts` sets them as tiles, `list` as rows."""
        wrap = ("<div>", "</div>") if style == "facts" else ("", "")
        body = "\n".join(f"{wrap[0]}<dt>{self.text(term)}</dt><dd>{html}</dd>{wrap[1]}" for term, html in entries)
        return f'<dl class="{style}">\n{body}\n</dl>'

    def section(self, anchor: str, title: str, *content: str) -> str:
        body = "\n".join(part for part in content if part)
        return f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{self.text(title)}</h2>\n{body}\n</section>'

    def _row(self, header: Sequence[str], cells: Sequence[Cell]) -> str:
        first, *rest = cells
        shown = "".join(
            f"<td{_class(*_classes(cell))}"
            + (f' data-label="{self.text(name)}"' if not cell.wide and not cell.empty else "")
            + f"><span>{cell.html}</span></td>"
            if not cell.wide
            else f"<td{_class(*_classes(cell))}>{cell.html}</td>"
            for name, cell in zip(header[1:], rest, strict=True)
        )
        return f'<tr><th scope="row">{first.html}</th>{shown}</tr>'


def bar(start: float, length: float, *, failed: bool) -> str:
    """A span of a track, both as fractions of the whole; decoration beside its numbers."""
    width = min(max(length, 0.006), 1.0)
    left = min(max(start, 0.0), 1.0 - width)
    mark = ' class="miss"' if failed else ""
    return (
        '<svg aria-hidden="true" focusable="false">'
        '<rect class="track" width="100%" height="10" rx="3"/>'
        f'<rect{mark} x="{left:.2%}" width="{width:.2%}" height="10" rx="3"/></svg>'
    )


def duration(seconds: float | None) -> str:
    """`12 ms`, `3.40 s`, `2 min 05 s`, `1 h 02 min`; never more exact than it was measured."""
    if seconds is None:
        return "unknown"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 ms" if seconds else "0 ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"


def _classes(cell: Cell) -> tuple[str, ...]:
    return ("n" if cell.number else "", "w" if cell.wide else "", "none" if cell.empty else "")


def _class(*names: str) -> str:
    given = " ".join(name for name in names if name)
    return f' class="{given}"' if given else ""
