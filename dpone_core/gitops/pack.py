"""Makes and checks the pack of a manifest: every file its processes open, with its hash, under one fingerprint.

A step compares the files in its image with the pack that was reviewed and stops when one differs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dpone_core.contracts.pack import (
    MAX_PACK_BYTES,
    Dependency,
    DependencyKind,
    Pack,
    PackedProcess,
    build_pack,
    parse_pack,
)
from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest import project_files
from dpone_core.manifest.resolve import Manifest
from dpone_core.quality.snapshot import QualityExecutionSnapshot
from dpone_core.resources import read_file_bounded

_KINDS: Final = {
    project_files.DependencyKind.MANIFEST: DependencyKind.MANIFEST,
    project_files.DependencyKind.HOOK_SQL_FILE: DependencyKind.HOOK_SQL,
    project_files.DependencyKind.QUERY_SQL_FILE: DependencyKind.QUERY_SQL,
    project_files.DependencyKind.GATE_SQL_FILE: DependencyKind.GATE_SQL,
    project_files.DependencyKind.DATA_CONTRACT: DependencyKind.DATA_CONTRACT,
}


class BundleMismatchError(ETLConfigurationError):
    """The files in the bundle differ from the reviewed pack; `paths` names them."""

    code = "DPONE_BUNDLE_MISMATCH"

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        self.paths = paths
        super().__init__(message, fix="deploy the bundle the pack was made of, or make and review a new pack")


def pack_of(manifest: Manifest) -> Pack:
    """The pack of the files on disk now; paths are relative to the project root."""
    return build_pack(
        manifest=next(
            file.path for file in manifest.dependencies if file.kind is project_files.DependencyKind.MANIFEST
        ),
        processes=[
            PackedProcess(
                process=config.process,
                policy_snapshot_id=QualityExecutionSnapshot.from_load_config(config).policy_snapshot_id,
            )
            for config in manifest.processes
        ],
        dependencies=[
            Dependency(kind=_KINDS[file.kind], path=file.path, sha256=file.sha256) for file in manifest.dependencies
        ],
    )


def load_pack_file(path: Path) -> Pack:
    """Reads a pack. Raises ETLConfigurationError for an absent or malformed file; messages show only relative paths."""
    try:
        return parse_pack(read_file_bounded(path, MAX_PACK_BYTES))
    except OSError:
        shown = path.name if path.is_absolute() else path.as_posix()
        raise ETLConfigurationError(
            f"pack '{shown}' cannot be read", code="DPONE_PACK_NOT_FOUND", fix="run: dpone gitops pack MANIFEST"
        ) from None


def require_pack(pack: Pack, expected_fingerprint: str, manifest: Manifest) -> None:
    """Raises BundleMismatchError unless `pack` has the expected fingerprint and every file on disk has the hash in
    it.
    """
    if pack.pack_fingerprint != expected_fingerprint:
        raise BundleMismatchError("the pack differs from the one this run-spec was compiled with")
    present = pack_of(manifest)
    if present.pack_fingerprint == pack.pack_fingerprint:
        return
    reviewed = {item.path: item.sha256 for item in pack.dependencies}
    found = {item.path: item.sha256 for item in present.dependencies}
    differing = tuple(sorted(path for path in reviewed.keys() | found.keys() if reviewed.get(path) != found.get(path)))
    named = ", ".join(differing) if differing else "the quality policy"
    raise BundleMismatchError(f"files of the bundle differ from the reviewed pack: {named}", differing)
