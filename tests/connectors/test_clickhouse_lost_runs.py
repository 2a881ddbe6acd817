"""A whole run over HTTP loses the answer to one of its statements, control rows included: what it says stays true.

Every changing statement of a merge in turn: lease, audit, steps, staging, publication, cursor, cleanup, release. Wire-
tested against an HTTP endpoint over chDB. Contract: CH-06, CH-19.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpone_core.api import RunExecution
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import RetryClassification, SourceState, TargetState
from dpone_core.state.lease import lease_key, lease_table
from dpone_core.testing.builders import stage_request
from dpone_core.testing.open_sink import OpenSink, fresh_table
from dpone_core.testing.replace_conformance import BY_NAME, parts
from tests.connectors.sessions import FULL_REFRESH, clickhouse_sink
from tests.connectors.test_clickhouse_leases import config
from tests.connectors.test_clickhouse_lost_answers import CHANGES, Faults, Rows, faults, held
from tests.spec.builders import Project, code_of, flow, outcome_of

__all__ = ("faults",)

OLD: Rows = [(1, "a"), (2, "b")]
NEW: Rows = [(1, "a"), (2, "c"), (3, "c")]
FEW = 17
"""In the quick suite every seventeenth statement."""


@pytest.fixture
def sink(faults: Faults) -> Iterator[OpenSink]:
    with clickhouse_sink(f"clickhouse://127.0.0.1:{faults.port}/default") as opened:
        yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A merge of three rows, one of them new and one changed, into a table of its own for every run."""

    project: Project
    sink: OpenSink

    def table(self) -> TableName:
        table = fresh_table()
        plain = stage_request(table, "L0", strategy=FULL_REFRESH, schema=BY_NAME, order_by=("id",))
        self.sink.load(plain, parts(*OLD))
        self.project.written(
            flow(
                sink__type="clickhouse",
                sink__table={"schema": table.schema, "name": table.name},
                sink__strategy={"mode": "incremental_merge", "unique_key": ["id"]},
                source__options={"incremental": {"cursor_column": "id"}},
                state={"type": "sink"},
                quality={"gates": [{"type": "row_count_reconciliation"}]},
            )
        )
        return table

    def run(self, run_id: str) -> RunExecution:
        return self.project.execute(run_id)

    def break_lease(self, table: TableName) -> None:
        """What time does: a lease whose release was lost ends."""
        control = self.sink.ports.control
        assert control is not None
        key = {"lease_key": lease_key(config(table.name, schema=table.schema))}
        [row] = control.read(lease_table("etl_state"), key)
        ended = {**row, "expires_at": datetime(2026, 1, 1, tzinfo=UTC)}
        assert control.compare_and_set(lease_table("etl_state"), key, {"owner": row["owner"]}, ended)


@pytest.fixture
def shop(tmp_path: Path, sink: OpenSink, faults: Faults) -> Shop:
    uri = f"clickhouse://127.0.0.1:{faults.port}/default"
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": uri})
    project.source("CREATE TABLE orders (id INTEGER NOT NULL, part VARCHAR(9) NOT NULL, name TEXT)")
    for row_id, part in NEW:
        project.source(f"INSERT INTO orders VALUES ({row_id}, '{part}', 'n')")
    return Shop(project=project, sink=sink)


def has_shadow(sink: OpenSink, table: TableName) -> bool:
    return any(left.role == "shadow" for left in sink.ports.target.leftovers(table, None))


def untrue(execution: RunExecution, now: Rows | None) -> Iterator[str]:
    """What the run claims and the target contradicts."""
    outcome = outcome_of(execution)
    if outcome.passed and now != NEW:
        yield "a success without its rows"
    match outcome.target_state:
        case TargetState.NOT_MUTATED if now != OLD:
            yield "the target is said to be as it was"
        case TargetState.MUTATION_RETURNED_SUCCESS if now != NEW:
            yield "the target is said to hold the rows"
        case TargetState.UNKNOWN if outcome.retry is not RetryClassification.OPERATOR_VERIFICATION_REQUIRED:
            yield "an unknown outcome may be retried"
    if outcome.source_state is SourceState.ADVANCED and now != NEW:
        yield "the cursor went on without the rows"
    if now not in (OLD, NEW):
        yield "half a load"


@pytest.mark.slow
@pytest.mark.parametrize(("every", "stage"), [(FEW, "after"), (1, "before"), (1, "after")])
def test_whatever_answer_is_lost_the_run_says_what_is_true_and_the_next_one_converges(
    shop: Shop, faults: Faults, every: int, stage: str
) -> None:
    wrong: list[str] = []
    struck, leased = 0, 0
    for skip in range(0, 300, every):
        table = shop.table()
        with faults.planned(match=CHANGES, stage=stage, skip=skip):
            execution = shop.run(f"r{skip}")
        if not faults.struck:
            assert outcome_of(execution).passed
            break
        struck += 1
        wrong += [f"statement {skip}: {text}" for text in untrue(execution, held(shop.sink, table))]
        again = shop.run(f"again{skip}")
        if code_of(again) == "load_in_progress":
            leased += 1
            shop.break_lease(table)
            again = shop.run(f"late{skip}")
        if code_of(again) is not None or held(shop.sink, table) != NEW:
            wrong.append(f"statement {skip}: the next run ends with {code_of(again)}, {held(shop.sink, table)}")
    assert wrong == []
    assert struck * every > 30
    assert leased * every <= 8, "only a lost release leaves a lease behind"


def test_a_run_killed_beside_its_finished_shadow_leaves_the_target_and_is_found_by_its_run_id(
    shop: Shop, faults: Faults
) -> None:
    """CH-06: a crash between building and publishing; what it left is reported, never read, and removed by run id."""
    table = shop.table()
    with faults.planned(match="^EXCHANGE TABLES .*__dpone__shadow", stage="never"):
        run = shop.project.start("run", "m.yaml", "--run-id", "dead")
        while not has_shadow(shop.sink, table):
            assert run.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        run.kill()
        run.communicate()
    assert held(shop.sink, table) == OLD
    roles = sorted(left.role for left in shop.sink.ports.target.leftovers(table, None))
    assert roles == ["shadow", "stg"]
    assert code_of(shop.run("early")) == "load_in_progress"
    shop.break_lease(table)
    after = shop.run("next")
    assert code_of(after) is None and held(shop.sink, table) == NEW
    assert any("leftovers" in warning for warning in outcome_of(after).warnings)
    cleaned = shop.project.dpone("cleanup", "m.yaml", "--run-id", "dead", "--format", "json")
    assert cleaned.exit_code == 0, cleaned.stderr
    assert shop.sink.ports.target.leftovers(table, None) == ()
    assert held(shop.sink, table) == NEW
