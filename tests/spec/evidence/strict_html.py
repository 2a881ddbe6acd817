"""Reads a page without forgiveness: what a browser would silently repair is an error here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "rect"})
PARENTS = {
    "tr": {"tbody", "thead"},
    "td": {"tr"},
    "th": {"tr"},
    "li": {"ul"},
    "dt": {"dl", "div"},
    "dd": {"dl", "div"},
    "caption": {"table"},
    "thead": {"table"},
    "tbody": {"table"},
    "rect": {"svg"},
}
KNOWN = frozenset(
    [
        *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "section"),
        *("h1", "h2", "h3", "p", "ul", "li", "a", "dl", "dt", "dd", "div", "span", "small", "code", "pre"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "rect"),
    ]
)
PHRASING_ONLY = frozenset({"p", "h1", "h2", "h3", "span", "small", "code", "caption", "pre", "title"})
BLOCKS = frozenset({"p", "div", "ul", "dl", "table", "section", "h1", "h2", "h3", "pre"})
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|#x27);)")


class NotStrictError(AssertionError):
    """The page breaks a rule of HTML, or does something a report must not."""


@dataclass
class Page(HTMLParser):
    """`elements` is the sequence of opened tags with the names of their attributes; `texts` what stands between."""

    source: str
    elements: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        if not self.source.startswith("<!DOCTYPE html>\n"):
            raise NotStrictError("the doctype is missing")
        if found := _REFERENCE.search(self.source):
            raise NotStrictError(f"a bare ampersand at {found.start()}")
        self.feed(self.source)
        self.close()
        if self.open:
            raise NotStrictError(f"left open: {self.open}")
        if len(set(self.ids)) != len(self.ids):
            raise NotStrictError("an id is given twice")
        if missing := [link for link in self.links if link.removeprefix("#") not in self.ids]:
            raise NotStrictError(f"links lead outside or nowhere: {missing}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if tag not in KNOWN or len(set(names)) != len(names) or None in dict(attrs).values():
            raise NotStrictError(f"<{tag} {names}>")
        parent = self.open[-1] if self.open else ""
        if parent not in PARENTS.get(tag, {parent}) or (tag in BLOCKS and parent in PHRASING_ONLY):
            raise NotStrictError(f"<{tag}> in <{parent}>")
        if forbidden := [name for name in names if name.startswith("on") or name in ("src", "style", "srcdoc")]:
            raise NotStrictError(f"<{tag}> has {forbidden}")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        self.elements.append((tag, tuple(names)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            raise NotStrictError(f"<{tag}/> is not void")
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or not self.open or self.open.pop() != tag:
            raise NotStrictError(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style" and data.strip():
            self.texts.append(data.strip())

    def handle_comment(self, data: str) -> None:
        raise NotStrictError("a comment")

    def unknown_decl(self, data: str) -> None:
        raise NotStrictError("an unknown declaration")

    def handle_pi(self, data: str) -> None:
        raise NotStrictError("a processing instruction")
