"""DponeMappedPodOperator: a step that Airflow maps over the partitions of a plan, one pod for each map index.

Airflow makes it in the process of each task out of the arguments of `partial` and one mapping item, so it has a
constructor, and a module that no other DAG imports. Contract: AIR-15, AIR-32, AIR-33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from jinja2.nativetypes import NativeEnvironment

from dpone_airflow.mapping import MAPPING_ITEM_FOREIGN, expectation_of
from dpone_airflow.operator import DponePodOperator
from dpone_airflow.outcome import STEP_END_KEY, StepContract
from dpone_airflow.reports import leave
from dpone_core.contracts.receipt_verification import ReceiptExpectation


class DponeMappedPodOperator(DponePodOperator):
    """One partition in one pod. Accepts only the receipt of its own map index and of the plan its item names.

    Raises AirflowFailException before a pod exists where the item is not that of the task's own index.
    """

    custom_operator_name = "dpone mapped step"

    def __init__(
        self,
        *,
        dpone_command: str,
        run_spec_ref: Mapping[str, str],
        step: StepContract,
        mapping_item: Mapping[str, object],
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.dpone_command = dpone_command
        self.run_spec_ref = run_spec_ref
        self.step = step
        self.mapping_item = mapping_item

    def _do_render_template_fields(
        self, parent: Any, template_fields: Any, context: Any, jinja_env: Any, seen_oids: Any
    ) -> None:
        """Text, as in a task that is not mapped; Airflow renders a mapped one past `render_template_fields`."""
        if isinstance(jinja_env, NativeEnvironment):
            jinja_env = self.dag.get_template_env(force_sandboxed=True)
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)

    def _expected_of(self, ti: Any, map_index: int) -> ReceiptExpectation:
        own = {"dag_id": ti.dag_id, "dag_run_id": ti.run_id, "map_index": map_index}
        expected = expectation_of(self.step, self.mapping_item, **own)
        if expected is None:
            leave(ti, STEP_END_KEY, {"exit_code": None, "receipt_problem": MAPPING_ITEM_FOREIGN}, self.log)
            raise AirflowFailException(
                f"{MAPPING_ITEM_FOREIGN}: dpone step {self.step.step_id}[{map_index}]: the mapping item is that of "
                "another index or of no plan; clear the task that lists the partitions"
            )
        return expected
