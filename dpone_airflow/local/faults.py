"""Faults a test asks for: per pod by annotation, per request through the control endpoints.

Annotations are `local.dpone/<fault>`; an unknown or malformed one refuses the pod, so that a typo never turns a
failure test into a success test.

| annotation | effect |
|---|---|
| `pending-seconds` | the pod stays Pending that long, then starts |
| `unschedulable` | never scheduled: `PodScheduled=False` and a FailedScheduling event |
| `waiting` | `Reason|message`: every container waits for ever with it, e.g. `ErrImagePull|manifest unknown` |
| `log-drop-after` | a followed log connection is reset after that many lines |
| `exec` | `hang`: an exec never answers; `garbage`: it answers half a JSON document |
| `oom` | exit code 137 is reported as OOMKilled |
| `strip-status` | comma separated status fields that are never served |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from dpone_airflow.local.wire import ApiError, invalid

ANNOTATION_PREFIX = "local.dpone/"


class ExecFault(StrEnum):
    """What goes wrong with every exec of a pod."""

    NONE = "none"
    HANG = "hang"
    GARBAGE = "garbage"


class _Fault(StrEnum):
    PENDING_SECONDS = "pending-seconds"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    LOG_DROP_AFTER = "log-drop-after"
    EXEC = "exec"
    OOM = "oom"
    STRIP_STATUS = "strip-status"


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckWaiting:
    """A waiting state that never ends, as that of a failing image pull."""

    reason: str
    message: str


@dataclass(slots=True, kw_only=True)
class PodFaults:
    """The faults of one pod; none by default."""

    pending_seconds: float | None = None
    unschedulable: bool = False
    waiting: StuckWaiting | None = None
    log_drop_after_lines: int | None = None
    exec: ExecFault = ExecFault.NONE
    oom: bool = False
    stripped_status: frozenset[str] = frozenset()

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, str]) -> PodFaults:
        """Raises ApiError 422 for an unknown or malformed fault annotation."""
        faults = cls()
        for key, text in annotations.items():
            if key.startswith(ANNOTATION_PREFIX):
                try:
                    faults._set(_Fault(key.removeprefix(ANNOTATION_PREFIX)), text)
                except ValueError as error:
                    raise invalid(f"metadata.annotations[{key}]: not a fault this runner knows") from error
        return faults

    def _set(self, fault: _Fault, text: str) -> None:
        match fault:
            case _Fault.PENDING_SECONDS:
                self.pending_seconds = float(text)
            case _Fault.UNSCHEDULABLE:
                self.unschedulable = True
            case _Fault.WAITING:
                reason, _, message = text.partition("|")
                self.waiting = StuckWaiting(reason=reason, message=message)
            case _Fault.LOG_DROP_AFTER:
                self.log_drop_after_lines = int(text)
            case _Fault.EXEC:
                self.exec = ExecFault(text)
            case _Fault.OOM:
                self.oom = True
            case _Fault.STRIP_STATUS:
                self.stripped_status = frozenset(text.split(","))
            case _:
                assert_never(fault)


@dataclass(slots=True, kw_only=True)
class _RequestFault:
    method: str
    path: re.Pattern[str]
    status: int
    remaining: int


class RequestFaults:
    """API requests that get an error instead of an answer.

    A fault stays until it is used up or cleared; a test that does not use all of its faults must clear them.
    """

    def __init__(self) -> None:
        self._faults: list[_RequestFault] = []

    def fail_next(self, method: str, path_regex: str, status: int, times: int = 1) -> None:
        """Answers the next `times` requests whose path contains the pattern with `status`.

        ApiError 400 on a bad pattern.
        """
        try:
            path = re.compile(path_regex)
        except re.error as error:
            raise ApiError(400, "BadRequest", f"path: not a regular expression: {error}") from error
        if not 400 <= status <= 599 or times < 1:
            raise ApiError(400, "BadRequest", "status must be an HTTP error, times at least 1")
        self._faults.append(_RequestFault(method=method.upper(), path=path, status=status, remaining=times))

    def clear(self) -> None:
        self._faults.clear()

    def check(self, method: str, path: str) -> None:
        """Raises the ApiError due for this request, if any, and counts it."""
        for fault in self._faults:
            if fault.remaining and fault.method == method and fault.path.search(path):
                fault.remaining -= 1
                raise ApiError(fault.status, "Injected", f"injected fault: HTTP {fault.status}")
