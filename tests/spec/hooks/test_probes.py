"""A data_quality_probe is one SELECT that answers with one non-negative integer; zero passes, else stop (HOOK-24)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.loading.hooks import read_violations
from dpone_core.model.vocabulary import RetryClassification
from dpone_core.ports.hooks import HookActionError
from dpone_core.ports.statements import StatementAnswer
from tests.spec.builders import Project, code_of, flow, hooks, outcome_of, project_with_orders
from tests.spec.hooks.test_notifications import step_details


@pytest.fixture(name="project")
def order_without_a_name(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, rows=[(1, "a", 10), (2, None, 20)])


def probe(sql: str, **changes: object) -> dict[str, object]:
    return {"id": "probe", "kind": "data_quality_probe", "sql": sql, **changes}


@pytest.mark.parametrize(
    "answer",
    [
        StatementAnswer(columns=1, rows=()),
        StatementAnswer(columns=1, rows=((0,), (0,))),
        StatementAnswer(columns=2, rows=((0, 0),)),
        StatementAnswer(columns=1, rows=((0, 0),)),
        StatementAnswer(columns=0, rows=()),
        StatementAnswer(columns=1, rows=((),)),
        StatementAnswer(columns=1, rows=((None,),)),
        StatementAnswer(columns=1, rows=((False,),)),
        StatementAnswer(columns=1, rows=((True,),)),
        StatementAnswer(columns=1, rows=(("0",),)),
        StatementAnswer(columns=1, rows=((0.0,),)),
        StatementAnswer(columns=1, rows=((-1,),)),
    ],
)
def test_what_is_not_one_count_fails_closed(answer: StatementAnswer) -> None:
    with pytest.raises(HookActionError) as raised:
        read_violations(answer)
    assert raised.value.code == "data_quality_probe_invalid"


@pytest.mark.parametrize("count", [0, 1, 10**15])
def test_one_count_is_taken_as_it_is(count: int) -> None:
    assert read_violations(StatementAnswer(columns=1, rows=((count,),))) == count


def test_a_probe_of_zero_lets_the_load_begin(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[probe("SELECT count(*) FROM orders WHERE id IS NULL")])))
    assert outcome_of(project.execute()).passed
    ((status, details),) = step_details(project, "probe")
    assert (status, details["violations"]) == ("succeeded", 0)


def test_a_probe_that_counts_violations_stops_before_extraction(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[probe("SELECT count(*) FROM orders WHERE name IS NULL")])))
    execution = project.execute()
    outcome = outcome_of(execution)
    assert code_of(execution) == "hook_failed" and "data_quality_probe_failed" in str(execution.error)
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert [step.step_id for step in outcome.steps if step.kind == "source_scan"] == []
    status, details = step_details(project, "probe")[-1]
    assert (status, details["reason"], details["violations"]) == ("failed", "data_quality_probe_failed", 1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT NULL",
        "SELECT name FROM orders WHERE id = 1",
        "SELECT id FROM orders",
        "SELECT id FROM orders WHERE id = 0",
        "SELECT 0, 0",
        "SELECT -1",
        "SELECT 0.0",
    ],
)
def test_a_source_that_answers_otherwise_stops_the_load(project: Project, sql: str) -> None:
    project.written(flow(source__options=hooks(pre=[probe(sql)])))
    execution = project.execute()
    assert "data_quality_probe_invalid" in str(execution.error)
    assert "violations" not in step_details(project, "probe")[-1][1]


@pytest.mark.parametrize(("sql", "passes"), [("SELECT 0", True), ("SELECT true", False), ("SELECT 0.0", False)])
def test_a_probe_of_the_sink_is_judged_alike(project: Project, sql: str, passes: bool) -> None:
    project.written(flow(source__options=hooks(post=[probe(sql, connector="sink")])))
    assert outcome_of(project.execute()).passed is passes
    assert project.target() == [(1, "a", 10), (2, None, 20)]


def test_a_probe_that_the_engine_refuses_is_a_failed_hook(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[probe("SELECT count(*) FROM absent")])))
    assert "statement_failed" in str(project.execute().error)


def test_a_probe_by_hand_says_its_count(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[probe("SELECT count(*) FROM orders WHERE id IS NULL")])))
    finished = project.dpone("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--format", "json")
    assert finished.document["steps"][0]["result"]["violations"] == 0
