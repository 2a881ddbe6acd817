"""One row of the table that documents how a connector maps types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """`engine` names the engine's types, `dpone` ours as ColumnType prints them (`p`, `s`, `f` stand for digits).

    `read` describes how a value is read, `written` which of our types a sink stores this way (empty: none, or no sink),
    `refused` which values or columns are refused (empty: none), `declared` the special values a rule may convert, in
    the manifest's words.
    """

    engine: str
    dpone: str
    read: str
    written: str = ""
    refused: str = ""
    declared: str = ""
