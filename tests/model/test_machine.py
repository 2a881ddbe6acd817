"""Real loads over in-memory ports, stepped one call at a time by a list of choices: step one, kill one, lose the answer
of a commit, end the lease, start a rival. What the models call a wrong state must not happen, and reports must be true.

A failing list is printed and shrunk by hypothesis and can be run again as it is. Contract: STATE-30.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.loading.attempt import AttemptResult
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import TargetState
from dpone_core.ports.sink import FinalizeResult, StagedHandle
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import ORDERS, load_identity, orders
from dpone_core.testing.fakes import (
    Journal,
    MemoryRevocation,
    MemorySource,
    MemoryStaging,
    MemoryStream,
    MemoryWarehouse,
)
from tests.spec.builders import append_flow
from tests.spec.lifecycle.harness import TARGET, Attempt

LOADS = [f"01KB6Q4X7D8M1T9N3VZ5C2R0B{letter}" for letter in "ABCDE"]
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
LEASES = ("etl_state", "__dpone__leases")
PATIENCE_SECONDS = 60


class SteppedJournal(Journal):
    """The thread of the load waits at every line until it may go on; a killed one waits for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.waits = threading.Semaphore(0), threading.Event()
        self.owner: threading.Thread | None = None
        self.loses_answer = False

    def write(self, line: str) -> None:
        if threading.current_thread() is self.owner:
            self.waits.set()
            self.go.acquire()
        super().write(line)


class GrowingSource(MemorySource):
    """Rows 1 to 4 by their cursor; a request reads its window."""

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> MemoryStream:
        window = request.window
        lower = int(window.lower or 0) if window is not None else 0
        upper = int(window.upper or 99) if window is not None else 99
        ids = [number for number in (1, 2, 3, 4) if lower <= number < upper]
        return MemoryStream(self.journal, self.schema, [orders(*ids)] if ids else [])


class Staging(MemoryStaging):
    """Loses answers, and without a transaction checks no lease but needs its staging."""

    def __init__(self, warehouse: MemoryWarehouse, world: World) -> None:
        super().__init__(warehouse)
        self.warehouse, self.world = warehouse, world

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        if not self.world.is_fenced:
            handle = replace(handle, request=replace(handle.request, fence=None))
        elif not self.world.in_transaction:
            self.warehouse.journal.write("sink.look")
            if handle.table not in self.warehouse.tables:
                raise ConnectorError("the staging is gone", code="finaliser_refused")
            handle = replace(handle, request=replace(handle.request, fence=None))
        done = super().finalize(handle)
        self.world.published.append(handle.request.identity.load_id)
        if isinstance(self.warehouse.journal, SteppedJournal) and self.warehouse.journal.loses_answer:
            raise CommitOutcomeUnknownError("the answer was lost")
        return done


@dataclass
class Runner:
    """One load in a thread of its own; `result` is None until it has ended."""

    attempt: Attempt
    journal: SteppedJournal
    thread: threading.Thread | None = None
    result: AttemptResult | None = None
    dead: bool = False

    def run(self) -> None:
        self.result = self.attempt.ran()
        self.journal.waits.set()

    @property
    def ended(self) -> bool:
        return self.dead or self.result is not None

    def step(self) -> None:
        self.journal.waits.clear()
        self.journal.go.release()
        assert self.journal.waits.wait(PATIENCE_SECONDS)


@dataclass
class World:
    """What all loads share: one warehouse, whose leases end when somebody says so."""

    directory: Path
    in_transaction: bool
    is_fenced: bool = True
    shared: MemoryWarehouse = field(default_factory=MemoryWarehouse)
    runners: list[Runner] = field(default_factory=list)
    published: list[str] = field(default_factory=list)

    def start(self) -> None:
        journal = SteppedJournal()
        options = {"incremental": {"cursor_column": "id"}}
        attempt = Attempt(
            manifest=append_flow(source__options=options),
            directory=self.directory,
            journal=journal,
            identity=load_identity(LOADS[len(self.runners)]),
        )
        house = attempt.warehouse
        house.tables, house.control_rows = self.shared.tables, self.shared.control_rows
        house.control_kinds = self.shared.control_kinds
        ports = replace(house.ports(), staged=Staging(house, self))
        attempt.sink = (
            ports if self.in_transaction or not self.is_fenced else replace(ports, revocation=MemoryRevocation(house))
        )
        attempt.source = GrowingSource(journal=journal, schema=ORDERS, data=[orders(1, 2, 3, 4)]).ports()
        runner = Runner(attempt, journal)
        runner.thread = journal.owner = threading.Thread(target=runner.run, daemon=True)
        self.runners.append(runner)
        journal.waits.clear()
        runner.thread.start()
        assert journal.waits.wait(PATIENCE_SECONDS)

    def end_lease(self) -> None:
        rows = self.shared.control_rows.get(LEASES, [])
        rows[:] = [{**row, "expires_at": LONG_AGO} for row in rows]

    def moves(self) -> list[Callable[[], None]]:
        """The model's next steps, those of loads first and most often."""
        found: list[Callable[[], None]] = []
        for runner in self.runners:
            if not runner.ended:
                found += [runner.step] * 6
                found += [lambda r=runner: setattr(r, "dead", True)]  # type: ignore[misc]
                found += [lambda r=runner: setattr(r.journal, "loses_answer", True)]  # type: ignore[misc]
        if len(self.runners) < 3:
            found.append(self.start)
        return [*found, self.end_lease]

    def check(self) -> None:
        rows = self.shared.tables[TARGET].rows if TARGET in self.shared.tables else []
        ids = [row["id"] for row in rows]
        assert len(ids) == len(set(ids)), f"rows twice: {ids}, {self.published}"
        for runner in self.runners:
            if runner.result is not None:
                outcome, there = runner.result.outcome, runner.attempt.identity.load_id in self.published
                assert not outcome.passed or there or outcome.result.staged_rows == 0, "success without rows"
                assert outcome.target_state is not TargetState.NOT_MUTATED or not there, "untouched, and it is not"
                assert outcome.target_state is not TargetState.MUTATION_RETURNED_SUCCESS or (
                    there or outcome.result.staged_rows == 0
                ), "mutated, and it is not"


def play(directory: Path, in_transaction: bool, choices: Sequence[int]) -> World:
    world = World(directory, in_transaction)
    world.start()
    for choice in choices:
        moves = world.moves()
        for _ in range(1 + choice // 1000):
            moves[choice % len(moves)]()
            world.check()
            if all(runner.ended for runner in world.runners):
                break
            moves = world.moves()
    return world


@pytest.mark.parametrize("in_transaction", [True, False], ids=["transaction", "staging"])
@pytest.mark.parametrize("is_fenced", [True, False], ids=["fenced", "unfenced"])
def test_the_shortest_way_of_the_model_is_a_way_of_the_product(
    tmp_path: Path, in_transaction: bool, is_fenced: bool
) -> None:
    """The first load stands still before it publishes; without a fence it then publishes beside its rival."""
    world = World(tmp_path, in_transaction, is_fenced)
    world.start()
    late = world.runners[0]
    while late.journal.lines[-1:] != ["intent armed"]:
        late.step()
    world.end_lease()
    world.start()
    while not world.runners[1].ended:
        world.runners[1].step()
        world.check()
    while not late.ended:
        late.step()
    if not is_fenced:
        with pytest.raises(AssertionError, match="rows twice"):
            world.check()
        return
    world.check()
    assert late.result is not None and late.result.outcome.failure is not None
    assert late.result.outcome.failure.code == "load_in_progress"
    assert world.published == [world.runners[1].attempt.identity.load_id]


CHOICES = st.lists(st.integers(min_value=0, max_value=30_000), min_size=4, max_size=24)


@pytest.mark.parametrize("in_transaction", [True, False], ids=["transaction", "staging"])
def test_loads_that_are_stepped_killed_and_robbed_leave_no_wrong_state(
    tmp_path_factory: pytest.TempPathFactory, in_transaction: bool
) -> None:
    directory = tmp_path_factory.mktemp("machine")

    @settings(max_examples=15, deadline=None, derandomize=True, database=None)
    @given(CHOICES)
    def played(choices: list[int]) -> None:
        play(directory, in_transaction, choices)

    played()


@pytest.mark.slow
@pytest.mark.parametrize("in_transaction", [True, False], ids=["transaction", "staging"])
def test_many_more_of_them(tmp_path_factory: pytest.TempPathFactory, in_transaction: bool) -> None:
    directory = tmp_path_factory.mktemp("machine")

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(CHOICES)
    def played(choices: list[int]) -> None:
        play(directory, in_transaction, choices)

    played()
