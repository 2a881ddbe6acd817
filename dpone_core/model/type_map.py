"""One row of a connector's table of types, as its reference page shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """`engine` names the engine's types, `dpone` ours (as ColumnType prints them, `p`, `s`, `f` for digits).

    `read` says how a value travels, `written` which of ours a sink stores so (empty = none, or no sink); `refused`
    which values or columns are refused, empty = none. `declared` lists the special values that a rule may convert, by
    the manifest's words.
    """

    engine: str
    dpone: str
    read: str
    written: str = ""
    refused: str = ""
    declared: str = ""
