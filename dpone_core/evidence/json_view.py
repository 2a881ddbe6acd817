"""Reads a JSON document of any age or shape: a value that is missing or of another type is None or empty.

Not a validator. The page about a run must not fail on a value it cannot read, and must not show it as zero or success.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpone_core.model.outcome import count_or_none


@dataclass(frozen=True, slots=True)
class JsonView:
    """One value of a document. No accessor raises; `keys` lead from it to the value that is read."""

    value: object

    def at(self, *keys: str) -> JsonView:
        """The value below `keys`; a view of None where there is none."""
        value = self.value
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return JsonView(value)

    def text(self, *keys: str) -> str | None:
        """The text there; None unless it is a non-empty text."""
        value = self.at(*keys).value
        return value if isinstance(value, str) and value else None

    def texts(self, *keys: str) -> tuple[str, ...]:
        """The texts of the list there; other items are left out."""
        value = self.at(*keys).value
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def count(self, *keys: str) -> int | None:
        """The non-negative integer there, else None."""
        return count_or_none(self.at(*keys).value)

    def seconds(self, *keys: str) -> float | None:
        """The finite, non-negative number there, else None."""
        value = self.at(*keys).value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value) if 0 <= value < 1e12 else None

    def items(self, *keys: str) -> tuple[JsonView, ...]:
        """The objects of the list there; other items are left out."""
        value = self.at(*keys).value
        return tuple(JsonView(item) for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()

    def pairs(self, *keys: str) -> tuple[tuple[str, object], ...]:
        """The entries of the object there, in document order."""
        value = self.at(*keys).value
        return tuple((str(key), item) for key, item in value.items()) if isinstance(value, Mapping) else ()

    def __bool__(self) -> bool:
        return isinstance(self.value, Mapping) and bool(self.value)
