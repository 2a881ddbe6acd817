"""Stores checkpoints in append-only JSONL files: one file per route and run, one synced write per change, under a
lock.

A last line without line feed was cut short by a crash: it is ignored, reported by `has_torn_end`, and removed by the
next append. Any other damage raises CheckpointUnreadableError. The file of a complete or released run gets another
suffix, so that later runs of the route need not read it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.model.fingerprint import canonical_json
from dpone_core.model.identity import safe_run_id
from dpone_core.model.partition import PartitionCheckpoint, TransferRoute, TransferRun, TransferRunState
from dpone_core.native_transfer.checkpoints import (
    Before,
    CheckpointSupersededError,
    CheckpointUnreadableError,
    checkpoint_json,
    may_replace,
    parse_checkpoint,
    parse_run,
    run_json,
)

_OPEN: Final = ".jsonl"
_CLOSED: Final = ".closed.jsonl"
_ROUTE_CHARACTERS: Final = 32


class CheckpointFileError(ETLExecutionError):
    """A checkpoint file could not be read or written. Its path is not shown; the system's error is in `__cause__`."""

    code = "partition_checkpoint_not_written"


@dataclass(slots=True)
class _Content:
    """The content of the complete lines of one file. The next line belongs at byte `whole_bytes`."""

    run: TransferRun | None = None
    latest: dict[str, PartitionCheckpoint] = field(default_factory=dict)
    whole_bytes: int = 0
    torn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """CheckpointStore below one directory."""

    root: Path

    def open_runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        runs = self._runs(route, lambda path: not path.name.endswith(_CLOSED))
        return tuple(run for run in runs if run.state is TransferRunState.OPEN)

    def runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        return self._runs(route, lambda path: True)

    def _runs(self, route: TransferRoute, wanted: Callable[[Path], bool]) -> tuple[TransferRun, ...]:
        with self._locked(route) as directory:
            paths = sorted(path for path in directory.glob(f"*{_OPEN}") if wanted(path))
            runs = [_content(path).run for path in paths]
        return tuple(run for run in runs if run is not None)

    def run(self, route: TransferRoute, run_id: str) -> TransferRun | None:
        with self._locked(route) as directory:
            return _content(_path(directory, run_id)).run

    def save_run(self, run: TransferRun, before: TransferRun | None) -> None:
        with self._locked(run.route) as directory:
            path = _path(directory, run.run_id)
            if _content(path).run != before:
                raise CheckpointSupersededError(
                    "another process has changed the stored plan of this run since it was read; nothing was written"
                )
            _append(path, [run_json(run)])
            suffix = _OPEN if run.state is TransferRunState.OPEN else _CLOSED
            wanted = directory / f"{safe_run_id(run.run_id)}{suffix}"
            if wanted != path:
                path.rename(wanted)
            _sync_directory(directory)

    def append(
        self, route: TransferRoute, run_id: str, records: Sequence[PartitionCheckpoint], before: Before | None = None
    ) -> None:
        lines = [checkpoint_json(record) for record in records]
        with self._locked(route) as directory:
            path = _path(directory, run_id)
            stored = _content(path).latest
            if not all(may_replace(stored.get(record.partition_id), record, before) for record in records):
                raise CheckpointSupersededError(
                    "another process has changed a checkpoint of this run since it was read; nothing was written"
                )
            _append(path, lines)
            _sync_directory(directory)

    def latest(self, route: TransferRoute, run_id: str) -> tuple[PartitionCheckpoint, ...]:
        with self._locked(route) as directory:
            return tuple(_content(_path(directory, run_id)).latest.values())

    def has_torn_end(self, route: TransferRoute, run_id: str) -> bool:
        with self._locked(route) as directory:
            return _content(_path(directory, run_id)).torn

    @contextmanager
    def _locked(self, route: TransferRoute) -> Iterator[Path]:
        """Locks the directory of the route for this thread alone. Raises CheckpointFileError."""
        directory = self.root / route.key.removeprefix("sha256:")[:_ROUTE_CHARACTERS]
        try:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield directory
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CheckpointFileError("a checkpoint file could not be read or written") from error


def _path(directory: Path, run_id: str) -> Path:
    """The file of a run, open or closed; the path of an open one when there is none yet."""
    closed = directory / f"{safe_run_id(run_id)}{_CLOSED}"
    return closed if closed.exists() else directory / f"{safe_run_id(run_id)}{_OPEN}"


def _append(path: Path, lines: Sequence[object]) -> None:
    if not lines:
        return
    content = _content(path)
    text = "".join(canonical_json(line) + "\n" for line in lines)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
    with open(descriptor, "wb") as file:
        if content.torn:
            file.truncate(content.whole_bytes)
        file.seek(content.whole_bytes)
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _content(path: Path) -> _Content:
    content = _Content()
    try:
        written = path.read_bytes()
    except FileNotFoundError:
        return content
    *lines, rest = written.split(b"\n")
    content.torn = bool(rest)
    content.whole_bytes = len(written) - len(rest)
    for line in lines:
        _apply(line, content)
    return content


def _apply(line: bytes, content: _Content) -> None:
    try:
        document = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also raised for text that is not UTF-8
        raise CheckpointUnreadableError(
            "a complete line of a checkpoint file is not valid JSON; nothing is read from the file"
        ) from error
    if isinstance(document, dict) and "kind" in document:
        content.run = parse_run(document)
        return
    record = parse_checkpoint(document)
    content.latest[record.partition_id] = record


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
