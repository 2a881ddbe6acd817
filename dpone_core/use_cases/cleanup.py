"""`cleanup`: removes the staging objects that a dead run left behind; never the target."""

from __future__ import annotations

from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.audit import AuditTrail
from dpone_core.loading.native.model import partition_identity
from dpone_core.model.artifacts import ROLES, LoadRef, artifact_name
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import TableName
from dpone_core.native_transfer.guard import require_resolved
from dpone_core.planning.partitions import route_of
from dpone_core.ports.session import SinkPorts
from dpone_core.use_cases.operation import Operation

CLEANUP_KIND: Final = "dpone.cleanup.v1"


def clean_up(operation: Operation, run_id: str, *, dry_run: bool) -> dict[str, object]:
    """Removes staging, shadow and scratch objects of one run's loads, or names them on a dry run.

    Raises ETLConfigurationError DPONE_RUN_UNKNOWN where no load of the run is known.
    """
    identity = operation.make_identity()
    target = operation.plan.target
    with operation.lease_sink(identity) as sink:
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
        objects_of = {load: _names_of(operation, load) & names for load in stagers}
        if not dry_run:
            for load, objects in objects_of.items():
                if objects:
                    _remove(sink, operation.plan.target.ref(load))
        removed = sorted(name for objects in objects_of.values() for name in objects)
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


def _loads_of(operation: Operation, sink: SinkPorts, run_id: str) -> tuple[LoadIdentity, ...]:
    """Returns the loads of a run that the audit table knows; a sink without audit knows none."""
    found: set[str] = set()
    if sink.control is not None and operation.plan.audit_schema is not None:
        audit = AuditTrail(
            control=sink.control, schema=operation.plan.audit_schema, redactor=operation.resolver.redactor
        )
        audit.open()
        found |= {str(row["load_id"]) for row in audit.loads_of_run(run_id)}
    return tuple(LoadIdentity(run_id=RunId(run_id), load_id=LoadId(load), attempt=1) for load in sorted(found))


def _ranges_of(operation: Operation, sink: SinkPorts, run_id: str) -> tuple[LoadIdentity, ...]:
    """Returns under which identities the ranges of a native transfer were staged.

    Raises while the outcome of one of its batches is unknown and no operator has said what became of it.
    """
    store, route = operation.checkpoint_store(sink), route_of(operation.plan)
    records = () if store is None else store.latest(route, run_id)
    require_resolved(run_id, records)
    return tuple(partition_identity(run_id, record.partition_id) for record in records)


def _names_of(operation: Operation, load: LoadIdentity) -> set[str]:
    """Returns the names this load's objects have in the staging schema, whether they exist or not."""
    target = _resolved_target(operation)
    return {artifact_name(target, load, role) for role in ROLES}


def _resolved_target(operation: Operation) -> TableName:
    target = operation.plan.target
    return TableName(schema=target.table.schema or target.staging_schema, name=target.table.name)
