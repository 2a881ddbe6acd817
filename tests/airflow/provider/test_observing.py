"""What the gate reads of a run: receipts index by index, the plan's own indexes and no others (AIR-30)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from dpone_airflow.judgment import StepObservation, TaskObservation, judge
from dpone_airflow.observing import observe_run
from tests.airflow.provider.test_fan_out import LOAD, PARTITION, PLAN, RUN, SHA_D, own

STEPS = {"g.transfer_plan": PLAN, "g.transfer_partition": PARTITION, "g.dpone_run_flights": LOAD}
WORKERS = {"transfer_plan": "g.partitions"}
RETURNED = "return_value"


@dataclass(kw_only=True)
class Run:
    """A DAG run as Airflow keeps it: states and XComs by task id and map index. It speaks as Airflow 3 or as 2 does."""

    states: dict[tuple[str, int], str | None]
    xcoms: dict[tuple[str, int, str], object]
    pulled: list[tuple[str, int]] = field(default_factory=list)
    dag_id: str = "flights"
    run_id: str = RUN
    map_index: int = -1

    def xcom_pull(self, *, task_ids: str, map_indexes: int, key: str = RETURNED) -> object:
        assert isinstance(task_ids, str) and isinstance(map_indexes, int)
        self.pulled.append((task_ids, map_indexes))
        return self.xcoms.get((task_ids, map_indexes, key))

    def get_task_states(self, *, dag_id: str, task_ids: list[str], run_ids: list[str]) -> Mapping[str, Any]:
        assert (dag_id, run_ids) == (self.dag_id, [self.run_id])
        names = {key: key[0] if key[1] < 0 else f"{key[0]}_{key[1]}" for key in self.states}
        return {self.run_id: {names[key]: state for key, state in self.states.items() if key[0] in task_ids}}

    @property
    def context(self) -> dict[str, Any]:
        return {"ti": self}

    @property
    def context_of_airflow_2(self) -> dict[str, Any]:
        instances = [
            SimpleNamespace(task_id=task_id, map_index=index, state=state)
            for (task_id, index), state in self.states.items()
        ]
        ti = SimpleNamespace(dag_id=self.dag_id, run_id=self.run_id, map_index=-1, xcom_pull=self.xcom_pull)
        return {"ti": ti, "dag_run": SimpleNamespace(get_task_instances=lambda: instances)}


@pytest.fixture
def run() -> Run:
    """Everything succeeded: a plan of three partitions, three staged, one publication."""
    states: dict[tuple[str, int], str | None] = {
        ("g.transfer_plan", -1): "success",
        ("g.partitions", -1): "success",
        ("g.dpone_run_flights", -1): "success",
    }
    xcoms: dict[tuple[str, int, str], object] = {
        ("g.transfer_plan", -1, RETURNED): own(PLAN).wire(),
        ("g.dpone_run_flights", -1, RETURNED): own(LOAD).wire(),
    }
    for index in (2, 0, 1):
        states["g.transfer_partition", index] = "success"
        xcoms["g.transfer_partition", index, RETURNED] = own(PARTITION, map_index=index).wire()
    return Run(states=states, xcoms=xcoms)


def indexes(context: dict[str, Any]) -> list[tuple[int, bool]]:
    """Index and whether it is surplus, of every observation of the mapped step."""
    found = observe_run(context, STEPS, WORKERS)
    return [
        (one.expectation.map_index, one.is_surplus)
        for one in found
        if isinstance(one, StepObservation) and one.contract is PARTITION
    ]


def test_every_index_of_the_plan_is_pulled_by_itself_and_held_to_the_plan(run: Run) -> None:
    found = observe_run(run.context, STEPS, WORKERS)
    assert judge(found).passed and judge(observe_run(run.context_of_airflow_2, STEPS, WORKERS)).passed
    assert [one.task if isinstance(one, TaskObservation) else one.contract.step_id for one in found] == [
        "transfer_plan",
        "partitions",
        *["transfer_partition"] * 3,
        "dpone_run_flights",
    ]
    plans = [one.expectation.transfer_plan for one in found if isinstance(one, StepObservation)]
    assert plans == [None, SHA_D, SHA_D, SHA_D, SHA_D]
    assert [("g.transfer_partition", index) for index in range(3)] == run.pulled[1:4]


def test_an_index_without_a_task_and_a_surplus_one_are_both_observed(run: Run) -> None:
    del run.states["g.transfer_partition", 1]
    run.states["g.transfer_partition", 3] = "success"
    for context in (run.context, run.context_of_airflow_2):
        assert indexes(context) == [(0, False), (1, False), (2, False), (3, True)]
        verdict = judge(observe_run(context, STEPS, WORKERS))
        assert [step.name for step in verdict.steps if not step.passed] == [
            "transfer_partition[1]",
            "transfer_partition[3]",
        ]


def test_what_airflow_removed_from_an_earlier_longer_expansion_does_not_count(run: Run) -> None:
    run.states["g.transfer_partition", 7] = "removed"
    assert indexes(run.context) == [(0, False), (1, False), (2, False)]
    run.states["g.transfer_partition", 2] = "removed"
    assert not judge(observe_run(run.context, STEPS, WORKERS)).passed


@pytest.mark.parametrize("lost", [None, {"schema": "dpone.step_receipt.v1"}])
def test_without_the_plan_s_accepted_receipt_no_index_is_looked_at(run: Run, lost: object) -> None:
    run.xcoms["g.transfer_plan", -1, RETURNED] = lost
    assert indexes(run.context) == [(-1, False)]
    assert ("g.transfer_partition", 0) not in run.pulled
    assert not judge(observe_run(run.context, STEPS, WORKERS)).passed


def test_a_step_that_was_never_expanded_is_one_observation_and_the_cause_is_named(run: Run) -> None:
    for index in range(3):
        del run.states["g.transfer_partition", index]
    run.states |= {("g.partitions", -1): "failed", ("g.transfer_partition", -1): "upstream_failed"}
    run.states["g.dpone_run_flights", -1] = "upstream_failed"
    run.xcoms["g.partitions", -1, "dpone_step_end"] = {"receipt_problem": "DPONE_AIRFLOW_MAPPING_TOO_LONG"}
    verdict = judge(observe_run(run.context, STEPS, WORKERS))
    assert verdict.primary is not None
    assert (verdict.primary.name, verdict.primary.code) == ("partitions", "DPONE_AIRFLOW_MAPPING_TOO_LONG")
    assert [step.name for step in verdict.steps if step.step_id == "transfer_partition"] == ["transfer_partition"]


def test_what_the_operator_left_of_a_failed_index_is_that_index_s(run: Run) -> None:
    run.states["g.transfer_partition", 1] = "failed"
    run.xcoms["g.transfer_partition", 1, RETURNED] = None
    run.xcoms["g.transfer_partition", 1, "dpone_step_end"] = {"exit_code": 137, "receipt_problem": None}
    verdict = judge(observe_run(run.context, STEPS, WORKERS))
    assert verdict.primary is not None
    assert (verdict.primary.name, verdict.primary.code) == ("transfer_partition[1]", "DPONE_POD_EXIT_NONZERO")


def test_a_task_without_a_state_is_unknown(run: Run) -> None:
    run.states["g.transfer_partition", 0] = None
    verdict = judge(observe_run(replace(run).context, STEPS, WORKERS))
    assert verdict.primary is not None and verdict.primary.code == "DPONE_TASK_STATE_UNKNOWN"
