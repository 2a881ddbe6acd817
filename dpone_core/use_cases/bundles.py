"""Bundles: pack what a manifest opens, and verify it. Compiling run-specs of them is in `use_cases.run_spec`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpone_core.contracts.pack import Pack
from dpone_core.gitops.pack import load_pack_file, pack_of, require_pack
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.manifest.resolve import Manifest, load_manifest
from dpone_core.use_cases.project import environment_snapshot, located, project_root


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReference:
    """The pack this step must agree with; `fingerprint` is the one the run-spec was compiled with."""

    path: Path
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVerification:
    """The bundle agrees with its pack; `files` counts what was hashed."""

    pack: Pack
    files: int

    def as_json(self) -> dict[str, object]:
        return {
            "kind": "dpone.gitops.verify.v1",
            "passed": True,
            "pack_fingerprint": self.pack.pack_fingerprint,
            "files": self.files,
        }


def verify_bundle(
    reference: PackReference,
    *,
    manifest: Path | None = None,
    arguments: RunArguments | None = None,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    learned: Callable[[RunInvocation], None] = lambda invocation: None,
) -> BundleVerification:
    """Raises BundleMismatchError or ManifestInvalidError; `learned` hears the identity before anything can fail."""
    variables = environment_snapshot(environment)
    learned(resolve_invocation(arguments or RunArguments(), variables, f"manual-{uuid.uuid4().hex}"))
    root = project_root(project_dir, variables)
    pack = load_pack_file(located(reference.path, root))
    path = located(manifest or Path(pack.manifest), root)
    require_pack(pack, reference.fingerprint, load_manifest(path, project_root=root))
    return BundleVerification(pack=pack, files=len(pack.dependencies))


def pack_manifest(
    path: Path, *, environment: Mapping[str, str] | None = None, project_dir: str | Path | None = None
) -> Pack:
    """The pack of a valid manifest as it lies on disk."""
    return pack_of(load_manifest(path, project_root=project_root(project_dir, environment_snapshot(environment))))


def agreed_pack(reference: PackReference, manifest: Manifest) -> Pack:
    """The pack, if its fingerprint is the expected one and every file it lists hashes to what was reviewed."""
    pack = load_pack_file(located(reference.path, manifest.project_root))
    require_pack(pack, reference.fingerprint, manifest)
    return pack
