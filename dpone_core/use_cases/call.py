"""What every use case begins with: the environment read once, the identity of the run, the manifest, its processes.

Nothing here opens a connection.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import DponeError, ETLConfigurationError
from dpone_core.evidence.redacted_files import RedactedEvidenceFiles
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.manifest.resolve import Manifest
from dpone_core.model.identity import safe_run_id
from dpone_core.model.load_config import CheckpointsType, LoadConfig
from dpone_core.model.vocabulary import StepKind
from dpone_core.ports.runtime import ProcessCancellation, Progress, Runtime
from dpone_core.resources import probe_directory
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.use_cases.plan import PlannedProcess, plan_authored
from dpone_core.use_cases.prepare import PreparedProcess, prepare_process, verify_hook_receipts
from dpone_core.use_cases.project import (
    EVIDENCE_DIRECTORY_VARIABLE,
    find_evidence_root,
    read_manifest,
    snapshot_env,
)
from dpone_core.use_cases.step_receipt import RefusedStep
from dpone_core.use_cases.verify import PackReference, require_agreed_pack
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.runtime import NoCancellation, SilentProgress, SystemClock

__all__ = [
    "Call",
    "RunProcessPorts",
    "SilentProgress",
    "begin_step",
    "require_evidence_directories",
    "require_one_process",
]

Prepared = TypeVar("Prepared")


class EvidenceNotWritableError(ETLConfigurationError):
    """The evidence directory cannot be written; nothing ran. A load without evidence is no successful load."""

    code = "DPONE_EVIDENCE_NOT_WRITABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcessPorts:
    """How this process reports progress and is interrupted; the CLI passes its own."""

    progress: Progress = field(default_factory=SilentProgress)
    cancellation: ProcessCancellation = field(default_factory=NoCancellation)
    redactor: Redactor = field(default_factory=Redactor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a use case; `env` was read once."""

    env: Mapping[str, str] = field(repr=False)
    ports: RunProcessPorts
    invocation: RunInvocation
    project_dir: str | Path | None

    @classmethod
    def of(
        cls,
        arguments: RunArguments,
        env: Mapping[str, str] | None,
        project_dir: str | Path | None,
        ports: RunProcessPorts | None,
    ) -> Call:
        """Raises InvocationInvalidError for arguments or variables that make no identity. `env` None = os.environ."""
        env, ports = snapshot_env(env), ports or RunProcessPorts()
        invocation = resolve_invocation(arguments, env, f"manual-{uuid.uuid4().hex}")
        ports.redactor.keep(invocation.names)
        return cls(env=env, ports=ports, invocation=invocation, project_dir=project_dir)

    @property
    def evidence_root(self) -> Path:
        return find_evidence_root(self.env)

    def read_manifest(self, path: Path) -> Manifest:
        """Raises ManifestInvalidError."""
        return read_manifest(path, self.project_dir, self.env)

    def make_resolver(self, manifest: Manifest) -> ConnectionResolver:
        return ConnectionResolver(
            env=self.env,
            project_root=manifest.project_root,
            manifest_directory=manifest.directory,
            redactor=self.ports.redactor,
        )

    def make_runtime(self) -> Runtime:
        return Runtime(
            clock=SystemClock(),
            progress=self.ports.progress,
            cancellation=self.ports.cancellation,
            evidence=RedactedEvidenceFiles(
                files=LocalEvidenceFiles(root=self.evidence_root), redactor=self.ports.redactor
            ),
        )

    def prepare(
        self,
        manifest: Manifest,
        configs: Iterable[LoadConfig],
        *,
        pack: PackReference | None,
        separate_hooks: str | None,
    ) -> tuple[PreparedProcess, ...]:
        """Refuses whatever can be refused, for all the processes, before one of them runs.

        `separate_hooks` None = another process looks after the hooks. Raises ETLConfigurationError.
        """
        fingerprint = None if pack is None else require_agreed_pack(pack, manifest).pack_fingerprint
        planned = [plan_authored(manifest, config) for config in configs]
        resolver = self.make_resolver(manifest)
        return tuple(
            prepare_process(
                process,
                resolver,
                self._hook_receipts(process, separate_hooks, fingerprint),
                self.invocation,
                self.evidence_root,
            )
            for process in planned
        )

    def require_evidence(self, configs: Iterable[LoadConfig]) -> None:
        """Asks, last of all that can be asked before a run, whether its evidence and its checkpoints can be written.

        Raises EvidenceNotWritableError.
        """
        for config in configs:
            require_evidence_directories(self.evidence_root, config, safe_run_id(self.invocation.run_id))

    def _hook_receipts(
        self, process: PlannedProcess, separate_hooks: str | None, pack_fingerprint: str | None
    ) -> Mapping[str, StepReceipt] | None:
        if separate_hooks is None:
            return {}
        if separate_hooks == "inline":
            return None
        return verify_hook_receipts(process, self.invocation, pack_fingerprint, self.env)


def require_evidence_directories(root: Path, config: LoadConfig, folder: str) -> None:
    """Asks whether `folder` of the process, below `root`, and checkpoint files can be written; leaves nothing behind.

    Raises EvidenceNotWritableError.
    """
    partitioning = config.source.partitioning
    if partitioning is not None and partitioning.checkpoints is CheckpointsType.FILE:
        _require_directory(root / "native_transfer" / "checkpoints")
    _require_directory(root / "runs" / config.process / folder)


def _require_directory(directory: Path) -> None:
    try:
        probe_directory(directory)
    except OSError as error:
        raise EvidenceNotWritableError(
            f"evidence cannot be written: {error.strerror or type(error).__name__}",
            fix=f"set {EVIDENCE_DIRECTORY_VARIABLE} to a directory that this user may write, with space left",
        ) from error


def begin_step(
    kind: StepKind,
    arguments: RunArguments,
    env: Mapping[str, str] | None,
    project_dir: str | Path | None,
    ports: RunProcessPorts | None,
    prepare: Callable[[Call], Prepared],
) -> Prepared | RefusedStep:
    """Returns what `prepare` makes of the call, or its refusal with as much identity as was known."""
    invocation: RunInvocation | None = None
    try:
        call = Call.of(arguments, env, project_dir, ports)
        invocation = call.invocation
        return prepare(call)
    except DponeError as error:
        return RefusedStep(kind=kind, invocation=invocation, refusal=error)


def require_one_process(manifest: Manifest, selector: str | None) -> LoadConfig:
    """Returns the only process selected. Raises ETLConfigurationError DPONE_SELECTOR_REQUIRED for several."""
    configs = manifest.select(selector)
    if len(configs) > 1:
        raise ETLConfigurationError(
            "the manifest has several processes", code="DPONE_SELECTOR_REQUIRED", fix="pass --selector"
        )
    return configs[0]
