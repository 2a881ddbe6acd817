"""Rules about columns are judged over all key ranges of a full refresh together, before one of them is public.

Contract: GATE-32.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.servers import scratch_postgres
from tests.spec.builders import Project, code_of, outcome_of, project_with_orders
from tests.spec.native_transfer.fan_out_process import EVERY, FanOut, fan_out_flow
from tests.spec.native_transfer.test_replaced_since import committed_without_report
from tests.spec.native_transfer.test_transfers import QUALITY, ROWS, append, refresh, step

RULES: Final[list[dict[str, Any]]] = [
    {"type": "not_null", "columns": ["id", "name"]},
    {"type": "unique", "columns": ["name"]},
    {"type": "accepted_values", "column": "updated_at", "values": [number * 10 for number in range(1, 101)]},
    {"type": "custom_sql", "sql": "SELECT count(*) FROM {{ staged }} WHERE id < 1"},
]


def with_rules(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**QUALITY, "gates": [*QUALITY["gates"], *rules]}  # type: ignore[misc]


@pytest.fixture(name="project")
def hundred_orders(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, rows=ROWS)


def results(outcome: Any) -> dict[str, tuple[str, Any]]:
    """Status and judged rows of each gate."""
    report = outcome.quality_gates or next(
        dict(found.details)["quality_gates"] for found in outcome.steps if found.step_id == "quality_checked"
    )
    return {each["type"]: (each["status"], each["metrics"].get("evaluated_rows")) for each in report["results"]}


def test_rows_of_all_ranges_that_keep_the_rules_are_published(project: Project) -> None:
    project.written(refresh(quality=with_rules(*RULES)))
    execution = project.execute("r1")
    assert execution.error is None and project.target() == ROWS
    judged = results(outcome_of(execution))
    assert {judged[rule["type"]] for rule in RULES} == {("passed", 100)}


@pytest.mark.parametrize(("low", "high"), [(2, 99), (2, 3)], ids=["of two ranges", "of one range"])
def test_a_key_that_repeats_across_ranges_is_found_and_nothing_is_published(
    project: Project, low: int, high: int
) -> None:
    project.source(f"UPDATE orders SET name = 'n{low}' WHERE id = {high}")
    project.written(refresh(quality=with_rules(*RULES)))
    execution = project.execute("r1")
    assert code_of(execution) == "DPONE_QUALITY_GATES_FAILED"
    assert results(outcome_of(execution))["unique"] == ("failed", 100)
    assert outcome_of(execution).failed_gate.count("metrics", "failed_rows") == 2
    assert project.target("SELECT table_name FROM duckdb_tables() WHERE NOT starts_with(table_name, '__dpone')") == []
    project.source(f"UPDATE orders SET name = 'n{high}' WHERE id = {high}")
    assert project.execute("r1").error is None and project.target() == ROWS


def test_a_run_that_only_resumes_judges_the_rows_that_it_has_published(project: Project) -> None:
    project.written(refresh(quality=with_rules(*RULES)))
    committed_without_report(project, "r1")
    again = project.execute("r1")
    assert again.error is None, again.error
    assert step(again, "transfer_planned")["active_count"] == 0
    assert {results(outcome_of(again))[rule["type"]] for rule in RULES} == {("passed", 100)}
    committed_without_report(project, "r2")
    project.warehouse("UPDATE raw.orders SET name = 'n1' WHERE id = 2")
    doubted = project.execute("r2")
    assert code_of(doubted) == "DPONE_QUALITY_GATES_FAILED"
    assert results(outcome_of(doubted))["unique"] == ("failed", 100)


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
def test_ranges_that_are_published_one_by_one_judge_no_rule(project: Project, verb: str) -> None:
    project.written(append(quality=with_rules(RULES[1])))
    refused = project.dpone(verb, "m.yaml", "--format", "json")
    assert refused.exit_code == 2 and "published one by one" in refused.stdout, refused.stdout
    assert "quality.gates[2]" in refused.stdout or "quality.gates.2" in refused.stdout


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


def test_ranges_that_other_processes_have_staged_are_judged_before_they_are_published(uri: str, tmp_path: Path) -> None:
    fan_out = FanOut.at(tmp_path, uri)
    rule = {"type": "unique", "columns": ["v"]}
    fan_out.project.written(fan_out_flow(quality={"gates": [rule]}))
    fan_out.sql("UPDATE t SET v = 'v1' WHERE id = 100")
    refused = fan_out.publish(fan_out.staged())
    assert code_of(refused) == "DPONE_QUALITY_GATES_FAILED" and not fan_out.has_target()
    assert outcome_of(refused).failed_gate.count("metrics", "failed_rows") == 2
    fan_out.sql("UPDATE t SET v = 'v100' WHERE id = 100")
    assert code_of(fan_out.publish(fan_out.staged("r2"), "r2")) is None
    assert fan_out.ids() == EVERY
