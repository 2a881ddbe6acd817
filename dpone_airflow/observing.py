"""Reads of one DAG run what the gate judges: each task's state and receipt, index by index.

Receipts are pulled one at a time: Airflow 2 drops missing entries from a list without a word. Contract: AIR-30.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpone_airflow.judgment import Observation, StepObservation, TaskObservation, expected_indexes, plan_of
from dpone_airflow.mapping import FanOut
from dpone_airflow.outcome import STEP_END_KEY, StepContract
from dpone_core.model.vocabulary import StepKind

_REMOVED = "removed"


def observe_run(context: Any, steps: Mapping[str, StepContract], workers: Mapping[str, str]) -> tuple[Observation, ...]:
    """One observation per task of the run, in run-spec order.

    `steps`: Airflow task id -> step. `workers`: step id -> task id of the task that lists the partitions behind it.
    """
    ti = context["ti"]
    run = _Run(context, (*steps, *workers.values()))
    own_index = -1 if ti.map_index is None else ti.map_index
    plans: dict[str, FanOut | None] = {}
    found: list[Observation] = []
    for task_id, contract in steps.items():
        if contract.mapped_over is not None:
            found += run.mapped(task_id, contract, plans.get(contract.mapped_over))
            continue
        publishes = contract.kind is StepKind.LOAD and plans
        plan = next(iter(plans.values())) if publishes else None
        seen = run.step(task_id, contract, own_index, plan)
        found.append(seen)
        if contract.kind is StepKind.TRANSFER_PLAN:
            plans[contract.step_id] = plan_of(seen)
        if contract.step_id in workers:
            found.append(run.worker_task(workers[contract.step_id]))
    return tuple(found)


class _Run:
    """Reads task states and XComs of one DAG run through the gate's own task instance."""

    def __init__(self, context: Any, task_ids: tuple[str, ...]) -> None:
        self._ti = context["ti"]
        self._states = _task_states(context, task_ids)

    def step(
        self, task_id: str, contract: StepContract, map_index: int, plan: FanOut | None, *, is_surplus: bool = False
    ) -> StepObservation:
        ti, state = self._ti, self._states[task_id].get(map_index)
        received, end = ti.xcom_pull(task_ids=task_id, map_indexes=map_index), _NOTHING
        if received is None or state != "success":
            end = self._end(task_id, map_index)
        exit_code = end.get("exit_code")
        return StepObservation(
            contract=contract,
            expectation=contract.expectation(
                dag_id=ti.dag_id,
                dag_run_id=ti.run_id,
                map_index=map_index,
                transfer_plan=plan.transfer_plan if plan is not None else None,
            ),
            received=received,
            task_state=state,
            exit_code=exit_code if isinstance(exit_code, int) else None,
            operator_problem=_text_of(end, "receipt_problem"),
            not_started=_text_of(end, "not_started"),
            tries_before=end.get("tries_before") is not False,
            is_surplus=is_surplus,
        )

    def mapped(self, task_id: str, contract: StepContract, plan: FanOut | None) -> list[StepObservation]:
        """One observation per expected and per surplus index; without an accepted plan no index counts.

        Airflow keeps the tasks of an earlier, longer expansion as removed: they are no part of the run.
        """
        states = self._states[task_id]
        unexpanded = states.get(-1)
        if plan is None or unexpanded is not None:
            expectation = contract.expectation(dag_id=self._ti.dag_id, dag_run_id=self._ti.run_id, map_index=-1)
            alike = set(states.values())
            state = alike.pop() if len(alike) == 1 else None
            return [StepObservation(contract=contract, expectation=expectation, received=None, task_state=state)]
        expected, surplus = expected_indexes(plan, [index for index, state in states.items() if state != _REMOVED])
        return [
            *(self.step(task_id, contract, index, plan) for index in expected),
            *(self.step(task_id, contract, index, plan, is_surplus=True) for index in surplus),
        ]

    def worker_task(self, task_id: str) -> TaskObservation:
        state = self._states[task_id].get(-1)
        return TaskObservation(
            task=task_id.rpartition(".")[2],
            task_state=state,
            operator_problem=None if state == "success" else _text_of(self._end(task_id, -1), "receipt_problem"),
        )

    def _end(self, task_id: str, map_index: int) -> Mapping[str, object]:
        left = self._ti.xcom_pull(task_ids=task_id, key=STEP_END_KEY, map_indexes=map_index)
        return left if isinstance(left, Mapping) else _NOTHING


_NOTHING: Mapping[str, object] = {}


def _text_of(end: Mapping[str, object], name: str) -> str | None:
    found = end.get(name)
    return found if isinstance(found, str) else None


def _task_states(context: Any, task_ids: tuple[str, ...]) -> dict[str, dict[int, str | None]]:
    """Task id -> map index (-1 for a task that is not mapped, or not yet) -> state, None where it has none."""
    ti = context["ti"]
    states: dict[str, dict[int, str | None]] = {task_id: {} for task_id in task_ids}
    if not hasattr(ti, "get_task_states"):
        for other in context["dag_run"].get_task_instances():
            if other.task_id in states:
                states[other.task_id][other.map_index] = _text(other.state)
        return states
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[ti.run_id]).get(ti.run_id, {})
    for key, state in found.items():
        task_id, _, index = (key, "", "-1") if key in states else key.rpartition("_")
        if task_id in states:
            states[task_id][int(index)] = _text(state)
    return states


def _text(state: Any) -> str | None:
    return None if state is None else str(getattr(state, "value", state))
