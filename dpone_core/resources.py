"""Finds the files shipped beside the code and reads files of others within a bound.

In a wheel `schemas/` and `dag_factories/` lie under `dpone_core/_bundled`; in a checkout they stand beside the package.
Contract: POD-16.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Final

_PACKAGE: Final = Path(__file__).resolve().parent


class DocumentTooLargeError(OSError):
    """A stream holds more than its reader accepts; at most `limit_bytes` + 1 bytes were read."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the document is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


def read_bounded(stream: IO[bytes], limit_bytes: int) -> bytes:
    """All of `stream`, which must hold at most `limit_bytes`; raises DocumentTooLargeError, never truncates."""
    chunks: list[bytes] = []
    remaining = limit_bytes + 1
    while remaining > 0 and (chunk := stream.read(remaining)):
        chunks.append(chunk)
        remaining -= len(chunk)
    if remaining <= 0:
        raise DocumentTooLargeError(limit_bytes)
    return b"".join(chunks)


def read_file_bounded(path: Path, limit_bytes: int) -> bytes:
    """The bytes of a file of at most `limit_bytes`; OSError passes through."""
    with path.open("rb") as stream:
        return read_bounded(stream, limit_bytes)


def schemas_directory() -> Path:
    """Where the published JSON Schemas lie; raises FileNotFoundError."""
    return _shipped("schemas")


def dag_factories_directory() -> Path:
    """Where the DAG files that users copy lie; raises FileNotFoundError."""
    return _shipped("dag_factories")


def _shipped(name: str) -> Path:
    for candidate in (_PACKAGE / "_bundled" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the shipped directory {name} is missing; dpone is not installed completely")
