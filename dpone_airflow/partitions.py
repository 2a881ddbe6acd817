"""DponePartitionsOperator: the receipt of a plan -> the list over which Airflow maps; it runs in the worker, in no pod.

Fail closed: only the plan's own succeeded receipt of this run gives a list, and no list is longer than Airflow maps.
Contract: AIR-15, AIR-33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, conf

from dpone_airflow.mapping import plan_to_map
from dpone_airflow.outcome import STEP_END_KEY, StepContract
from dpone_airflow.reports import leave
from dpone_core.contracts.receipt_verification import ReceiptProblem

_AIRFLOW_MAPS = 1024


class DponePartitionsOperator(BaseOperator):
    """`plan` is the contract of the step that planned, `plan_task_id` its Airflow task.

    Returns one mapping item per planned partition in the order of their indexes; raises AirflowFailException.
    """

    template_fields = ("run_spec_ref",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"run_spec_ref": "json"}
    custom_operator_name = "dpone partitions"

    def __init__(
        self, *, plan: StepContract, plan_task_id: str, run_spec_ref: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(**{**kwargs, "trigger_rule": "all_success", "do_xcom_push": True})
        self.plan = plan
        self.plan_task_id = plan_task_id
        self.run_spec_ref = dict(run_spec_ref)

    def execute(self, context: Any) -> list[dict[str, object]]:
        ti = context["ti"]
        expectation = self.plan.expectation(dag_id=ti.dag_id, dag_run_id=ti.run_id, map_index=-1)
        limit = conf.getint("core", "max_map_length", fallback=_AIRFLOW_MAPS)
        found = plan_to_map(ti.xcom_pull(task_ids=self.plan_task_id, map_indexes=-1), expectation, limit)
        if isinstance(found, ReceiptProblem):
            leave(ti, STEP_END_KEY, {"exit_code": None, "receipt_problem": found.code}, self.log)
            raise AirflowFailException(f"{found.code}: dpone partitions: {found.message}")
        self.log.info("plan %s: %d partitions, one of them for NULL keys", found.transfer_plan, found.partitions)
        return found.items()
