"""DponeOutcomeGateOperator: the last task of a process; it passes only what receipts and task states prove.

With trigger rule all_done it always runs, so it must fail by itself: otherwise a failed load would leave a green run.
Source: design 12; kpo.md 3.1; cases A01, A06, A15, A16, A21.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import metadata
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import XCOM_RETURN_KEY, AirflowFailException, BaseOperator

from dpone_airflow.links import LoadReportLink
from dpone_airflow.outcome import STEP_END_KEY, StepContract, StepObservation, Verdict, judge
from dpone_core.contracts.receipt_verification import RECEIPT_REQUIRED

_KUBERNETES_PROVIDER = "apache-airflow-providers-cncf-kubernetes"


class DponeOutcomeGateOperator(BaseOperator):
    """Judges one run of one run-spec; `steps` maps Airflow task ids to step contracts in run-spec order.

    Returns (and on failure leaves as XCom) the verdict mapping; raises AirflowFailException naming the primary cause.
    """

    template_fields = ("run_spec_ref",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"run_spec_ref": "json"}
    operator_extra_links = (LoadReportLink(),)
    custom_operator_name = "dpone gate"

    def __init__(self, *, steps: Mapping[str, StepContract], run_spec_ref: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "trigger_rule": "all_done", "retries": 0})
        if not steps:
            raise ValueError("an outcome gate needs at least one step to judge")
        self.steps = dict(steps)
        self.run_spec_ref = dict(run_spec_ref)

    def execute(self, context: Any) -> dict[str, object]:
        ti = context["ti"]
        verdict = judge(self._observations(context))
        for line in verdict.summary():
            self.log.log(logging.INFO if verdict.passed else logging.ERROR, "%s", line)
        if verdict.passed:
            return verdict.mapping()
        ti.xcom_push(key=XCOM_RETURN_KEY, value=verdict.mapping())
        raise AirflowFailException(_failure_message(verdict))

    def _observations(self, context: Any) -> tuple[StepObservation, ...]:
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        states = _task_states(context, tuple(self.steps), map_index)
        observations = []
        for task_id, contract in self.steps.items():
            received, state = ti.xcom_pull(task_ids=task_id, map_indexes=map_index), states.get(task_id)
            end: Mapping[str, object] = {}
            if received is None or state != "success":
                left = ti.xcom_pull(task_ids=task_id, key=STEP_END_KEY, map_indexes=map_index)
                end = left if isinstance(left, Mapping) else {}
            exit_code, problem = end.get("exit_code"), end.get("receipt_problem")
            observations.append(
                StepObservation(
                    contract=contract,
                    expectation=contract.expectation(dag_id=ti.dag_id, dag_run_id=ti.run_id, map_index=map_index),
                    received=received,
                    task_state=state,
                    exit_code=exit_code if isinstance(exit_code, int) else None,
                    operator_problem=problem if isinstance(problem, str) else None,
                )
            )
        return tuple(observations)


def _task_states(context: Any, task_ids: tuple[str, ...], map_index: int) -> dict[str, str]:
    """Task id -> state of this run and map index; a task without a state is absent."""
    ti = context["ti"]
    if not hasattr(ti, "get_task_states"):
        return {
            other.task_id: str(getattr(other.state, "value", other.state))
            for other in context["dag_run"].get_task_instances()
            if other.task_id in task_ids and other.map_index == map_index and other.state is not None
        }
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[ti.run_id]).get(ti.run_id, {})
    keys = {task_id: task_id if map_index < 0 else f"{task_id}_{map_index}" for task_id in task_ids}
    return {
        task_id: str(getattr(found[key], "value", found[key]))
        for task_id, key in keys.items()
        if found.get(key) is not None
    }


def _failure_message(verdict: Verdict) -> str:
    primary = verdict.primary
    if primary is None:
        return "dpone gate: the run cannot be judged"
    message = f"{primary.code}: step {primary.step_id}: {primary.reason}; {verdict.advice}"
    if primary.also:
        message += f" (also: {', '.join(primary.also)})"
    if primary.code == RECEIPT_REQUIRED:
        message += f"; {_KUBERNETES_PROVIDER} {metadata.version(_KUBERNETES_PROVIDER)}"
    return message
