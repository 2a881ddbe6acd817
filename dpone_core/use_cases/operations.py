"""What an operator does between runs: look at the cursor, set it with a reason, remove what a dead run left behind.

Each operation takes the target's lease, so that it never works beside a load, and leaves an evidence record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpone_core.declared.registry import is_embedded
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.audit import AuditTrail, utc_text
from dpone_core.invocation import RunInvocation
from dpone_core.loading.extraction import build_source_request
from dpone_core.loading.native.model import partition_identity
from dpone_core.model.artifacts import ROLES, LoadRef, artifact_name
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import LoadConfig, TableName
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import StateType
from dpone_core.native_transfer.guard import require_resolved
from dpone_core.planning.cursor_value import is_cursor_value
from dpone_core.planning.partitions import route_of
from dpone_core.ports.runtime import Runtime
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.state import SavedCursor
from dpone_core.state.cursor import CursorStore, state_key
from dpone_core.state.intents import IntentStore
from dpone_core.state.lease import LeaseStore
from dpone_core.use_cases.planned import PlannedProcess
from dpone_core.use_cases.run import DEFAULT_LOCK_TIMEOUT_SECONDS, fresh_identity
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.connectors import SinkLock, open_sink, open_source, require_extra, require_uri
from dpone_core.wiring.sessions import checkpoint_store

STATE_CHANGE_KIND: Final = "dpone.state_change.v1"
CLEANUP_KIND: Final = "dpone.cleanup.v1"
MAX_REASON_CHARACTERS: Final = 500


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

    @contextmanager
    def leased(self, identity: LoadIdentity) -> Iterator[SinkPorts]:
        """The sink under the target's lease. Raises LoadInProgressError while a load is running."""
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
            try:
                yield sink
            finally:
                leases.release(lease)


def show_state(operation: Operation) -> dict[str, object]:
    """The saved cursor, null where none was ever saved, and what an unsettled load would have saved."""
    identity = fresh_identity(operation.invocation, operation.runtime.clock, 1)
    with operation.leased(identity) as sink:
        return _state_document(operation, sink, "show")


def set_state(operation: Operation, value: str, reason: str) -> dict[str, object]:
    """Replaces the cursor value. The evidence record is durable before the value changes, and says so after."""
    if not reason.strip() or len(reason) > MAX_REASON_CHARACTERS:
        raise ETLConfigurationError(
            f"a reason of 1 to {MAX_REASON_CHARACTERS} characters is required", code="DPONE_STATE_REASON_REQUIRED"
        )
    _require_cursor_value(operation, value)
    identity = fresh_identity(operation.invocation, operation.runtime.clock, 1)
    with operation.leased(identity) as sink:
        cursors = _cursors(operation, sink)
        before = cursors.read(operation.config)
        _record_change(operation, identity, before, value, reason, "requested")
        cursors.advance(operation.config, identity, before, value, operation.runtime.clock.utc_now())
        _record_change(operation, identity, before, value, reason, "applied")
        return _state_document(operation, sink, "set")


def clean_up(operation: Operation, run_id: str, *, dry_run: bool) -> dict[str, object]:
    """Removes staging, shadow and scratch objects of one run's loads; never the target."""
    identity = fresh_identity(operation.invocation, operation.runtime.clock, 1)
    target = operation.plan.target
    with operation.leased(identity) as sink:
        present = {leftover.table for leftover in sink.target.leftovers(target.table, target.staging_schema)}
        names = {table.name for table in present}
        loads = _loads_of(operation, sink, run_id)
        if not loads:
            raise ETLConfigurationError(
                "the audit table of this process knows no load of that run id",
                code="DPONE_RUN_UNKNOWN",
                fix="read run ids from the load records or `dpone report`",
            )
        stagers = (*loads, *_ranges_of(operation, sink, run_id))
        doomed = {load: _names_of(operation, load) & names for load in stagers}
        if not dry_run:
            for load, objects in doomed.items():
                if objects:
                    _remove(sink, operation.plan.target.ref(load))
        removed = sorted(name for objects in doomed.values() for name in objects)
        return {
            "kind": CLEANUP_KIND,
            "process": operation.plan.process,
            "run_id": run_id,
            "dry_run": dry_run,
            "loads": [load.load_id for load in loads],
            "removed": removed,
            "left": sorted(names - set(removed)),
        }


def _remove(sink: SinkPorts, ref: LoadRef) -> None:
    if sink.staged is not None:
        sink.staged.cleanup(ref)
    elif sink.legacy is not None:
        sink.legacy.discard(ref)


def _require_cursor_value(operation: Operation, value: str) -> None:
    """Asks the source what its cursor column is; a value that can never be compared with it is refused."""
    config = operation.config
    incremental = config.source.incremental
    if incremental is None:
        raise ETLConfigurationError("this process has no cursor", code="DPONE_STATE_NOT_KEPT")
    with open_source(config.source.type, operation.resolver.source_of(config)) as source:
        schema = source.source.describe(build_source_request(config, operation.invocation.token_values))
    column = schema.find(incremental.cursor_column)
    if column is None or not is_cursor_value(value, column.type.kind):
        expected = column.type if column is not None else "a column of the source"
        raise ETLConfigurationError(
            f"the value does not fit cursor column '{incremental.cursor_column}', which is {expected}",
            code="DPONE_STATE_VALUE_INVALID",
            fix="write integers as digits, dates and times in ISO 8601",
        )


def _cursors(operation: Operation, sink: SinkPorts) -> CursorStore:
    if operation.config.state is not StateType.SINK or sink.control is None:
        raise ETLConfigurationError(
            "this process keeps no cursor in its sink", code="DPONE_STATE_NOT_KEPT", fix="set state: {type: sink}"
        )
    return CursorStore(control=sink.control, schema=operation.config.sink.governance.state_schema)


def _state_document(operation: Operation, sink: SinkPorts, done: str) -> dict[str, object]:
    cursors = _cursors(operation, sink)
    saved = cursors.read(operation.config)
    pending = IntentStore(control=cursors.control, schema=cursors.schema).read(operation.config)
    if pending is not None and pending.is_settled_by(saved):
        pending = None
    return {
        "operation": done,
        "backend": operation.plan.target.type.value,
        "state_type": operation.config.state.value,
        "identity": state_key(operation.config),
        "process": operation.plan.process,
        "status": "absent" if saved is None else "present",
        "cursor_column": None if saved is None else saved.column,
        "cursor_value": None if saved is None else saved.value,
        "load_id": None if saved is None else saved.load_id,
        "pending_run_id": None if pending is None else pending.identity.run_id,
        "pending_load_id": None if pending is None else pending.identity.load_id,
        "pending_cursor_value": None if pending is None else pending.cursor_value,
    }


def _record_change(
    operation: Operation, identity: LoadIdentity, before: SavedCursor | None, value: str, reason: str, status: str
) -> None:
    document = {
        "kind": STATE_CHANGE_KIND,
        "process": operation.plan.process,
        "state_key": state_key(operation.config),
        "run_id": identity.run_id,
        "change_id": identity.load_id,
        "before": None if before is None else before.value,
        "after": value,
        "reason": operation.resolver.redactor.text(reason),
        "status": status,
        "at": utc_text(operation.runtime.clock.utc_now()),
    }
    path = f"runs/{operation.plan.process}/state_changes/{identity.load_id}.json"
    operation.runtime.evidence.publish(path, (json.dumps(document, indent=2) + "\n").encode())


def _loads_of(operation: Operation, sink: SinkPorts, run_id: str) -> tuple[LoadIdentity, ...]:
    """Load identities of a run by the audit table; a sink without audit knows none."""
    found: set[str] = set()
    if sink.control is not None and operation.plan.audit_schema is not None:
        audit = AuditTrail(control=sink.control, schema=operation.plan.audit_schema)
        audit.open()
        found |= {str(row["load_id"]) for row in audit.loads_of_run(run_id)}
    return tuple(LoadIdentity(run_id=RunId(run_id), load_id=LoadId(load), attempt=1) for load in sorted(found))


def _ranges_of(operation: Operation, sink: SinkPorts, run_id: str) -> tuple[LoadIdentity, ...]:
    """Who staged the ranges of a native transfer. Raises while one of its guards is unresolved."""
    store, route = checkpoint_store(operation.config, sink, operation.evidence_root), route_of(operation.plan)
    records = () if store is None else store.latest(route, run_id)
    require_resolved(run_id, records)
    return tuple(partition_identity(run_id, record.partition_id) for record in records)


def _names_of(operation: Operation, load: LoadIdentity) -> set[str]:
    """The names this load's objects have in the staging schema, whether they exist or not."""
    target = _resolved_target(operation)
    return {artifact_name(target, load, role) for role in ROLES}


def _resolved_target(operation: Operation) -> TableName:
    target = operation.plan.target
    return TableName(schema=target.table.schema or target.staging_schema, name=target.table.name)
