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

_SKIPPED = "dpone gate: a task before the process skipped every step of it; nothing ran, and no asset is updated"
_KUBERNETES_PROVIDER = "apache-airflow-providers-cncf-kubernetes"


class DponeOutcomeGateOperator(BaseOperator):
    """Judges one run of one run-spec. Made by `DponeOutcomeGateOperator.of`.

    `steps` maps Airflow task ids to step contracts in run-spec order, `workers` names the tasks that leave
    no receipt, by the step behind which they run.
    Returns (and on failure leaves as XCom) the verdict mapping; raises AirflowFailException naming the primary cause.
    Where a branch or a short circuit before the process skipped every step it raises AirflowSkipException: nothing ran,
    and no asset is updated.
    """

    template_fields = ("run_spec_ref",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"run_spec_ref": "json"}
    operator_extra_links = (LoadReportLink(),)
    custom_operator_name = "dpone gate"

    steps: Mapping[str, StepContract]
    workers: Mapping[str, str]
    run_spec_ref: Mapping[str, str]

    @classmethod
    def of(
        cls,
        *,
        steps: Mapping[str, StepContract],
        run_spec_ref: Mapping[str, str],
        workers: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> DponeOutcomeGateOperator:
        """A gate with these arguments of BaseOperator; those that decide whether it judges at all are its own.

        No constructor, as with DponePodOperator.of. Raises ValueError without a step to judge.
        """
        if not steps:
            raise ValueError("an outcome gate needs at least one step to judge")
        own = {"trigger_rule": "all_done", "retries": 0, "do_xcom_push": True, "execution_timeout": None}
        gate = cls(**{**arguments, **own})
        gate.__dict__.update(steps=dict(steps), workers=dict(workers or {}), run_spec_ref=dict(run_spec_ref))
        return gate

    def _set_xcomargs_dependencies(self) -> None:
        """Nothing to find: what the gate reads it is given by task id, and Airflow would search every field for it."""

    def execute(self, context: Any) -> dict[str, object]:
        ti = context["ti"]
        observations = observe_run(context, self.steps, self.workers)
        if is_skipped(observations):
            self.log.info(_SKIPPED)
            raise AirflowSkipException(_SKIPPED)
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
