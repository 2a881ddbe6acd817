"""Durable steps on a local file system: atomic files, synced directories, OSErrors as ConnectorError."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone_core.connectors._sql.schema_rules import foreign_error


@contextmanager
def translate_errors(message: str, code: str) -> Iterator[None]:
    """An OSError of the block leaves as ConnectorError `code` or `disk_full`; the path is in `__cause__` only."""
    try:
        yield
    except OSError as error:
        raise foreign_error(error, message, code) from error


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Replaces a file atomically: a reader sees the old content or the new one. It is durable when it returns."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def create_directory(path: Path) -> None:
    """Creates a directory and its missing parents, each made durable in its own parent."""
    missing = [candidate for candidate in (path, *path.parents) if not candidate.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for created in reversed(missing):
        sync_directory(created.parent)
