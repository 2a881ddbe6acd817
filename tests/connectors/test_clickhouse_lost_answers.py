"""Whatever statement of a load loses its answer, before or after it is executed: no row twice, and a truthful verdict.

The connection is dropped at each changing statement in turn: staging, publication, cleanup, of every strategy. Wire-
tested against an HTTP endpoint over chDB; not a server or cluster. Contract: CH-10, CH-17, CH-18.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from dpone_core.connectors.clickhouse.catalog import artifact_of
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.sink.publish import publish
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import ROLES, SHADOW
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StageRequest
from dpone_core.testing.builders import stage_request
from dpone_core.testing.open_sink import MERGE, REPLACE, OpenSink, fresh_table
from dpone_core.testing.replace_conformance import BY_NAME, parts
from tests.connectors.sessions import APPEND, FULL_REFRESH, clickhouse_sink, session_of

CHANGES: Final = r"^\s*(CREATE|ALTER|DROP|RENAME|EXCHANGE|INSERT)\b"
CLEANUPS: Final = len(ROLES)
"""Statements after the commit: staging, shadow and the like are dropped."""
OLD: Final = [(1, "a"), (2, "b"), (3, "c")]
Rows = list[tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A load into a target that holds OLD (or no target), and what the target holds after it."""

    strategy: StrategyMode
    rows: Rows
    after: Rows
    target: bool = True
    updated: int = 0


SCENES: Final = {
    "created": Scene(strategy=MERGE, rows=[(4, "a")], after=[(4, "a")], target=False),
    "refreshed": Scene(strategy=FULL_REFRESH, rows=[(4, "a")], after=[(4, "a")]),
    "one partition appended": Scene(strategy=APPEND, rows=[(4, "a")], after=[*OLD, (4, "a")]),
    "partitions appended": Scene(strategy=APPEND, rows=[(4, "a"), (5, "d")], after=[*OLD, (4, "a"), (5, "d")]),
    "merged": Scene(
        strategy=MERGE, rows=[(2, "b"), (3, "d"), (4, "a")], after=[(1, "a"), (2, "b"), (3, "d"), (4, "a")], updated=2
    ),
    "one partition replaced": Scene(strategy=REPLACE, rows=[(4, "b")], after=[(1, "a"), (3, "c"), (4, "b")]),
    "partitions replaced": Scene(
        strategy=REPLACE, rows=[(4, "b"), (5, "d")], after=[(1, "a"), (3, "c"), (4, "b"), (5, "d")]
    ),
}

QUICK: Final = ("merged", "one partition replaced", "partitions replaced")


@dataclass(slots=True)
class Faults:
    """Faults of the endpoint; `struck` says whether the planned one has happened."""

    port: int
    struck: bool = False

    @contextmanager
    def planned(self, **fault: object) -> Iterator[None]:
        self.send([fault])
        try:
            yield
        finally:
            self.struck = self.send([]) == [0]

    def held(self) -> int:
        """How many statements the endpoint has kept waiting since it began."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_held", timeout=10) as answer:
            return int(answer.read())

    def send(self, faults: Sequence[Mapping[str, object]]) -> object:
        body = json.dumps(list(faults)).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_faults", data=body, timeout=10) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    double = Path(__file__).with_name("clickhouse_http_double.py")
    with subprocess.Popen(
        [sys.executable, str(double), str(tmp_path_factory.mktemp("served") / "data")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield Faults(int(process.stdout.readline()))
        process.kill()


@pytest.fixture(scope="module")
def sink(faults: Faults) -> Iterator[OpenSink]:
    with clickhouse_sink(f"clickhouse://127.0.0.1:{faults.port}/default") as opened:
        yield opened


def request(table: TableName, strategy: StrategyMode, load: str) -> StageRequest:
    design = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="part"))
    plain = stage_request(table, load, strategy=strategy, schema=BY_NAME, unique_key=("id",))
    return replace(plain, physical_design=design)


def held(sink: OpenSink, table: TableName) -> Rows | None:
    if sink.ports.target.describe_target(table) is None:
        return None
    return sorted((int(str(row["id"])), str(row["part"])) for row in sink.rows(table))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the caller was told: a result, or an error before or at the commit."""

    result: FinalizeResult | None = None
    error: ConnectorError | None = None


def attempted(sink: OpenSink, wanted: StageRequest, rows: Rows) -> Verdict:
    """One load; a cleanup that fails is a failure of cleanup only, and may be repeated."""
    try:
        handle = sink.staged.stage(wanted, iter([parts(*rows)]))
    except ConnectorError as error:
        return Verdict(error=error)
    try:
        verdict = Verdict(result=sink.staged.finalize(handle))
    except ConnectorError as error:
        verdict = Verdict(error=error)
    with suppress(ConnectorError):
        sink.staged.cleanup(handle.ref)
    return verdict


def struck_statements(
    sink: OpenSink, faults: Faults, scene: Scene, stage: str, judge: Callable[[TableName, Rows | None, Verdict], None]
) -> int:
    """Drops the connection at each statement in turn, in a table of its own; how many there were."""
    for skip in range(100):
        table = fresh_table()
        if scene.target:
            sink.load(request(table, FULL_REFRESH, "L1"), parts(*OLD))
        before = held(sink, table)
        wanted = request(table, scene.strategy, "L2")
        with faults.planned(match=CHANGES, stage=stage, skip=skip):
            verdict = attempted(sink, wanted, scene.rows)
        assert len(sink.ports.target.leftovers(table, None)) <= 1
        sink.staged.cleanup(wanted.ref)
        assert sink.ports.target.leftovers(table, None) == ()
        if not faults.struck:
            assert verdict.result is not None
            return skip
        judge(table, before, verdict)
    raise AssertionError("a load of more than a hundred statements")


@pytest.mark.parametrize("stage", ["before", pytest.param("after", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == QUICK[0] else [pytest.mark.slow]) for name in SCENES]
)
def test_a_lost_answer_is_told_truthfully_and_a_retry_doubles_nothing(
    sink: OpenSink, faults: Faults, name: str, stage: str
) -> None:
    scene = SCENES[name]
    settled: list[str] = []

    def judge(table: TableName, before: Rows | None, verdict: Verdict) -> None:
        now = held(sink, table)
        if verdict.result is not None:
            result = verdict.result
            counts = (result.inserted_rows, result.updated_rows, result.total_rows)
            assert now == scene.after
            assert counts == (len(scene.rows) - scene.updated, scene.updated, len(scene.after))
            settled.append(result.finaliser)
            return
        assert not isinstance(verdict.error, CommitOutcomeUnknownError), "the server answers again: it can be asked"
        assert now == before, "an error says that the target is as it was"
        again = sink.staged.stage(request(table, scene.strategy, "L3"), iter([parts(*scene.rows)]))
        sink.staged.finalize(again)
        sink.staged.cleanup(again.ref)
        assert held(sink, table) == scene.after

    assert struck_statements(sink, faults, scene, stage, judge) > 8
    assert len(settled) == CLEANUPS + (stage == "after"), "a commit whose answer is lost is a commit"


@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_part_that_is_there_already_is_looked_at_and_not_believed(sink: OpenSink, faults: Faults, stage: str) -> None:
    """CH-10: the code of a replicated REPLACE PARTITION that may or may not have happened."""
    table = fresh_table()
    sink.load(request(table, FULL_REFRESH, "L1"), parts(*OLD))
    with faults.planned(match="REPLACE PARTITION", stage=stage, code=232):
        verdict = attempted(sink, request(table, REPLACE, "L2"), [(4, "b")])
    assert faults.struck
    if stage == "after":
        assert verdict.result is not None and held(sink, table) == [(1, "a"), (3, "c"), (4, "b")]
    else:
        assert verdict.error is not None and verdict.error.code == "finaliser_refused"
        assert held(sink, table) == OLD


@pytest.mark.parametrize("name", QUICK)
def test_a_lost_answer_and_a_silent_server_are_an_unknown_outcome(sink: OpenSink, faults: Faults, name: str) -> None:
    """CH-17: nothing is claimed and nothing is repeated when the target cannot be asked."""
    scene, table = SCENES[name], fresh_table()
    sink.load(request(table, FULL_REFRESH, "L1"), parts(*OLD))
    handle = sink.staged.stage(request(table, scene.strategy, "L2"), iter([parts(*scene.rows)]))
    session = session_of(sink)
    with (
        faults.planned(match=f"^(EXCHANGE|ALTER).*`{table.name}`( REPLACE PARTITION|$)", stage="after", code=319),
        pytest.raises(CommitOutcomeUnknownError),
    ):
        publish(SilentAfterTheCommit(session, faults), handle, table, artifact_of(session, handle.ref, SHADOW))
    assert held(sink, table) == scene.after
    sink.staged.cleanup(handle.ref)
    assert sink.ports.target.leftovers(table, None) == ()


class SilentAfterTheCommit:
    """The session as it is until the commit; from then on no question is answered."""

    def __init__(self, session: Session, faults: Faults) -> None:
        self._session = session
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def attempt(self, sql: str) -> Exception | None:
        error = self._session.attempt(sql)
        self._faults.send([{"match": "^SELECT|^RENAME|^DROP", "stage": "before", "times": 99}])
        return error
