"""What `state`, `cleanup` and `transfer show|reconcile` share: one process, its leased sink, a reason, a record.

Each operation takes the target's lease, so that it never works beside a load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dpone_core.declared.registry import is_embedded
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.audit import utc_text
from dpone_core.invocation import RunArguments, RunInvocation
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.ports.runtime import Runtime
from dpone_core.ports.session import SinkPorts
from dpone_core.state.lease import LeaseStore
from dpone_core.use_cases.call import Call, RunProcessPorts, require_evidence_directories, require_one_process
from dpone_core.use_cases.plan import PlannedProcess, plan_authored
from dpone_core.use_cases.prepare import DEFAULT_LOCK_TIMEOUT_SECONDS, make_load_identity
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.connectors import SinkLock, open_sink, require_extra, require_uri
from dpone_core.wiring.sessions import make_checkpoint_store

MAX_REASON_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """Which process an operator works on; identity as for a run."""

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One process, its resolver and this operation's own identity; opens the sink only."""

    planned: PlannedProcess
    resolver: ConnectionResolver
    invocation: RunInvocation
    runtime: Runtime
    evidence_root: Path = Path(".dpone")

    @property
    def config(self) -> LoadConfig:
        return self.planned.config

    @property
    def plan(self) -> LoadPlan:
        return self.planned.plan

    def make_identity(self) -> LoadIdentity:
        return make_load_identity(self.invocation, self.runtime.clock, 1)

    @contextmanager
    def lease_sink(
        self, identity: LoadIdentity, revokes: Callable[[SinkPorts], frozenset[str]] | None = None
    ) -> Iterator[SinkPorts]:
        """Opens the sink under the target's lease. Raises LoadInProgressError while a load is running.

        An operation that decides what the target holds gives `revokes`, the staging to keep: when it takes over a lease
        that was not given back, no load before it publishes any more. Any other leaves that to the next load.
        """
        connection = self.resolver.sink_of(self.config)
        require_uri(self.config.sink.type, connection)
        require_extra(self.config.sink.type, connection)
        lock = SinkLock(timeout_seconds=DEFAULT_LOCK_TIMEOUT_SECONDS, holder=f"operator on {self.config.sink.table}")
        with open_sink(self.config.sink.type, connection, lock) as sink:
            if sink.control is None:
                yield sink
                return
            leases = LeaseStore(
                control=sink.control,
                schema=self.config.sink.governance.state_schema,
                exclusive_process=is_embedded(connection),
            )
            lease = leases.acquire(self.config, identity, self.runtime.clock.utc_now())
            open_end = lease.taken_over and sink.revocation is not None
            try:
                if open_end and revokes is not None and sink.revocation is not None:
                    sink.revocation.revoke(self.plan.target.ref(identity), revokes(sink))
                    open_end = False
                yield sink
            finally:
                if open_end:
                    leases.abandon(lease, self.runtime.clock.utc_now())
                else:
                    leases.release(lease)

    def checkpoint_store(self, sink: SinkPorts) -> CheckpointStore | None:
        """Returns where the native transfers of this process are kept; None for a sink without control tables."""
        return make_checkpoint_store(self.config, sink, self.evidence_root, self.runtime.clock)

    def require_record(self, folder: str) -> None:
        """Asks, before anything is opened, whether `publish_record` can write. Raises EvidenceNotWritableError."""
        require_evidence_directories(self.evidence_root, self.config, folder)

    def publish_record(self, folder: str, identity: LoadIdentity, document: Mapping[str, object]) -> None:
        """Writes what the operator does, with the time, durably below the evidence directory."""
        document = {**document, "at": utc_text(self.runtime.clock.utc_now())}
        path = f"runs/{self.plan.process}/{folder}/{identity.load_id}.json"
        self.runtime.evidence.publish(path, (json.dumps(document, indent=2) + "\n").encode())


def prepare_operation(
    path: Path,
    options: OperatorOptions,
    *,
    env: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> Operation:
    """Plans the process an operator works on. Raises ETLConfigurationError; opens nothing."""
    call = Call.of(options.arguments, env, project_dir, ports)
    manifest = call.read_manifest(path)
    return Operation(
        planned=plan_authored(manifest, require_one_process(manifest, options.selector)),
        resolver=call.make_resolver(manifest),
        invocation=call.invocation,
        runtime=call.make_runtime(),
        evidence_root=call.evidence_root,
    )


def require_reason(reason: str) -> None:
    """Raises ETLConfigurationError DPONE_STATE_REASON_REQUIRED for an empty or over-long reason."""
    if not reason.strip() or len(reason) > MAX_REASON_CHARACTERS:
        raise ETLConfigurationError(
            f"a reason of 1 to {MAX_REASON_CHARACTERS} characters is required", code="DPONE_STATE_REASON_REQUIRED"
        )
