"""The soak finds nothing in a few iterations, and its checks find what is wrong when something is.

Contract: LIFE-21, FAIL-32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Forks
from tests.soak.disturbances import Kind
from tests.soak.lane import Route, routes
from tests.soak.model import APPEND, MERGE, REFRESH, REPLACE, Row, SourceModel, difference, draws, expected, is_between
from tests.soak.processes import Ended
from tests.soak.sinks import NOTHING
from tests.soak.soak import Soak
from tests.soak.table import Table
from tests.soak.truth import Step, violations, violations_at_rest

OLD: list[Row] = [(1, "2026-01-01", "a", 10), (2, "2026-01-02", "b", 20)]
NEW: list[Row] = [*OLD, (3, "2026-01-02", "c", 30)]


@pytest.fixture(name="forks")
def forks_of_a_test() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


def soaked(directory: Path, forks: Forks, only: str, iterations: int) -> Table:
    said: list[str] = []
    soak = Soak(
        seed=7,
        iterations=iterations,
        seconds=250,
        only=only,
        first=0,
        directory=directory,
        forks=forks,
        say=said.append,
    )
    return soak.run()


def test_a_few_iterations_into_duckdb_are_without_violation(tmp_path: Path, forks: Forks) -> None:
    table = soaked(tmp_path, forks, "sqlite-duckdb-partition_replace", 4)
    assert not table.violations, table.as_text()
    assert table.iterations == 6, "a quiet point before and behind"


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["duckdb", "files", "chdb", "clickhouse", "postgres"])
def test_every_strategy_of_a_sink_is_without_violation(sink: str, tmp_path: Path, forks: Forks) -> None:
    table = soaked(tmp_path, forks, f"-{sink}-", 14)
    assert not table.violations, table.as_text()
    if not table.iterations:
        pytest.skip("UNVERIFIED: " + next(iter(table.unverified.values())))


def ended(**changes: Any) -> Ended:
    """A run that succeeded, and says so everywhere."""
    receipt = {
        "status": "succeeded",
        "exit_code": 0,
        "error_code": None,
        "target_state": "mutation_returned_success",
        "source_state": "not_applicable",
        "checkpoint_state": "not_applicable",
        "retry_classification": None,
        "failure_boundary": None,
    }
    report: dict[str, Any] = {"passed": True, "result": {"details": {"warnings": []}}}
    run = Ended(
        run_id="r",
        exit_code=0,
        in_time=True,
        receipt=receipt,
        report=report,
        published={"report": report},
        tampered=False,
        phases=(("stage", 1.0),),
        seconds=2.0,
        stderr="",
    )
    return replace(run, **changes)


def failed(**said: Any) -> Ended:
    receipt = {**(ended().receipt or {}), "status": "failed", "exit_code": 1, "target_state": "not_mutated", **said}
    facts = {"failure_context": {"target_state": receipt["target_state"]}}
    report = {"passed": False, "result": facts}
    return ended(exit_code=1, receipt=receipt, report=report, published={"report": report})


def step(run: Ended, after: list[Row], *, strategy: str = REFRESH, cursor: int | None = None) -> Step:
    return Step(
        strategy=strategy,
        piecewise=False,
        kind=Kind.NONE,
        source=NEW,
        before=replace(NOTHING, rows=OLD),
        after=replace(NOTHING, rows=sorted(after), cursor=cursor),
        runs=(run,),
    )


def test_what_is_true_is_no_violation() -> None:
    assert not list(violations(step(ended(), NEW)))
    assert not list(violations(step(failed(), OLD)))
    assert not list(violations_at_rest(step(ended(), NEW)))


@pytest.mark.parametrize(
    ("run", "after", "word"),
    [
        (ended(), [*NEW, NEW[0]], "1 of them doubled"),
        (ended(), NEW[1:], "1 missing"),
        (failed(), NEW, "not_mutated"),
        (failed(target_state="unknown"), NEW[1:], "neither the old target nor the new one"),
        (failed(target_state="mutation_returned_success"), OLD, "said to be loaded"),
        (ended(exit_code=1), NEW, "exits with 1, its receipt says 0"),
        (ended(published=None), NEW, "without run.json"),
        (ended(tampered=True), NEW, "not that of the receipt's digest"),
        (ended(published=failed().published), NEW, "run.json says passed False"),
        (ended(report=failed().report), NEW, "stdout says passed False"),
        (ended(receipt=None, exit_code=1), NEW, "leaves no receipt"),
        (ended(exit_code=-9), NEW, "died by signal 9"),
        (failed(error_code="DPONE_INTERNAL_ERROR"), OLD, "ends with DPONE_INTERNAL_ERROR"),
        (ended(in_time=False), NEW, "did not end"),
    ],
)
def test_what_is_wrong_is_a_violation(run: Ended, after: list[Row], word: str) -> None:
    assert word in "; ".join(violations(step(run, after)))


def test_a_cursor_that_passes_its_rows_is_a_violation() -> None:
    assert "without its rows" in "; ".join(violations(step(failed(), OLD[:1], strategy=APPEND, cursor=30)))
    assert not list(violations(step(ended(), NEW, strategy=MERGE, cursor=30)))


def test_what_stays_behind_an_undisturbed_run_is_a_violation() -> None:
    quiet = step(ended(), NEW)
    left = replace(quiet, after=replace(quiet.after, leftovers=["__dpone__stg_orders_1"], leases=1))
    assert len(list(violations_at_rest(left))) == 2
    unnamed = replace(quiet, before=replace(quiet.before, leftovers=["__dpone__stg_orders_1"]))
    assert "is not reported" in "; ".join(violations_at_rest(unnamed))


def test_what_a_target_must_hold_follows_from_the_strategy() -> None:
    changed: Row = (2, "2026-01-02", "changed", 40)
    assert expected(REFRESH, OLD, [changed]) == [changed]
    assert expected(APPEND, OLD, NEW) == OLD, "the newest rows wait"
    assert expected(MERGE, NEW, [changed]) == sorted([OLD[0], changed, NEW[2]])
    assert expected(REPLACE, NEW, [changed]) == sorted([OLD[0], changed])
    assert is_between(APPEND, [], OLD[:1], NEW) and not is_between(APPEND, [], [OLD[0], OLD[0]], NEW)
    assert not is_between(REPLACE, OLD, [], [changed]) and difference([OLD[0]], [OLD[0]]) is None


@pytest.mark.parametrize("strategy", [REFRESH, APPEND, MERGE, REPLACE])
def test_the_same_seed_draws_the_same_rows(strategy: str) -> None:
    models = [SourceModel(strategy), SourceModel(strategy)]
    for number in range(4):
        for model in models:
            model.change(draws(3, "lane", number))
        assert models[0].rows == models[1].rows
        assert len({row[0] for row in models[0].rows}) == len(models[0].rows)


def test_every_sink_has_every_strategy_that_it_takes() -> None:
    ways = {(route.sink, route.strategy) for route in routes()}
    assert {sink for sink, _ in ways} == {"duckdb", "files", "postgres", "chdb", "clickhouse"}
    assert len(ways) == 4 * 4 + 2
    assert Route(source="sqlite", sink="files", strategy=APPEND, ranges=True) in set(routes())
