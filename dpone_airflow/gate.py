"""DponeOutcomeGateOperator: the last task of a process; it passes only what receipts and task states prove.

With trigger rule all_done it always runs, so it must fail by itself: otherwise a failed load would leave a green run.
Contract: AIR-01, AIR-03, AIR-12, AIR-15.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import metadata
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    XCOM_RETURN_KEY,
    AirflowFailException,
    AirflowSkipException,
    BaseOperator,
)

from dpone_airflow.judgment import is_skipped, judge
from dpone_airflow.links import LoadReportLink
from dpone_airflow.observing import observe_run
from dpone_airflow.outcome import StepContract
from dpone_airflow.reports import leave
from dpone_airflow.verdict import Verdict
from dpone_core.contracts.receipt_verification import RECEIPT_REQUIRED

_KUBERNETES_PROVIDER = "apache-airflow-providers-cncf-kubernetes"


class DponeOutcomeGateOperator(BaseOperator):
    """Judges one run of one run-spec; `steps` maps Airflow task ids to step contracts in run-spec order.

    `workers` names the tasks that leave no receipt, by the step behind which they run.
    Returns (and on failure leaves as XCom) the verdict mapping; raises AirflowFailException naming the primary cause.
    Where a branch or a short circuit before the process skipped every step it raises AirflowSkipException: nothing ran,
    and no asset is updated.
    """

    template_fields = ("run_spec_ref",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"run_spec_ref": "json"}
    operator_extra_links = (LoadReportLink(),)
    custom_operator_name = "dpone gate"

    def __init__(
        self,
        *,
        steps: Mapping[str, StepContract],
        run_spec_ref: Mapping[str, str],
        workers: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        own = {"trigger_rule": "all_done", "retries": 0, "do_xcom_push": True, "execution_timeout": None}
        super().__init__(**{**kwargs, **own})
        if not steps:
            raise ValueError("an outcome gate needs at least one step to judge")
        self.steps = dict(steps)
        self.workers = dict(workers or {})
        self.run_spec_ref = dict(run_spec_ref)

    def execute(self, context: Any) -> dict[str, object]:
        ti = context["ti"]
        observations = observe_run(context, self.steps, self.workers)
        if is_skipped(observations):
            raise AirflowSkipException("dpone gate: every step was skipped by a task before the process; nothing ran")
        verdict = judge(observations)
        for line in verdict.summary():
            self.log.log(logging.INFO if verdict.passed else logging.ERROR, "%s", line)
        if verdict.passed:
            return verdict.mapping()
        leave(ti, XCOM_RETURN_KEY, verdict.mapping(), self.log)
        raise AirflowFailException(_failure_message(verdict))


def _failure_message(verdict: Verdict) -> str:
    primary = verdict.primary
    if primary is None:
        return "dpone gate: the run cannot be judged"
    message = f"{primary.code}: step {primary.name}: {primary.reason}; {verdict.advice}"
    if primary.also:
        message += f" (also: {', '.join(primary.also)})"
    if primary.code == RECEIPT_REQUIRED:
        message += f"; {_KUBERNETES_PROVIDER} {metadata.version(_KUBERNETES_PROVIDER)}"
    return message
