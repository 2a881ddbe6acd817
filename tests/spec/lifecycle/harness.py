"""One attempt over in-memory ports that share one journal; the journal is the specification's order, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from dpone_core.errors import ETLExecutionError
from dpone_core.evidence.audit import AuditTrail
from dpone_core.evidence.redaction import Redactor
from dpone_core.loading.attempt import AttemptResult, run_attempt
from dpone_core.loading.context import LoadRequest, LoadSessions
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig, TableName
from dpone_core.model.vocabulary import StateType
from dpone_core.ports.control import ControlRow, ControlTable
from dpone_core.ports.runtime import Runtime
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.state import Lease
from dpone_core.state.cursor import CursorStore
from dpone_core.state.intents import IntentStore
from dpone_core.state.lease import LeaseStore
from dpone_core.testing.builders import ORDERS, load_identity, orders
from dpone_core.testing.fakes import FixedClock, Journal, MemoryControlTables, MemorySource, MemoryWarehouse
from dpone_core.use_cases.plan import PlannedProcess, plan_process
from dpone_core.wiring.runtime import NoCancellation, SilentProgress

TARGET = TableName(schema="raw", name="orders")
LOAD_ID = "01KB6Q4X7D8M1T9N3VZ5C2R0AE"


class NamedControlTables(MemoryControlTables):
    """Control tables whose journal lines say what was written: a step, a load status, the cursor, the lease."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        super().__init__(warehouse)
        self._journal = warehouse.journal
        self._warehouse = MemoryWarehouse(tables=warehouse.tables, control_rows=warehouse.control_rows)

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        super().upsert(table, rows)
        for row in rows:
            match table.name:
                case "__dpone__load_steps":
                    self._journal.write(f"step {row['step_id']} {row['status']}")
                case "__dpone__loads":
                    self._journal.write(f"load {row['status']}")

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        is_own = new is not None and expected is not None and expected.get("owner") == new.get("owner")
        if table.name == "__dpone__leases":
            self._journal.write(f"lease {'released' if new is None else 'renewed' if is_own else 'taken'}")
        elif new is None:
            self._journal.write("intent released")
        done = super().compare_and_set(table, key, expected, new)
        if done and table.name == "__dpone__cursor_state":
            self._journal.write("state advanced")
        elif done and new is not None and table.name == "__dpone__commit_intents":
            self._journal.write("intent armed")
        return done


@dataclass(slots=True)
class JournalFiles:
    """Evidence files in memory."""

    journal: Journal
    published: dict[str, bytes] = field(default_factory=dict)

    def publish(self, relative_path: str, content: bytes) -> None:
        self.journal.write(f"file {Path(relative_path).name}")
        self.published[relative_path] = content

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        for path, content in contents.items():
            self.publish(path, content)

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        return self.published.get(relative_path)

    def names(self, relative_path: str) -> tuple[str, ...]:
        return tuple(path.split("/")[-2] for path in self.published if path.startswith(f"{relative_path}/"))

    def remove(self, relative_path: str) -> None:
        self.published.pop(relative_path, None)


class ActingJournal(Journal):
    """Does something the moment a line is written: what the rest of the world may do between two steps."""

    def __init__(self, line: str, action: Callable[[], None]) -> None:
        super().__init__()
        self._line, self._action = line, action

    def write(self, line: str) -> None:
        super().write(line)
        if line == self._line:
            self._action()


@dataclass(slots=True)
class Attempt:
    """Everything one attempt needs; `ran()` runs it and keeps what it left behind."""

    manifest: Mapping[str, object]
    directory: Path
    data: Sequence[pa.RecordBatch] = (orders(1, 2), orders(3))
    journal: Journal = field(default_factory=Journal)
    identity: LoadIdentity = field(default_factory=lambda: load_identity(LOAD_ID))
    quality: Mapping[str, object] | None = None
    source: SourcePorts | None = None
    sink: SinkPorts | None = None
    warehouse: MemoryWarehouse = field(init=False)
    files: JournalFiles = field(init=False)
    cancellation: Any = field(default_factory=NoCancellation)

    def __post_init__(self) -> None:
        self.warehouse = MemoryWarehouse(journal=self.journal)
        self.files = JournalFiles(self.journal)

    @property
    def lines(self) -> list[str]:
        """The journal without the reader thread's close, whose moment is free."""
        return [line for line in self.journal.lines if line != "source.close"]

    def fails(self, line: str, error: BaseException | None = None) -> Attempt:
        """The call that writes this line raises, with a connector's error unless told otherwise."""
        self.journal.failures[line] = error or ETLExecutionError("refused", code="injected")
        return self

    def planned(self) -> PlannedProcess:
        path = self.directory / "m.yaml"
        path.write_text(yaml.safe_dump(dict(self.manifest)), encoding="utf-8")
        (config,) = load_manifest(path, project_root=self.directory).processes
        return plan_process(config)

    def ran(self) -> AttemptResult:
        planned = self.planned()
        config = planned.config if self.quality is None else replace(planned.config, quality=self.quality)
        return run_attempt(
            LoadRequest(
                config=config, plan=planned.plan, snapshot=planned.snapshot, token_values={}, hook_receipts=None
            ),
            Runtime(clock=FixedClock(), progress=SilentProgress(), cancellation=self.cancellation, evidence=self.files),
            self.identity,
            lambda identity: self._sessions(config, planned),
        )

    def target_ids(self) -> list[int] | None:
        """Ids in the target; None when there is no target."""
        table = self.warehouse.tables.get(TARGET)
        return None if table is None else sorted(int(str(row["id"])) for row in table.rows)

    def staging(self) -> list[str]:
        return [str(name) for name in self.warehouse.tables if name.name.startswith("__dpone__")]

    def state(self) -> list[ControlRow]:
        return self.warehouse.control_rows.get(("etl_state", "__dpone__cursor_state"), [])

    def load_row(self) -> ControlRow:
        return self.warehouse.control_rows[("etl_state", "__dpone__loads")][-1]

    def step(self, step_id: str) -> dict[str, Any]:
        """Details of the last audit row of a step."""
        rows = self.warehouse.control_rows[("etl_state", "__dpone__load_steps")]
        found = [row for row in rows if row["step_id"] == step_id]
        return {**found[-1], "details": json.loads(str(found[-1]["details_json"]))}

    def _leases(self, control: NamedControlTables, schema: str) -> LeaseStore:
        fenced = self.sink is None or isinstance(self.sink.control, MemoryControlTables)
        kind = LeaseStore if fenced else UnfencedLeases
        return kind(control=control, schema=schema, exclusive_process=False)

    def _sessions(self, config: LoadConfig, planned: PlannedProcess) -> AbstractContextManager[LoadSessions]:
        control = NamedControlTables(self.warehouse)
        schema = config.sink.governance.state_schema
        source = MemorySource(journal=self.journal, schema=ORDERS, data=self.data)
        audit = AuditTrail(control=control, schema=schema, redactor=Redactor())
        return nullcontext(
            LoadSessions(
                source=self.source or source.ports(),
                sink=self.sink or self.warehouse.ports(),
                audit=audit if planned.plan.audit_schema else None,
                cursor=CursorStore(control=control, schema=schema) if config.state is StateType.SINK else None,
                lease=self._leases(control, schema),
                intents=IntentStore(control=control, schema=schema) if config.state is StateType.SINK else None,
            )
        )


class UnfencedLeases(LeaseStore):
    """Leases that lie beside another sink than the one that publishes, whose transaction cannot lock them."""

    def acquire(self, config: LoadConfig, identity: LoadIdentity, now: datetime) -> Lease:
        return replace(super().acquire(config, identity, now), row=None)


class HeldSignals(NoCancellation):
    """A Cancellation whose signal arrives when the journal holds a line; the next checkpoint raises it."""

    def __init__(self, journal: Journal, *, after: str, interruption: BaseException) -> None:
        self._journal, self._after, self._interruption = journal, after, interruption

    @contextmanager
    def shield(self) -> Iterator[None]:
        yield

    def checkpoint(self) -> None:
        if self._after in self._journal.lines:
            raise self._interruption
