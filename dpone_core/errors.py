"""Error codes, process exit statuses and the base classes of every error that dpone raises.

An error's message is safe to print and to store: it holds no SQL text, rows, credentials, URLs or driver messages.
Facts an operator needs are attributes of the error. An error that carries a value of its own is defined beside that
value, not here. A released code is never renamed.
Contract: FAIL-31, CLI-01, CLI-02.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, NewType

ErrorCode = NewType("ErrorCode", str)


class ExitClass(IntEnum):
    """Process exit status: 0 success, 1 ran and failed, 2 refused before anything ran, 130 and 143 stopped by a
    signal (CLI-01, CLI-02).
    """

    SUCCESS = 0
    EXECUTED = 1
    REFUSED = 2
    INTERRUPTED = 130
    TERMINATED = 143


class DponeError(Exception):
    """Base class of dpone's errors: a stable `code`, a one-line `message` that is safe to print, and `fix`, what to do
    (or None).

    `code` may be given per instance; without it the code of the class applies.
    """

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
    """The request was refused before execution (exit status 2): nothing ran and nothing was created."""

    code = "DPONE_CONFIGURATION_INVALID"
    exit_class = ExitClass.REFUSED


class ETLExecutionError(DponeError):
    """The load ran and did not succeed (exit status 1); the run's outcome states what is true of the target."""

    code = "DPONE_EXECUTION_FAILED"


class ConnectorError(ETLExecutionError):
    """A driver or an engine reported an error. Its own text stays in `__cause__` and is never printed."""

    code = "DPONE_CONNECTOR_FAILED"


class ConnectionLostError(ConnectorError):
    """No session with the system, or it ended: what its last statement did is not known.

    Raised under the code of its side, `source_unreachable` or `sink_unreachable`.
    """


class LoadInProgressError(ETLExecutionError):
    """Another load holds the lease of this target. This load changed nothing and can be retried later."""

    code = "load_in_progress"


class LeaseLostError(ConnectorError):
    """Another load has taken the lease of this target, so this one did not publish. The target is as it was."""

    code = "load_in_progress"

    def __init__(self) -> None:
        super().__init__(
            "another load acquired the lease of this target while this load ran, so this one does not publish",
            fix="wait until that load has ended, then run again",
        )


class CommitOutcomeUnknownError(ConnectorError):
    """The commit statement was sent and no answer came back: the target may hold the old or the new rows."""

    code = "target_outcome_unknown"


class RunTerminated(BaseException):
    """The process received SIGTERM: it aborts what it can, cleans up, writes its receipt and exits with status 143.

    It derives from BaseException, so that an adapter's `except Exception` does not take it for a driver's failure.
    """

    code = "DPONE_RUN_TERMINATED"
