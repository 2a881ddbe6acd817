"""Reads and writes evidence files below one directory. Each write is atomic and durable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpone_core.errors import ETLExecutionError

EVIDENCE_FILE_MODE: Final = 0o640


class EvidenceFilesError(ETLExecutionError):
    """An evidence file could not be read, written or removed.

    Its path is not shown; `__cause__` has the system's error.
    """

    code = "evidence_publication_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEvidenceFiles:
    """EvidenceFiles below the directory `root`, which is created on the first write."""

    root: Path

    def publish(self, relative_path: str, content: bytes) -> None:
        """Writes the file through a temporary one, fsync and rename, so that a reader never sees a part of it.

        Raises EvidenceFilesError.
        """
        self.publish_together({relative_path: content})

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        """Writes all files under temporary names, then renames them in the order given. Raises EvidenceFilesError.

        A temporary file of a failed publication does not stay.
        """
        targets = {self.root / path: content for path, content in contents.items()}
        temporaries = {target: target.with_name(f".{target.name}.{os.getpid()}.tmp") for target in targets}
        target = next(iter(targets))
        try:
            for target, content in targets.items():
                target.parent.mkdir(parents=True, exist_ok=True)
                _write_durably(temporaries[target], content)
            for target, temporary in temporaries.items():
                os.replace(temporary, target)
            for directory in dict.fromkeys(target.parent for target in targets):
                _sync_directory(directory)
        except OSError as error:
            for temporary in temporaries.values():
                with suppress(OSError):  # the directory itself may be unwritable
                    temporary.unlink(missing_ok=True)
            raise EvidenceFilesError(f"evidence '{target.name}' could not be written") from error

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        """The content, None for no file. Raises EvidenceFilesError, `evidence_too_large` above `limit_bytes` bytes."""
        try:
            with open(self.root / relative_path, "rb") as file:
                content = file.read(limit_bytes + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EvidenceFilesError("an evidence file could not be read") from error
        if len(content) > limit_bytes:
            raise EvidenceFilesError(
                f"an evidence file is larger than the {limit_bytes} bytes that are read at most",
                code="evidence_too_large",
            )
        return content

    def names(self, relative_path: str) -> tuple[str, ...]:
        """The names in the directory, () where there is none. Raises EvidenceFilesError."""
        try:
            return tuple(os.listdir(self.root / relative_path))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise EvidenceFilesError("an evidence directory could not be read") from error

    def remove(self, relative_path: str) -> None:
        """Removes the file durably, if it exists. Raises EvidenceFilesError."""
        target = self.root / relative_path
        try:
            target.unlink()
            _sync_directory(target.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise EvidenceFilesError(f"evidence '{target.name}' could not be removed") from error


def _write_durably(path: Path, content: bytes) -> None:
    with open(path, "wb", opener=_open_private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _open_private(path: str, flags: int) -> int:
    """Evidence is for its owner and group, whatever the umask would allow."""
    return os.open(path, flags, EVIDENCE_FILE_MODE)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
