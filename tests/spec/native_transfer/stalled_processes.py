"""Builds a process of a fan-out that stalls: its scheduler gave it up, and it goes on after others took over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from dpone_core.errors import ConnectorError
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.loading.context import LoadSessions
from dpone_core.loading.native.fan_out import PartitionItem
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.partition import KeyBounds, KeyRange, PartitionCheckpoint
from dpone_core.model.table_schema import TableSchema
from dpone_core.native_transfer.ledger import TransferLedger
from dpone_core.planning.partitions import route_of
from dpone_core.ports.ranges import RangeSourcePort, RangeStagingPort
from dpone_core.ports.runtime import Runtime
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.sink import StagedHandle, StageRequest
from dpone_core.ports.source import BatchStream, ExtractRequest
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.use_cases.fan_out import FanOutProcess, TransferExecution
from dpone_core.use_cases.plan import plan_process
from dpone_core.use_cases.prepare import PreparedProcess, make_load_identity, prepare_process
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.runtime import NoCancellation, SilentProgress, SystemClock
from tests.spec.native_transfer.builders import transferred
from tests.spec.native_transfer.fan_out_process import RUN, FanOut

Meanwhile = Callable[[], object]


class Stalls(StrEnum):
    """Where the stalled process waits: it has read the checkpoints, or it is about to stage the range."""

    HAVING_READ = "having_read"
    STAGING = "staging"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class _StalledRanges:
    ranges: RangeStagingPort
    meanwhile: Meanwhile

    def prepare(self, request: StageRequest) -> None:
        self.meanwhile()
        self.ranges.prepare(request)

    def find(self, request: StageRequest) -> StagedHandle | None:
        return self.ranges.find(request)

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        return self.ranges.assemble(request, parts)


def load_with_stall(fan_out: FanOut, plan: str, index: int, meanwhile: Meanwhile, stalls: Stalls) -> TransferExecution:
    """`meanwhile` happens while the process that stages this range stands still; then it goes on, or fails."""
    prepared, invocation, runtime = _parts(fan_out)

    @contextmanager
    def opened(identity: LoadIdentity) -> Iterator[LoadSessions]:
        with prepared.session_opener()(identity) as sessions:
            if stalls is Stalls.HAVING_READ:
                assert sessions.sink.ranges is not None
                ranges = _StalledRanges(sessions.sink.ranges, meanwhile)
                yield replace(sessions, sink=replace(sessions.sink, ranges=ranges))
                return
            genuine = sessions.open_reader
            assert genuine is not None

            @contextmanager
            def open_reader() -> Iterator[SourcePorts]:
                with genuine() as reader:
                    meanwhile()
                    assert reader.ranges is not None
                    fails = stalls is Stalls.FAILING
                    yield replace(reader, ranges=_FailingSource(reader.ranges, lambda: None)) if fails else reader

            yield replace(sessions, open_reader=open_reader)

    process = FanOutProcess(prepared=prepared, invocation=invocation, runtime=runtime, sessions=opened)
    return process.load(PartitionItem(index=index, transfer_plan=plan))


@dataclass(frozen=True, slots=True)
class _StalledSource:
    ranges: RangeSourcePort
    meanwhile: Meanwhile

    def snapshot(self) -> AbstractContextManager[str | None]:
        return self.ranges.snapshot()

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        found = self.ranges.key_bounds(request, schema, column, snapshot)
        self.meanwhile()
        return found

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> BatchStream:
        return self.ranges.open_range(request, schema, column, bounds, snapshot)


@dataclass(frozen=True, slots=True)
class _FailingSource(_StalledSource):
    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> BatchStream:
        raise ConnectorError("the source is gone", code="source_unreachable")


def plan_with_stall(fan_out: FanOut, meanwhile: Meanwhile) -> TransferExecution:
    """`meanwhile` happens when this process has counted the source and has not stored its plan."""
    prepared, invocation, runtime = _parts(fan_out)

    @contextmanager
    def opened(identity: LoadIdentity) -> Iterator[LoadSessions]:
        with prepared.session_opener()(identity) as sessions:
            assert sessions.source.ranges is not None
            source = replace(sessions.source, ranges=_StalledSource(sessions.source.ranges, meanwhile))
            yield replace(sessions, source=source)

    return FanOutProcess(prepared=prepared, invocation=invocation, runtime=runtime, sessions=opened).plan()


@contextmanager
def ledger_of(fan_out: FanOut) -> Iterator[TransferLedger]:
    """What a process that has just read the checkpoints of the run works with."""
    prepared, invocation, runtime = _parts(fan_out)
    with prepared.session_opener()(make_load_identity(invocation, runtime.clock, 1)) as sessions:
        store, route = sessions.checkpoints, route_of(prepared.planned.plan)
        assert store is not None
        run = store.run(route, RUN)
        assert run is not None
        made = TransferLedger(store=store, run=run, clock=runtime.clock)
        made.latest.update((record.partition_id, record) for record in store.latest(route, RUN))
        yield made


def arm_guard_of(fan_out: FanOut, index: int) -> None:
    """A publication that armed the guard of this range and died."""
    with ledger_of(fan_out) as made:
        run = made.run
        partition = run.plan.partitions(run.route, run.plan.query_hash, run.plan.schema_hash)[index]
        made.guard_commit([transferred(partition, 33)], {"load_id": partition.id, "attempt": 1, "mark": None}).arm()


def stored(fan_out: FanOut) -> list[PartitionCheckpoint]:
    with ledger_of(fan_out) as made:
        return list(made.store.latest(made.run.route, RUN))


def statuses(fan_out: FanOut) -> list[str]:
    return [record.status.value for record in stored(fan_out)]


def _parts(fan_out: FanOut) -> tuple[PreparedProcess, RunInvocation, Runtime]:
    root = fan_out.project.root
    variables = {**fan_out.project.environment}
    manifest = load_manifest(root / "m.yaml", project_root=root)
    (config,) = manifest.processes
    invocation = resolve_invocation(RunArguments(run_id=RUN), variables, RUN)
    resolver = ConnectionResolver(
        env=variables, project_root=root, manifest_directory=manifest.directory, redactor=Redactor()
    )
    evidence = Path(root / "evidence")
    return (
        prepare_process(plan_process(config), resolver, {}, invocation, evidence),
        invocation,
        Runtime(
            clock=SystemClock(),
            progress=SilentProgress(),
            cancellation=NoCancellation(),
            evidence=LocalEvidenceFiles(root=evidence),
        ),
    )
