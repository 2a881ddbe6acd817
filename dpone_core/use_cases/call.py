"""What every call of the Python API begins with: the environment once, the run's identity, the manifest, its processes.

Nothing here opens a connection.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.manifest.resolve import Manifest, load_manifest
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.runtime import Cancellation, Progress, Runtime
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.use_cases.bundles import PackReference, agreed_pack
from dpone_core.use_cases.planned import PlannedProcess, plan_process
from dpone_core.use_cases.preparation import PreparedProcess, prepare_process, verified_hook_receipts
from dpone_core.use_cases.project import environment_snapshot, evidence_root, located, project_root
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.runtime import NoCancellation, SilentProgress, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcessPorts:
    """How this process reports progress and is interrupted; the CLI passes its own."""

    progress: Progress = field(default_factory=SilentProgress)
    cancellation: Cancellation = field(default_factory=NoCancellation)
    redactor: Redactor = field(default_factory=Redactor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, its environment read once."""

    variables: Mapping[str, str]
    ports: RunProcessPorts
    invocation: RunInvocation
    project_dir: str | Path | None

    @classmethod
    def of(
        cls,
        arguments: RunArguments,
        environment: Mapping[str, str] | None,
        project_dir: str | Path | None,
        ports: RunProcessPorts | None,
    ) -> Call:
        """Raises ETLConfigurationError for an identity that is none."""
        variables = environment_snapshot(environment)
        return cls(
            variables=variables,
            ports=ports or RunProcessPorts(),
            invocation=resolve_invocation(arguments, variables, f"manual-{uuid.uuid4().hex}"),
            project_dir=project_dir,
        )

    def manifest(self, path: Path) -> Manifest:
        root = project_root(self.project_dir, self.variables)
        return load_manifest(located(path, root), project_root=root)

    def resolver(self, manifest: Manifest) -> ConnectionResolver:
        return resolver_of(manifest, self.variables, self.ports.redactor)

    def runtime(self) -> Runtime:
        return Runtime(
            clock=SystemClock(),
            progress=self.ports.progress,
            cancellation=self.ports.cancellation,
            evidence=LocalEvidenceFiles(root=evidence_root(self.variables)),
        )


def resolver_of(manifest: Manifest, variables: Mapping[str, str], redactor: Redactor) -> ConnectionResolver:
    return ConnectionResolver(
        environment=variables,
        project_root=manifest.project_root,
        manifest_directory=manifest.directory,
        redactor=redactor,
    )


def only_process(manifest: Manifest, selector: str | None) -> LoadConfig:
    """Raises ETLConfigurationError DPONE_SELECTOR_REQUIRED when there are several."""
    configs = manifest.select(selector)
    if len(configs) > 1:
        raise ETLConfigurationError(
            "the manifest has several processes", code="DPONE_SELECTOR_REQUIRED", fix="pass --selector"
        )
    return configs[0]


def prepared_processes(
    manifest: Manifest,
    configs: Iterable[LoadConfig],
    pack: PackReference | None,
    separate_hooks: str | None,
    invocation: RunInvocation,
    variables: Mapping[str, str],
    redactor: Redactor,
) -> list[PreparedProcess]:
    """Refuses whatever can be refused, for all of them. `separate_hooks` None: another process looks after hooks."""
    fingerprint = None if pack is None else agreed_pack(pack, manifest).pack_fingerprint
    planned = [plan_process(config) for config in configs]
    resolver = resolver_of(manifest, variables, redactor)
    return [
        prepare_process(
            process,
            resolver,
            _hook_receipts(process, separate_hooks, invocation, fingerprint, variables),
            invocation,
            evidence_root(variables),
        )
        for process in planned
    ]


def _hook_receipts(
    process: PlannedProcess,
    separate_hooks: str | None,
    invocation: RunInvocation,
    pack_fingerprint: str | None,
    variables: Mapping[str, str],
) -> Mapping[str, StepReceipt] | None:
    if separate_hooks is None:
        return {}
    if separate_hooks == "inline":
        return None
    return verified_hook_receipts(process, invocation, pack_fingerprint, variables)
