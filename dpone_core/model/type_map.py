"""One row of a connector's type reference: how an engine's type is read and written, and what of it is refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapRow:
    """`dpone` is the type as messages name it (`decimal(p,s)`); empty where the whole type is refused."""

    engine: str
    dpone: str
    read: str
    written: str
    refused: str = ""
