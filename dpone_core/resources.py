"""Finds the files that are installed with dpone, and reads files and streams up to a size limit.

An installed wheel keeps `schemas/` and `dag_factories/` under `dpone_core/_bundled`; a checkout keeps them beside the
package.
Contract: POD-16.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Final

_PACKAGE: Final = Path(__file__).resolve().parent


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


def read_file_bounded(path: Path, limit_bytes: int) -> bytes:
    """Returns the bytes of a file of at most `limit_bytes` bytes. Raises DocumentTooLargeError, or the OSError of
    opening it.
    """
    with path.open("rb") as stream:
        return read_bounded(stream, limit_bytes)


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
