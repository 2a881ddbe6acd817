"""Finds the files that are installed with dpone, and reads files and streams up to a size limit.

An installed wheel keeps `schemas/` and `dag_factories/` under `dpone_core/_bundled`; a checkout keeps them beside the
package.
Contract: POD-16.
"""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_PACKAGE: Final = Path(__file__).resolve().parent
_TRIES: Final = 100


class DocumentTooLargeError(OSError):
    """A stream holds more than `limit_bytes` bytes; at most one byte more than the limit was read."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the document is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


def read_bounded(stream: IO[bytes], limit_bytes: int) -> bytes:
    """Returns all bytes of `stream`. Raises DocumentTooLargeError when it holds more than `limit_bytes`; it never
    truncates.
    """
    chunks: list[bytes] = []
    remaining = limit_bytes + 1
    while remaining > 0 and (chunk := stream.read(remaining)):
        chunks.append(chunk)
        remaining -= len(chunk)
    if remaining <= 0:
        raise DocumentTooLargeError(limit_bytes)
    return b"".join(chunks)


class NotRegularFileError(OSError):
    """The path names a pipe, a device, a socket or a directory."""


def read_file_bounded(path: Path, limit_bytes: int) -> bytes:
    """Returns the bytes of a regular file of at most `limit_bytes` bytes.

    Raises DocumentTooLargeError, NotRegularFileError, or the OSError of opening it. A pipe without a writer is not
    waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularFileError("the path is not a regular file")
        return read_bounded(stream, limit_bytes)


def probe_directory(directory: Path) -> None:
    """Makes the directory and a file in it, syncs the file, and removes what it made. Raises OSError.

    Processes that try one directory at a time, in containers of their own too, do not disturb each other.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError, FileExistsError):  # another process that tries it made or removed a directory
            _probe_once(directory)
            return
    _probe_once(directory)


def _probe_once(directory: Path) -> None:
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    probe = directory / f".dpone-probe.{uuid.uuid4().hex}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"dpone")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            probe.unlink()
    finally:
        for path in made:
            with suppress(OSError):  # it was not made, or another process uses it now
                path.rmdir()


def schemas_directory() -> Path:
    """Directory of the published JSON Schemas. Raises FileNotFoundError when the installation lacks it."""
    return _installed_directory("schemas")


def dag_factories_directory() -> Path:
    """Directory of the DAG files that users copy. Raises FileNotFoundError when the installation lacks it."""
    return _installed_directory("dag_factories")


def _installed_directory(name: str) -> Path:
    for candidate in (_PACKAGE / "_bundled" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the directory '{name}' is missing from this installation of dpone; install dpone again")
