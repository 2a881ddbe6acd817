"""DponePodOperator: a KubernetesPodOperator whose task succeeds only with a verified receipt of its pod.

The stock operator calls a task successful when its pod ends with exit 0 and no receipt, and on SIGTERM of the worker;
and it retries every failure. This one validates and re-projects the receipt, takes the pod's termination message as
second channel, fails where proof is missing, and retries only what a repeat cannot harm. Contract: AIR-04, AIR-06,
AIR-34.
"""

# ruff: noqa: E402  an older provider must be refused by name before its missing parts raise an ImportError

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from dpone_airflow.provider_floor import require_supported

require_supported()

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.utils.container import container_is_running
from airflow.providers.common.compat.sdk import (
    XCOM_RETURN_KEY,
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from jinja2.nativetypes import NativeEnvironment
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from dpone_airflow.links import LoadReportLink
from dpone_airflow.outcome import STEP_END_KEY, RetryDecision, StepContract, StepEnd, decide_retry
from dpone_core.contracts.receipt_verification import (
    RECEIPT_NOT_SUCCEEDED,
    RECEIPT_REQUIRED,
    ReceiptExpectation,
    ReceiptProblem,
    examine,
)
from dpone_core.contracts.step_receipt import StepReceipt, receipt_from_termination

_UNREADABLE = "unreadable"
_TEXT_TEMPLATES = SimpleNamespace(render_template_as_native_obj=False)
_DEFAULT_GRACE_SECONDS = 30
_LAST_LOOK_SECONDS = 5


class StepFailedError(AirflowException):
    """One try of a step failed and a retry may repeat it."""


class DponePodOperator(KubernetesPodOperator):
    """One run-spec step in one pod; returns the step's receipt as a flat mapping. Made by `DponePodOperator.of`.

    Raises AirflowFailException (no retry) for a refused step, for a classification that forbids a repeat and where a
    step without receipt must stop; StepFailedError (retryable) otherwise.
    """

    template_fields = ("dpone_command", "run_spec_ref", *KubernetesPodOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **KubernetesPodOperator.template_fields_renderers,
        "dpone_command": "bash",
        "run_spec_ref": "json",
    }
    template_ext = ()
    operator_extra_links = (LoadReportLink(),)
    custom_operator_name = "dpone step"

    dpone_command: str
    run_spec_ref: Mapping[str, str]
    step: StepContract
    _expectation: ReceiptExpectation | None = None
    _receipt: StepReceipt | None = None
    _problem: ReceiptProblem | None = None
    _exit_code: int | None = None

    @classmethod
    def of(
        cls, *, dpone_command: str, run_spec_ref: Mapping[str, str], step: StepContract, **arguments: Any
    ) -> DponePodOperator:
        """A task of these arguments of KubernetesPodOperator.

        No constructor of its own: Airflow wraps the constructor of every class again, at a cost for each parsed task.
        A mapped task is made once per run, in its own process: DponeMappedPodOperator has one.
        """
        task = cls(**arguments)
        task.__dict__.update(dpone_command=dpone_command, run_spec_ref=run_spec_ref, step=step)
        return task

    @property
    def evidence_path(self) -> str | None:
        """Evidence of the try that just ended, for the report link."""
        return self._receipt.evidence_path if self._receipt else None

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """Render to text also in a DAG that renders native objects: an environment variable is text."""
        self.render_template_as_native_obj = False
        env = self.get_template_env()
        if isinstance(env, NativeEnvironment):  # Airflow 2 asks the DAG only
            env = self.dag.get_template_env(force_sandboxed=True)
        super().render_template_fields(context, env)

    def _render(self, template: Any, context: Any, dag: Any = None) -> Any:
        return super()._render(template, context, dag=_TEXT_TEMPLATES)

    def execute(self, context: Any) -> Any:
        base = super().execute
        return self._run_guarded(context, lambda: base(context))

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> Any:
        base = super().trigger_reentry
        return self._run_guarded(context, lambda: base(context, event))

    def extract_xcom(self, pod: Any, **kwargs: Any) -> Any:
        """The step's own receipt, re-projected through its contract; None for anything else the file holds."""
        try:
            received = super().extract_xcom(pod, **kwargs)
        except (ValueError, AirflowException, ApiException) as error:
            self.log.warning("The receipt file could not be read (%s)", type(error).__name__)
            received = _UNREADABLE if isinstance(error, ValueError) else None
        self._accept(received)
        if self._receipt is None:
            self._observe(self._read_again(pod))
        return self._receipt.wire() if self._receipt else None

    def cleanup(self, pod: Any, remote_pod: Any, xcom_result: Any = None, context: Any = None) -> None:
        """Reads the pod once more, then lets the stock operator judge its state and delete it."""
        fresh = self._read_again(pod) if pod is not None and pod.metadata.name else None
        if fresh is not None and not self._killed and container_is_running(fresh, self.base_container_name):
            fresh = self._stop(fresh)
        self._observe(fresh or remote_pod)
        found = self._receipt.wire() if self._receipt else xcom_result
        super().cleanup(
            pod=pod,
            remote_pod=(fresh or remote_pod) if remote_pod else None,
            xcom_result=found,
            context=context,
        )

    def _run_guarded(self, context: Any, run: Callable[[], Any]) -> dict[str, object]:
        ti = context["ti"]
        self._expectation = self._expected_of(ti, -1 if ti.map_index is None else ti.map_index)
        failure: BaseException | None = None
        try:
            run()
        except (AirflowFailException, AirflowSkipException, StepFailedError):
            raise
        except (Exception, AirflowTaskTimeout) as error:  # noqa: BLE001  whatever failed, proof decides on a repeat
            failure = error
        end = StepEnd(receipt=self._receipt, exit_code=self._exit_code, interrupted=self._killed)
        decision = decide_retry(end, self.step)
        if decision is RetryDecision.PASS and self._receipt is not None:
            if failure is not None:
                self.log.warning("Receipt and exit code prove success in spite of a %s", type(failure).__name__)
            return self._receipt.wire()
        self._leave_for_the_gate(ti)
        message = self._failure_message(end, decision)
        if decision is RetryDecision.STOP:
            raise AirflowFailException(message) from failure
        raise StepFailedError(message) from failure

    def _expected_of(self, ti: Any, map_index: int) -> ReceiptExpectation:
        return self.step.expectation(dag_id=ti.dag_id, dag_run_id=ti.run_id, map_index=map_index)

    def _accept(self, received: object) -> None:
        """Keeps `received` if it is this step's own receipt, else the first problem found in it."""
        if self._expectation is None:
            return
        examined = examine(received, self._expectation)
        if examined.receipt is not None:
            self._receipt, self._problem = examined.receipt, None
        elif self._receipt is None and (received is not None or self._problem is None):
            self._problem = examined.problems[0]

    def _observe(self, pod: Any) -> None:
        """Takes the container's exit code and, without a receipt so far, the receipt in its termination message."""
        statuses = (pod.status.container_statuses if pod is not None and pod.status else None) or ()
        ended = next(
            (one.state.terminated for one in statuses if one.name == self.base_container_name and one.state), None
        )
        if ended is None:
            return
        self._exit_code = ended.exit_code
        second = receipt_from_termination(ended.message) if self._receipt is None else None
        if second is not None:
            self._accept(second.wire())

    def _stop(self, pod: Any) -> Any:
        """Stops a pod that is still running when its task ends; returns the pod as last read.

        It is stopped whatever `on_finish_action` says: left running it would compete with the next try. The pod is
        watched, not polled: between the end of its step and its removal there may be an instant only.
        """
        grace = self.termination_grace_period or _DEFAULT_GRACE_SECONDS
        watch, seen = Watch(), pod
        try:
            for event in watch.stream(
                self.client.list_namespaced_pod,
                namespace=pod.metadata.namespace,
                field_selector=f"metadata.name={pod.metadata.name}",
                timeout_seconds=int(grace) + _LAST_LOOK_SECONDS,
            ):
                if seen is pod:
                    self.pod_manager.delete_pod(pod)
                seen = event["object"]
                if event["type"] == "DELETED" or not container_is_running(seen, self.base_container_name):
                    break
        except (ApiException, HTTPError) as error:
            self.log.warning("The end of the pod could not be watched (%s)", type(error).__name__)
        finally:
            watch.stop()
        return seen

    def _read_again(self, pod: Any) -> Any:
        try:
            return self.pod_manager.read_pod(pod)
        except (ApiException, AirflowException):
            return None

    def _leave_for_the_gate(self, ti: Any) -> None:
        """Leaves as XCom what the gate needs to name the cause of a failure: receipt, exit code, receipt problem."""
        if self._receipt is not None:
            ti.xcom_push(key=XCOM_RETURN_KEY, value=self._receipt.wire())
        problem = self._problem.code if self._problem and self._receipt is None else None
        ti.xcom_push(key=STEP_END_KEY, value={"exit_code": self._exit_code, "receipt_problem": problem})

    def _failure_message(self, end: StepEnd, decision: RetryDecision) -> str:
        parts: list[str] = []
        if self._killed:
            parts.append("the task was interrupted, its outcome is not proven")
        if end.exit_code:
            parts.append(f"exit code {end.exit_code}")
        if end.receipt is not None and end.receipt.error_code is not None:
            classification = end.receipt.retry_classification
            parts.append(f"{end.receipt.error_code} ({classification.value if classification else 'unclassified'})")
        elif end.receipt is not None:
            parts.append("the receipt says succeeded")
        if self._problem is not None and end.receipt is None and self._problem.code != RECEIPT_NOT_SUCCEEDED:
            parts.append(f"{self._problem.code}: {self._problem.message}")
        advice = "no automatic retry" if decision is RetryDecision.STOP else "it may be retried"
        return f"dpone step {self.step.step_id}: {'; '.join(parts) or f'{RECEIPT_REQUIRED}: no receipt'}; {advice}"
