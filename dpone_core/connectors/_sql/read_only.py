"""The refusal of an engine's read-only mode, in which everything runs that is not declared as changing (HOOK-31)."""

from __future__ import annotations

from typing import Final

from dpone_core.errors import ConnectorError

WOULD_WRITE: Final = "statement_not_read_only"


def would_write_error(engine: str) -> ConnectorError:
    """For a statement that the engine stopped before it changed anything. Raise it from the driver's error."""
    return ConnectorError(
        f"the statement would change something, and {engine} runs it read only because nothing declares the change",
        code=WOULD_WRITE,
        fix="add 'mutates_source: true' to the hook if the change is intended; a query or a probe must only read",
    )
