"""Embedded engines: where a URI points, and our own lock that a second process meets before the engine's.

The engines' own locks fail late or speak only on stderr; ours names the holder. It is a file beside the directory or
database, held by `flock` for the life of the session, so a killed holder releases it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection

_POLL_SECONDS: Final = 0.05
_MAX_HOLDER_BYTES: Final = 512


def embedded_path(connection: Connection) -> str:
    """`scheme:///relative` or `scheme:////absolute`; ConnectorError `sink_unreachable` for any other form."""
    _, separator, rest = connection.uri.partition("://")
    if not separator or not rest.startswith("/") or len(rest) < 2 or "?" in rest or "#" in rest:
        raise ConnectorError(
            f"connection {connection.ref!r} is not of the form scheme:///relative/path or scheme:////absolute/path",
            code="connection_uri_invalid",
        )
    return rest[1:]


@contextmanager
def exclusive_lock(path: str, *, timeout_seconds: float, holder: str) -> Iterator[None]:
    """Holds `<path>.dpone-lock`; ConnectorError `embedded_directory_locked` names the holder after the timeout."""
    lock_path = Path(path.rstrip("/") + ".dpone-lock")
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConnectorError("the directory of the embedded database cannot be written", code="sink_unreachable") from (
            error
        )
    try:
        _acquire(descriptor, timeout_seconds)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "holder": holder}).encode()[:_MAX_HOLDER_BYTES], 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise ConnectorError(
                    f"the embedded database is in use by {_holder_of(descriptor)}; waited {timeout_seconds:g} s",
                    code="embedded_directory_locked",
                    fix="wait for the other process, or raise the lock timeout",
                ) from error
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _holder_of(descriptor: int) -> str:
    try:
        claim = json.loads(os.pread(descriptor, _MAX_HOLDER_BYTES, 0))
        return f"process {int(claim['pid'])} ({str(claim['holder'])[:200]})"
    except (ValueError, KeyError, TypeError):
        return "another process"
