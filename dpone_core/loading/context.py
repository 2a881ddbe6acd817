"""What one attempt works with, made once by the composition root and handed down unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.evidence.audit import AuditTrail
from dpone_core.loading.commit_state import CommitState
from dpone_core.loading.step_log import StepLog
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.ports.hooks import HookActions
from dpone_core.ports.runtime import Runtime
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.state import CommitIntents, CursorState, Lease, TargetLease
from dpone_core.quality.snapshot import QualityExecutionSnapshot

OpenReader = Callable[[], AbstractContextManager[SourcePorts]]
OpenLease = Callable[[], AbstractContextManager[TargetLease]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSessions:
    """Open connections of one attempt; `cursor`, `intents` and `audit` are None where plan and manifest say so.

    `open_reader` opens one more session of the source, for a reader of its own; like `checkpoints` it is there when
    the plan splits the extraction. `open_lease` opens one more session of the sink, to renew the lease while the others
    are busy; None where a lease needs no renewal, because its engine lock ends with its process.
    """

    source: SourcePorts
    sink: SinkPorts
    audit: AuditTrail | None
    cursor: CursorState | None
    lease: TargetLease | None
    intents: CommitIntents | None = None
    open_reader: OpenReader | None = None
    checkpoints: CheckpointStore | None = None
    open_lease: OpenLease | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One process of one run, resolved and planned. `hook_receipts` is None when every hook runs inline.

    `transfer_plan` is the fingerprint of the stored plan whose staged ranges are published without reading any; None
    where this process reads what it loads.
    """

    config: LoadConfig
    plan: LoadPlan
    snapshot: QualityExecutionSnapshot
    token_values: Mapping[str, str] = field(repr=False)
    hook_receipts: Mapping[str, StepReceipt] | None
    hook_actions: HookActions = field(default_factory=HookActions)
    transfer_plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """`commit_shield` is entered just before the commit and closed by the processor once state is durable.

    `lease` is the held lease, None before it is taken and for a sink that keeps none.
    """

    request: LoadRequest
    runtime: Runtime
    sessions: LoadSessions
    identity: LoadIdentity
    step_log: StepLog
    commit_state: CommitState
    commit_shield: ExitStack
    lease: Lease | None = None

    @property
    def config(self) -> LoadConfig:
        return self.request.config

    @property
    def plan(self) -> LoadPlan:
        return self.request.plan
