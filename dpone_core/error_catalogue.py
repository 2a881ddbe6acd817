"""Reads `error_catalogue.json`: what every stable code means and what an operator does about it.

It is no registry that code looks codes up in: an error carries its own code. `dpone explain`, the HTML report and
`docs/reference/error-codes.md` read it, and a test compares it with the source in both directions. A released code is
never renamed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from dpone_core.errors import ErrorCode, ExitClass

KIND: Final = "dpone.error_catalogue.v1"
FILE: Final = Path(__file__).with_suffix(".json")
_DOCUMENT_FIELDS: Final = frozenset(("kind", "areas", "entries"))
_ENTRY_FIELDS: Final = frozenset(("code", "area", "exits", "meaning", "action"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """`exits` are the process exits the code appears with; empty: it appears in a gate's verdict or inside a text.

    `area` is the heading of the part of a run's life in which the code appears.
    """

    code: ErrorCode
    exits: tuple[ExitClass, ...]
    area: str
    meaning: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """`areas` are headings in the order of a run's life; `entries` are in the order of the file, each code once."""

    areas: tuple[str, ...]
    entries: tuple[CatalogueEntry, ...]

    def entry_of(self, code: str) -> CatalogueEntry | None:
        """The entry of a code, None for one that the file does not hold."""
        return next((entry for entry in self.entries if entry.code == code), None)

    def by_area(self) -> Iterator[tuple[str, tuple[CatalogueEntry, ...]]]:
        """Areas in order, each with its entries by code."""
        for area in self.areas:
            yield area, tuple(sorted((e for e in self.entries if e.area == area), key=lambda entry: entry.code))


@cache
def catalogue() -> Catalogue:
    """The shipped catalogue, read at the first call; raises OSError when dpone is not installed completely."""
    return parse_catalogue(json.loads(FILE.read_bytes()))


def parse_catalogue(document: object) -> Catalogue:
    """Raises ValueError for an unknown or missing field, area or exit class, an empty text and a repeated code."""
    root = _record(document, _DOCUMENT_FIELDS, "the catalogue")
    if root["kind"] != KIND:
        raise ValueError(f"kind must be {KIND}")
    areas, listed = root["areas"], root["entries"]
    if not isinstance(areas, Mapping) or not isinstance(listed, list):
        raise ValueError("areas must be an object and entries a list")
    titles = {str(name): _text(title, f"areas.{name}") for name, title in areas.items()}
    entries = tuple(_entry(item, titles, f"entries[{position}]") for position, item in enumerate(listed))
    codes = [entry.code for entry in entries]
    repeated = sorted({code for code in codes if codes.count(code) > 1})
    if repeated:
        raise ValueError(f"codes with two entries: {', '.join(repeated)}")
    return Catalogue(areas=tuple(titles.values()), entries=entries)


def _entry(item: object, titles: Mapping[str, str], place: str) -> CatalogueEntry:
    fields = _record(item, _ENTRY_FIELDS, place)
    code = _text(fields["code"], f"{place}.code")
    if fields["area"] not in titles:
        raise ValueError(f"{place} ({code}): area is none of {', '.join(titles)}")
    return CatalogueEntry(
        code=ErrorCode(code),
        exits=_exits(fields["exits"], f"{place} ({code})"),
        area=titles[str(fields["area"])],
        meaning=_text(fields["meaning"], f"{place} ({code}).meaning"),
        action=_text(fields["action"], f"{place} ({code}).action"),
    )


def _record(value: object, names: frozenset[str], place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or value.keys() != names:
        raise ValueError(f"{place} must have exactly the fields {', '.join(sorted(names))}")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{place} must be a text that is not empty")
    return value


def _exits(value: object, place: str) -> tuple[ExitClass, ...]:
    known = {int(exit_class): exit_class for exit_class in ExitClass}
    if not isinstance(value, list) or any(type(status) is not int or status not in known for status in value):
        raise ValueError(f"{place}: exits must be a list of {', '.join(map(str, known))}")
    if len(set(value)) != len(value):
        raise ValueError(f"{place}: an exit is listed twice")
    return tuple(known[status] for status in value)
