"""Builds the HTML elements of report.html. `Markup.text` redacts and escapes every text that comes from a run."""

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
    """The look of an element. Its meaning is always written beside it in words."""

    OK = "ok"
    BAD = "bad"
    WARN = "warn"
    OPEN = "open"
    FLAT = "flat"


_GLYPHS: Final = {Tone.OK: "✓", Tone.BAD: "✕", Tone.WARN: "!", Tone.OPEN: "?", Tone.FLAT: "–"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A table cell.

    `html` must be safe markup; `number` aligns right, `wide` is for a bar, `empty` is hidden on phones.
    """

    html: str
    number: bool = False
    wide: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """Builds elements from untrusted text, which it redacts and escapes."""

    redactor: Redactor

    def text(self, value: object) -> str:
        """A value as redacted and escaped text. Invisible characters become `\\uXXXX`, None becomes `unknown`."""
        if value is None:
            return "unknown"
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value:,}"
        visible = _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value))
        return escape(self.redactor.text(visible), quote=True)

    def code(self, value: object) -> str:
        return f"<code>{self.text(value)}</code>"

    def codes(self, values: Iterable[str], none: str) -> str:
        return ", ".join(self.code(value) for value in values) or none

    def tag(self, tone: Tone, word: str) -> str:
        return f'<span class="tag {tone}"><span aria-hidden="true">{_GLYPHS[tone]}</span>{self.text(word)}</span>'

    def table(
        self, caption: str, header: Sequence[str], rows: Iterable[Sequence[Cell] | str], *, numbers: Iterable[int] = ()
    ) -> str:
        """A table. The first cell of a row is its header; a row given as text spans the table.

        `numbers` align right.
        """
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
        """A list of terms with their descriptions, which are safe markup.

        Style `facts` shows tiles, `list` shows rows.
        """
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
    """A horizontal bar from `start` with `length`, both as fractions of the track.

    Decoration: the numbers are beside it.
    """
    width = min(max(length, 0.006), 1.0)
    left = min(max(start, 0.0), 1.0 - width)
    mark = ' class="miss"' if failed else ""
    return (
        '<svg aria-hidden="true" focusable="false">'
        '<rect class="track" width="100%" height="10" rx="3"/>'
        f'<rect{mark} x="{left:.2%}" width="{width:.2%}" height="10" rx="3"/></svg>'
    )


def duration(seconds: float | None) -> str:
    """A duration for readers: `12 ms`, `3.40 s`, `2 min 05 s`, `1 h 02 min`; None becomes `unknown`."""
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
