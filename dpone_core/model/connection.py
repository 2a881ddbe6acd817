"""A resolved connection: where it points and where the answer came from. The URI is secret and never printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

EMBEDDED_SCHEMES: Final = frozenset({"chdb", "duckdb", "sqlite", "file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """`ref` is the name logs may show; `uri` may hold credentials; `origin` says which resolver answered."""

    ref: str
    uri: str = field(repr=False)
    origin: str

    @property
    def scheme(self) -> str:
        return self.uri.split("://", 1)[0].lower() if "://" in self.uri else ""

    @property
    def is_embedded(self) -> bool:
        return self.scheme in EMBEDDED_SCHEMES
