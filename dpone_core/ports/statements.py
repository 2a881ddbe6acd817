"""Runs the SQL script of a hook on a connector, or one query that answers with a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dpone_core.model.sql import SqlText


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementScript:
    """`autocommit` false = the whole script is one transaction where the engine has one. `read_only` = it runs in the
    engine's read-only mode, or where there is none in a transaction that is rolled back. `answer_seconds` limits how
    long one answer may take; None = as long as it takes."""

    sql: SqlText
    autocommit: bool = True
    read_only: bool = False
    answer_seconds: float | None = None
    token_values: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementAnswer:
    """The first rows of one result, untrusted: at most two rows, with values as the driver gives them. `columns` is the
    number of columns, known even when there is no row."""

    columns: int
    rows: tuple[tuple[object, ...], ...] = field(default=(), repr=False)


class StatementScalarPort(Protocol):
    def answer(self, script: StatementScript) -> StatementAnswer:
        """Runs one statement that returns rows and drains it, read only; never more than two rows are kept.

        Opens its own connection. Raises ConnectorError `statement_failed`, also for several statements and for one that
        takes too long, and `statement_not_read_only`.
        """
        ...


class StatementPort(StatementScalarPort, Protocol):
    def execute(self, script: StatementScript) -> int:
        """Runs every statement, reads every result to its end so that late errors appear, and returns the number of
        statements. Uses a connection of its own in the requested transaction mode. Raises ConnectorError
        `statement_failed`, `statement_not_read_only` when a read-only script would change something, or
        `hook_transaction_state_changed` when the script left the transaction in another state than it found."""
        ...
