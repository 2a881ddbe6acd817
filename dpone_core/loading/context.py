"""The objects one attempt works with: sessions, runtime, request and their LoadContext.

The composition root builds them once; every step of the attempt receives the same LoadContext.
"""

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
    """The open sessions of one attempt. `audit`, `cursor` and `intents` are None where the load keeps no such state.

    `open_reader` opens a further session of the source, for a reader thread; it and `checkpoints` are None unless the
    plan splits the extraction into partitions. `open_lease` opens a further session of the sink, which renews the lease
    while the other session is busy; None for a sink whose lease ends with the process anyway (embedded engines).
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
    """One process of one run, resolved and planned. `hook_receipts` is None when every hook runs inside the load.

    `transfer_plan` is the fingerprint of a stored plan whose partitions other processes have staged: this load
    publishes them and reads nothing from the source. None for a load that reads its own rows.
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
    """Everything a step of one attempt needs.

    `commit_shield` holds back interruptions: it is entered just before the commit, and ETLProcessor closes it when
    the source state is durable. `lease` is the lease of the target, None until it is acquired and for a sink without.
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
