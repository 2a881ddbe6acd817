"""Running a hook's SQL script on a connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dpone_core.model.sql import SqlText


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementScript:
    """`autocommit` false = the whole script is one transaction where the engine has one."""

    sql: SqlText
    autocommit: bool = True
    token_values: Mapping[str, str] = field(default_factory=dict, repr=False)


class StatementPort(Protocol):
    def execute(self, script: StatementScript) -> int:
        """Runs every statement, drains every result set, surfaces late errors; returns the number of statements.

        Opens its own connection in the asked transaction mode. Raises ConnectorError `statement_failed`.
        """
        ...
