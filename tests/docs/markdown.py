"""Markdown pages as the tests see them: fenced blocks with their attributes, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REFUSED_MARK = "<!-- check: refused -->"
_FENCE = re.compile(r"^```(\S*)\s*(.*)$")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"|(\w+)=(\S+)|(\w+)')
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fence. `attributes` stand behind the language; `refused` says that a check of it must fail."""

    language: str
    attributes: dict[str, str]
    text: str
    line: int
    refused: bool

    @property
    def title(self) -> str | None:
        """The file name under which a reader saves it."""
        return self.attributes.get("title")

    @property
    def document_kind(self) -> str | None:
        """`dpone.flow.v1` for a whole document, None for a fragment."""
        for line in self.text.splitlines():
            if line.startswith("kind:"):
                return line.removeprefix("kind:").strip()
            if line and not line.startswith("#"):
                return None
        return None


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block in order; an unclosed one is an error."""
    found: list[Block] = []
    opened: tuple[str, dict[str, str], int, bool] | None = None
    body: list[str] = []
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        match = _FENCE.match(line)
        if opened is None and match:
            opened = (match[1], _attributes(match[2]), number, before == REFUSED_MARK)
            body = []
        elif opened is not None and line.rstrip() == "```":
            language, attributes, start, refused = opened
            text = "\n".join(body) + "\n"
            found.append(Block(language=language, attributes=attributes, text=text, line=start, refused=refused))
            opened = None
        elif opened is not None:
            body.append(line)
        if line.strip():
            before = line.strip()
    assert opened is None, f"{page.name}: a block is not closed"
    return found


def _attributes(text: str) -> dict[str, str]:
    return {m[1] or m[3] or m[5]: m[2] or m[4] or "" for m in _ATTRIBUTE.finditer(text)}


def links_of(page: Path) -> list[str]:
    """Targets of links outside code."""
    return _LINK.findall(_INLINE_CODE.sub("", prose_of(page)))


def anchors_of(page: Path) -> set[str]:
    """Anchors of headings in the form that GitHub gives them."""
    headings = (line.lstrip("#").strip() for line in prose_of(page).splitlines() if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose_of(page: Path) -> str:
    """The page without fenced blocks."""
    kept, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)
