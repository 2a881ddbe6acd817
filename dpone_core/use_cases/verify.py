"""`gitops verify`: checks the manifest and every file it opens against the reviewed pack, as every step does first."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpone_core.contracts.pack import Pack
from dpone_core.errors import DponeError
from dpone_core.gitops.pack import load_pack_file, require_pack
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.manifest.resolve import Manifest
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.project import find_project_root, locate, read_manifest, snapshot_env
from dpone_core.use_cases.step_receipt import RefusedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReference:
    """The pack this step must agree with; `fingerprint` is the one the run-spec was compiled with."""

    path: Path
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVerification:
    """The bundle agrees with its pack; `files` counts what was hashed."""

    invocation: RunInvocation
    pack: Pack
    files: int
    kind: Literal[StepKind.BUNDLE_VERIFY] = StepKind.BUNDLE_VERIFY

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
    project_dir: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> BundleVerification | RefusedStep:
    """Compares the bundle with its pack; `manifest` None = the one the pack names. Raises no DponeError."""
    env, invocation = snapshot_env(env), None
    try:
        invocation = resolve_invocation(RunArguments(), env, f"manual-{uuid.uuid4().hex}")
        pack = load_pack_file(locate(reference.path, find_project_root(project_dir, env)))
        require_pack(pack, reference.fingerprint, read_manifest(manifest or Path(pack.manifest), project_dir, env))
    except DponeError as error:
        return RefusedStep(kind=StepKind.BUNDLE_VERIFY, invocation=invocation, refusal=error)
    return BundleVerification(invocation=invocation, pack=pack, files=len(pack.dependencies))


def require_agreed_pack(reference: PackReference, manifest: Manifest) -> Pack:
    """Returns the pack. Raises BundleMismatchError unless its fingerprint is the expected one and every file it lists
    hashes to what was reviewed."""
    pack = load_pack_file(locate(reference.path, manifest.project_root))
    require_pack(pack, reference.fingerprint, manifest)
    return pack
