"""What a pod's last status says of one of its containers: how it ended, or that it never ran and why. Pure.

A container that never ran has changed nothing. That is believed only of a pod that is gone or was never made: one that
still exists may start at any moment. Contract: AIR-38.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_NEVER_REACHED: Final = frozenset({401, 403, 404, 405, 413, 415, 422, 429})
"""Answers of the API to a request for a pod that mean: no pod was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """`exit_code` and `message` of a container that has ended."""

    exit_code: int
    message: str | None


def end_of(pod: Any, container: str) -> ContainerEnd | None:
    """How the container ended; None while it has not, and where the status does not say."""
    state = _state_of(pod, container)
    ended = state.terminated if state is not None else None
    return None if ended is None else ContainerEnd(exit_code=ended.exit_code, message=ended.message)


def why_not_started(pod: Any, container: str) -> str | None:
    """Why the container of a pod that is gone never ran, in a word of Kubernetes; None if it ran or may have run."""
    if pod is None or pod.status is None:
        return None
    status = _status_of(pod, container)
    if status is not None:
        earlier = status.last_state and (status.last_state.running or status.last_state.terminated)
        if status.restart_count or earlier or status.state is None or status.state.waiting is None:
            return None
        return _word(status.state.waiting.reason)
    if pod.status.phase != "Pending" or pod.status.container_statuses:
        return None
    conditions = pod.status.conditions or ()
    unmet = next((one for one in conditions if one.type == "PodScheduled" and one.status == "False"), None)
    return _word(unmet.reason) if unmet is not None else _word(None)


def why_not_made(answer: int | None) -> str | None:
    """Why the API made no pod, by the HTTP status of its answer; None where it may have made one."""
    return f"HTTP{answer}" if answer in _NEVER_REACHED else None


def _state_of(pod: Any, container: str) -> Any:
    status = _status_of(pod, container)
    return status.state if status is not None else None


def _status_of(pod: Any, container: str) -> Any:
    statuses = (pod.status.container_statuses if pod is not None and pod.status else None) or ()
    return next((one for one in statuses if one.name == container), None)


def _word(reason: str | None) -> str:
    return reason if reason is not None and _WORD.fullmatch(reason) else "Pending"
