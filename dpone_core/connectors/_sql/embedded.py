"""Embedded engines: the path in a connection's URI, and a lock that keeps a second process out.

The engines have locks of their own, but these fail late or report on stderr only. This one names the process that holds
it. It is a file beside the directory or database, locked by `flock` for the life of the session, so the lock of a
killed process ends with it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dpone_core.errors import ConnectorError, LoadInProgressError
from dpone_core.model.connection import Connection
from dpone_core.model.visible_text import visible
from dpone_core.resources import probe_directory

_POLL_SECONDS: Final = 0.05
_MAX_CLAIM_BYTES: Final = 8192
_MAX_HOLDER_CHARACTERS: Final = 200


def embedded_path(connection: Connection) -> str:
    """The file path of `scheme:///relative` or `scheme:////absolute`. Raises ConnectorError `connection_uri_invalid`
    for any other form."""
    _, separator, rest = connection.uri.partition("://")
    if not separator or not rest.startswith("/") or len(rest) < 2 or "?" in rest or "#" in rest:
        raise ConnectorError(
            f"connection {connection.ref!r} is not of the form scheme:///relative/path or scheme:////absolute/path",
            code="connection_uri_invalid",
        )
    return rest[1:]


def missing_database(connection: Connection) -> ConnectorError:
    """`source_unreachable` with the name of the file or directory; the directories above it are not shown."""
    name = Path(embedded_path(connection)).name
    return ConnectorError(
        f"connection {connection.ref!r}: there is no database at {visible(name)!r}",
        code="source_unreachable",
        fix="check the path; a relative one is below the manifest, the project root or the working directory,"
        " where the connection is set",
    )


def probe_lock(connection: Connection) -> None:
    """Asks whether the lock of this database, or of one that is yet to be made there, can be written; leaves nothing
    behind. Raises OSError."""
    lock_path = _lock_path(str(Path(embedded_path(connection)).absolute()))
    if lock_path.exists():
        os.close(os.open(lock_path, os.O_RDWR | os.O_CLOEXEC))
    else:
        probe_directory(next(parent for parent in lock_path.parents if parent.exists()))


def _lock_path(path: str) -> Path:
    return Path(path.rstrip("/") + ".dpone-lock")


@contextmanager
def exclusive_lock(path: str, *, timeout_seconds: float, holder: str, target: str | None = None) -> Iterator[None]:
    """Holds the lock `<path>.dpone-lock` until the block ends; the file tells waiting processes who holds it and which
    target it loads. Raises LoadInProgressError at once when the holder loads the same `target` (STATE-25), otherwise
    ConnectorError `embedded_directory_locked` with the holder's name after the timeout."""
    lock_path = _lock_path(path)
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConnectorError("the directory of the embedded database cannot be written", code="sink_unreachable") from (
            error
        )
    try:
        _acquire(descriptor, timeout_seconds, target)
        _write_claim(descriptor, _Claim(pid=os.getpid(), holder=holder, target=target))
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """What the lock file says about the process that holds the lock; `target` is None for a process
    that loads nothing."""

    pid: int
    holder: str
    target: str | None

    def __str__(self) -> str:
        return f"process {self.pid} ({self.holder[:_MAX_HOLDER_CHARACTERS]})"


def _acquire(descriptor: int, timeout_seconds: float, target: str | None) -> None:
    deadline = time.monotonic() + timeout_seconds
    seen: _Claim | None = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            claim = _read_claim(descriptor)
            same = target is not None and claim is not None and claim.target == target
            if same and claim == seen:
                raise LoadInProgressError(
                    f"{claim} is loading the same target", fix="wait for it; nothing was changed"
                ) from error
            if time.monotonic() >= deadline and not same:
                raise ConnectorError(
                    f"the embedded database is in use by {claim or 'another process'}; waited {timeout_seconds:g} s",
                    code="embedded_directory_locked",
                    fix="wait for the other process, or raise the lock timeout",
                ) from error
            seen = claim
        time.sleep(_POLL_SECONDS)


def _write_claim(descriptor: int, claim: _Claim) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(claim)).encode(), 0)
    except OSError as error:
        raise ConnectorError("the lock file of the embedded database cannot be written", code="sink_unreachable") from (
            error
        )


def _read_claim(descriptor: int) -> _Claim | None:
    """What the lock file says; None while the holder has not written it. The text may still be that of a dead process
    which the new holder is about to replace, so callers wait until they have read it twice."""
    try:
        said = json.loads(os.pread(descriptor, _MAX_CLAIM_BYTES, 0))
        target = said["target"]
        return _Claim(pid=int(said["pid"]), holder=str(said["holder"]), target=None if target is None else str(target))
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
