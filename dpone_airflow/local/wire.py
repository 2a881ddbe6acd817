"""Values that client and runner exchange: JSON documents, `Status` errors, times, booleans.

Kubernetes objects stay plain JSON on purpose: the runner returns fields that it does not know.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

_NANOSECONDS = 1_000_000_000
_TRUE_WORDS = frozenset({"1", "t", "true"})


class ApiError(Exception):
    """A refused request; it is answered as a Kubernetes `Status` document with the HTTP status `code`."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    def status_document(self) -> JsonObject:
        """The body of the answer (metav1.Status)."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }


def bad_request(message: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def invalid(message: str) -> ApiError:
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message)


def pod_not_found(name: str) -> ApiError:
    return ApiError(HTTPStatus.NOT_FOUND, "NotFound", f'pods "{name}" not found')


def timestamp() -> str:
    """Now as metav1.Time: whole seconds, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def log_timestamp(time_ns: int) -> str:
    """RFC 3339 with nine fractional digits, the prefix of a log line (`timestamps=true`)."""
    seconds, fraction = divmod(time_ns, _NANOSECONDS)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"


def is_true(value: str | None) -> bool:
    """Reads a query boolean; the Python client sends `True` and `False`."""
    return value is not None and value.lower() in _TRUE_WORDS


def field_at(document: JsonObject, dotted_path: str) -> Any:
    """The value at `a.b.c`, None where any part is missing."""
    value: Any = document
    for part in dotted_path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
