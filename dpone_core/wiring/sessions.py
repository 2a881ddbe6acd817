"""Opens one session per resolved connection for one attempt, and builds the stores that live in the sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dpone_core.declared.registry import descriptor_of, is_embedded
from dpone_core.errors import ConnectorError
from dpone_core.evidence.audit import AuditTrail
from dpone_core.evidence.redaction import Redactor
from dpone_core.loading.context import LoadSessions
from dpone_core.model.connection import Connection
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import CheckpointsType, LoadConfig, TableName
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import StateType
from dpone_core.native_transfer.checkpoint_file import CheckpointFiles
from dpone_core.native_transfer.checkpoint_table import CheckpointTables
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.ports.control import ControlTables
from dpone_core.ports.runtime import Clock
from dpone_core.ports.session import SinkPorts
from dpone_core.state.cursor import CursorStore
from dpone_core.state.intents import IntentStore
from dpone_core.state.lease import LeaseStore
from dpone_core.wiring.connectors import SinkLock, open_sink, open_source_and_sink, reader_opener
from dpone_core.wiring.runtime import SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpener:
    """Opens the sessions of one attempt; closes all of them when the block ends."""

    config: LoadConfig
    plan: LoadPlan
    source: Connection
    sink: Connection
    lock_timeout_seconds: float
    redactor: Redactor
    checkpoint_root: Path = Path(".dpone")

    @contextmanager
    def __call__(self, identity: LoadIdentity) -> Iterator[LoadSessions]:
        lock = SinkLock(
            timeout_seconds=self.lock_timeout_seconds,
            holder=f"run {identity.run_id} of {self.config.process} into {self.config.sink.table}",
            target=self._target_name(),
        )
        schema = self.config.sink.governance.state_schema
        sides = (self.config.source.type, self.source), (self.config.sink.type, self.sink)
        with open_source_and_sink(*sides, lock) as (source, sink):
            control = sink.control
            keeps_cursor = self.config.state is StateType.SINK and control is not None
            yield LoadSessions(
                source=source,
                sink=sink,
                audit=self._audit(control),
                cursor=CursorStore(control=control, schema=schema) if control and keeps_cursor else None,
                intents=IntentStore(control=control, schema=schema) if control and keeps_cursor else None,
                lease=LeaseStore(control=control, schema=schema, exclusive_process=is_embedded(self.sink))
                if control
                else None,
                open_reader=reader_opener(self.config.source.type, self.source, source),
                checkpoints=make_checkpoint_store(self.config, sink, self.checkpoint_root, SystemClock()),
                open_lease=None if is_embedded(self.sink) or control is None else partial(self._open_lease, lock),
            )

    def _audit(self, control: ControlTables | None) -> AuditTrail | None:
        if control is None or not self.plan.audit_schema:
            return None
        return AuditTrail(control=control, schema=self.plan.audit_schema, redactor=self.redactor)

    @contextmanager
    def _open_lease(self, lock: SinkLock) -> Iterator[LeaseStore]:
        """Opens one more session of the sink, to renew the lease while the others are busy."""
        with open_sink(self.config.sink.type, self.sink, lock) as sink:
            if sink.control is None:
                raise ConnectorError("the sink keeps no leases", code="control_table_refused")
            schema = self.config.sink.governance.state_schema
            yield LeaseStore(control=sink.control, schema=schema, exclusive_process=False)

    def _target_name(self) -> str:
        """Returns the target with its schema written out, so that two spellings of one table are one target."""
        table, traits = self.config.sink.table, descriptor_of(self.config.sink.type).sink
        default = traits.default_schema if traits is not None else None
        return str(TableName(schema=table.schema or default, name=table.name))


def make_checkpoint_store(config: LoadConfig, sink: SinkPorts, root: Path, clock: Clock) -> CheckpointStore | None:
    """Returns where a native transfer keeps what is done; None for a sink without control tables.

    A process that is not split looks there for a transfer that was left half done.
    """
    partitioning = config.source.partitioning
    if partitioning is not None and partitioning.checkpoints is CheckpointsType.FILE:
        return CheckpointFiles(root=root / "native_transfer" / "checkpoints")
    if sink.control is None:
        return None
    return CheckpointTables(control=sink.control, schema=config.sink.governance.state_schema, clock=clock)
