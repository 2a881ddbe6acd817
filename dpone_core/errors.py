"""Stable codes, exit classes and the root of every error dpone raises.

An error's message is safe to print and to persist: it never holds SQL text, rows, credentials, URLs or driver
messages. Facts an operator needs are attributes. An error that carries a domain value lives beside that value.
A released code is never renamed. Contract: FAIL-31, CLI-01, CLI-02.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, NewType

ErrorCode = NewType("ErrorCode", str)


class ExitClass(IntEnum):
    """Process exit status by what had happened when the error was raised (CLI-01, CLI-02)."""

    SUCCESS = 0
    EXECUTED = 1
    REFUSED = 2
    INTERRUPTED = 130
    TERMINATED = 143


class DponeError(Exception):
    """Root of the family: a stable `code`, a safe one-line sentence and an optional way out (`fix`)."""

    code: str = "DPONE_INTERNAL_ERROR"
    exit_class: ClassVar[ExitClass] = ExitClass.EXECUTED

    def __init__(self, message: str, *, code: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ETLConfigurationError(DponeError):
    """Refused before execution (exit 2): nothing ran, nothing was created."""

    code = "DPONE_CONFIGURATION_INVALID"
    exit_class = ExitClass.REFUSED


class ETLExecutionError(DponeError):
    """Executed and not successful (exit 1): the outcome says what is true of the target."""

    code = "DPONE_EXECUTION_FAILED"


class ConnectorError(ETLExecutionError):
    """A driver or engine refused; the driver's text stays in `__cause__` and is never rendered."""

    code = "DPONE_CONNECTOR_FAILED"


class ConnectionLostError(ConnectorError):
    """No session with the system, or it ended: what its last statement did is not known.

    Raised under the code of its side, `source_unreachable` or `sink_unreachable`.
    """


class LoadInProgressError(ETLExecutionError):
    """Another load holds the lease of this target; nothing was mutated, a later retry is safe."""

    code = "load_in_progress"


class CommitOutcomeUnknownError(ConnectorError):
    """The commit statement was sent and its answer is lost: the target may be old or new."""

    code = "target_outcome_unknown"


class RunTerminated(BaseException):
    """SIGTERM arrived: abort what can be aborted, clean, write the receipt, exit 143.

    A BaseException, so that no adapter mistakes it for a driver's failure.
    """

    code = "DPONE_RUN_TERMINATED"
