"""Where a call finds things: a snapshot of the environment, the project root, the manifest, the evidence directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dpone_core.manifest.resolve import Manifest, load_manifest

DEFAULT_EVIDENCE_DIRECTORY: Final = ".dpone"
EVIDENCE_DIRECTORY_VARIABLE: Final = "DPONE_EVIDENCE_DIR"


def snapshot_env(env: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the given variables, or for None a copy of those of this process."""
    return dict(os.environ) if env is None else env


def find_project_root(project_dir: str | Path | None, env: Mapping[str, str]) -> Path | None:
    """Returns the explicit root, else DPONE_PROJECT_DIR, else None: the manifest's own directories decide."""
    chosen = project_dir or env.get("DPONE_PROJECT_DIR")
    return Path(chosen) if chosen else None


def find_evidence_root(env: Mapping[str, str]) -> Path:
    """Returns the directory that evidence is published below: DPONE_EVIDENCE_DIR, else `.dpone`."""
    return Path(env.get(EVIDENCE_DIRECTORY_VARIABLE) or DEFAULT_EVIDENCE_DIRECTORY)


def display_evidence_path(env: Mapping[str, str], relative_path: str) -> str:
    """Returns how a person is told of a published file: an absolute directory is shown by its variable's name only."""
    root = find_evidence_root(env)
    shown = f"${EVIDENCE_DIRECTORY_VARIABLE}" if root.is_absolute() else root.as_posix()
    return f"{shown}/{relative_path}"


def locate(path: Path, root: Path | None) -> Path:
    """Returns a relative path below an explicit project root where it exists there, else the path as given.

    Steps in a pod name files relative to the bundle, whatever the image's working directory is.
    """
    if root is None or path.is_absolute() or not (root / path).exists():
        return path
    return root / path


def read_manifest(path: Path, project_dir: str | Path | None, env: Mapping[str, str]) -> Manifest:
    """Reads and validates one manifest. Raises ManifestInvalidError."""
    root = find_project_root(project_dir, env)
    return load_manifest(locate(path, root), project_root=root)
