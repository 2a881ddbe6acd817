"""A resolved connection: where it points and where the answer came from. The URI is secret and never printed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """`ref` is the name logs may show; `uri` may hold credentials; `origin` says which resolver answered."""

    ref: str
    uri: str = field(repr=False)
    origin: str

    @property
    def scheme(self) -> str:
        return self.uri.split("://", 1)[0].lower() if "://" in self.uri else ""
