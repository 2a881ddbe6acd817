"""What a process starts from: one environment snapshot, the project root, the evidence directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DEFAULT_EVIDENCE_DIRECTORY: Final = ".dpone"
EVIDENCE_DIRECTORY_VARIABLE: Final = "DPONE_EVIDENCE_DIR"


def environment_snapshot(environment: Mapping[str, str] | None) -> Mapping[str, str]:
    """The given mapping, else a copy of this process's environment."""
    return dict(os.environ) if environment is None else environment


def project_root(project_dir: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """The explicit root, else DPONE_PROJECT_DIR, else None: found from the manifest."""
    chosen = project_dir or environment.get("DPONE_PROJECT_DIR")
    return Path(chosen) if chosen else None


def evidence_root(environment: Mapping[str, str]) -> Path:
    return Path(environment.get(EVIDENCE_DIRECTORY_VARIABLE) or DEFAULT_EVIDENCE_DIRECTORY)


def shown_evidence(environment: Mapping[str, str], relative_path: str) -> str:
    """A published file as a person may be told of it: an absolute directory by the variable that names it."""
    root = evidence_root(environment)
    shown = f"${EVIDENCE_DIRECTORY_VARIABLE}" if root.is_absolute() else root.as_posix()
    return f"{shown}/{relative_path}"


def located(path: Path, root: Path | None) -> Path:
    """A relative path below an explicit project root, where it exists there; else as given.

    Steps in a pod name files relative to the bundle, whatever the image's working directory is.
    """
    if root is None or path.is_absolute() or not (root / path).is_file():
        return path
    return root / path
