"""A resolved connection: its URI, and which of the configured places supplied it. The URI is secret and is never
printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """`ref` is the name that logs may show, `uri` may hold credentials, `origin` names the place that supplied the
    URI.
    """

    ref: str
    uri: str = field(repr=False)
    origin: str

    @property
    def scheme(self) -> str:
        return self.uri.split("://", 1)[0].lower() if "://" in self.uri else ""
