"""Durable evidence files of a run, below one root. Content is already redacted when it arrives here."""

from __future__ import annotations

from typing import Protocol


class EvidenceFiles(Protocol):
    def publish(self, relative_path: str, content: bytes) -> None:
        """Atomic (temporary file, fsync, rename, directory fsync): a reader sees nothing or all of it."""
        ...

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        """None when absent; raises ETLExecutionError `evidence_too_large` past the limit."""
        ...

    def remove(self, relative_path: str) -> None:
        """Durably gone when it returns; does nothing when absent."""
        ...
