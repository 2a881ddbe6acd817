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

from dpone_airflow.provider_floor import require_names, require_supported

require_supported()

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.common.compat.sdk import (
    XCOM_RETURN_KEY,
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
)
from jinja2.nativetypes import NativeEnvironment
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from dpone_airflow.links import LoadReportLink
from dpone_airflow.outcome import STEP_END_KEY, RetryDecision, StepContract, StepEnd, decide_retry, failure_message
from dpone_airflow.pod_end import end_of, why_not_made, why_not_started
from dpone_airflow.reports import leave
from dpone_core.contracts.receipt_verification import ReceiptExpectation, ReceiptProblem, examine
from dpone_core.contracts.step_receipt import StepReceipt, receipt_from_termination

require_names(KubernetesPodOperator)

_UNREADABLE = "unreadable"
_XCOM_SIDECAR = "airflow-xcom-sidecar"
_SECOND_CONTAINER = (
    "The pod has a container '%s' beside its step: the task waits until that ends as well. Make it a native sidecar, "
    "an init container with restartPolicy: Always"
)
_ENDED_PHASES = ("Succeeded", "Failed")
_TEXT_TEMPLATES = SimpleNamespace(render_template_as_native_obj=False)
_DEFAULT_GRACE_SECONDS = 30
_LAST_LOOK_SECONDS = 5


try:  # Airflow that ends a terminated task by an exception of its own, which no `except Exception` catches
    from airflow.sdk.exceptions import AirflowTaskTerminated as _Terminated
except ImportError:
    _Terminated = AirflowTaskTimeout


class StepFailedError(AirflowException):
    """One try of a step failed and a retry may repeat it."""


class _EarlierPodDecidesError(Exception):
    """The pod of an earlier try has ended and what it left forbids to start another."""


class DponePodOperator(KubernetesPodOperator):
    """One run-spec step in one pod; returns the step's receipt as a flat mapping. Made by `DponePodOperator.of`.

    Raises AirflowFailException (no retry) for a refused step, for a classification that forbids a repeat and where a
    step without receipt must stop; StepFailedError (retryable) otherwise. What it decides is decided before anything is
    reported, and a report that fails is a line in the log.
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
    interrupted: bool = False
    _first_try: int = 1
    _expectation: ReceiptExpectation | None = None
    _receipt: StepReceipt | None = None
    _problem: ReceiptProblem | None = None
    _exit_code: int | None = None
    _not_started: str | None = None

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

    def _set_xcomargs_dependencies(self) -> None:
        """Nothing to find: a step's arguments are values of its run-spec. Airflow would search every field of every
        task for another one's output at each parse.
        """

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
        return self._run_guarded(context, lambda: base(context), makes_pod=True)

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> Any:
        base = super().trigger_reentry
        return self._run_guarded(context, lambda: base(context, event), makes_pod=False)

    def build_pod_request_obj(self, context: Any = None, *, dry_run: bool = False) -> Any:
        pod = super().build_pod_request_obj(context, dry_run=dry_run)
        for container in pod.spec.containers:
            if container.name not in (self.base_container_name, _XCOM_SIDECAR):
                self.log.warning(_SECOND_CONTAINER, container.name)
        return pod

    def on_kill(self) -> None:
        self.interrupted = True
        super().on_kill()

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

    def process_pod_deletion(self, pod: Any, *, reraise: bool = True) -> bool:
        """Before the pod of an earlier try goes: what it left decides whether another may follow.

        Airflow looks for such a pod where a worker died beside it, and removes it unread.
        """
        is_of_an_earlier_try = self.pod is None and pod is not None and pod.status is not None
        if is_of_an_earlier_try and pod.status.phase in _ENDED_PHASES and self._is_of_this_attempt(pod):
            self._observe(pod)
            if self._decision() is not RetryDecision.RETRY:
                super().process_pod_deletion(pod, reraise=False)
                raise _EarlierPodDecidesError
            self._receipt = self._problem = self._exit_code = None
        deleted: bool = super().process_pod_deletion(pod, reraise=reraise)
        return deleted

    def cleanup(self, pod: Any, remote_pod: Any, xcom_result: Any = None, context: Any = None) -> None:
        """Reads the pod once more, then lets the stock operator judge its state and delete it.

        Without the context, so that it reports nothing: an XCom that cannot be pushed would leave the pod there.
        """
        fresh = self._read_again(pod) if pod is not None and pod.metadata.name else None
        if fresh is not None and not self.interrupted and end_of(fresh, self.base_container_name) is None:
            fresh, is_gone = self._stop(fresh)
            self._not_started = why_not_started(fresh, self.base_container_name) if is_gone else None
        self._observe(fresh or remote_pod)
        found = self._receipt.wire() if self._receipt else xcom_result
        super().cleanup(
            pod=pod,
            remote_pod=(fresh or remote_pod) if remote_pod else None,
            xcom_result=found,
        )

    def _run_guarded(self, context: Any, run: Callable[[], Any], *, makes_pod: bool) -> dict[str, object]:
        """`makes_pod`: without a pod none was made. A task that resumes has one, whether or not it can be read."""
        ti = context["ti"]
        self._first_try = ti.max_tries - self.retries + 1
        self._expectation = self._expected_of(ti, -1 if ti.map_index is None else ti.map_index)
        failure: BaseException | None = None
        try:
            run()
        except (Exception, AirflowTaskTimeout, _Terminated) as error:  # noqa: BLE001  whatever failed, proof decides
            failure = error
        if makes_pod and self.pod is None and isinstance(failure, ApiException):
            self._not_started = why_not_made(failure.status)
        end = self._end(tries_before=ti.try_number > self._first_try)
        decision = decide_retry(end, self.step)
        if decision is RetryDecision.PASS and self._receipt is not None:
            self._log_cause(failure, "Receipt and exit code prove success in spite of %s")
            return self._receipt.wire()
        self._log_cause(failure, "The pod's operator ended with %s")
        self._leave_for_the_gate(ti, end)
        message = failure_message(end, decision, self.step)
        raise AirflowFailException(message) if decision is RetryDecision.STOP else StepFailedError(message) from None

    def _end(self, *, tries_before: bool = False) -> StepEnd:
        return StepEnd(
            receipt=self._receipt,
            exit_code=self._exit_code,
            interrupted=self.interrupted,
            problem=self._problem,
            not_started=self._not_started,
            tries_before=tries_before,
        )

    def _decision(self) -> RetryDecision:
        return decide_retry(self._end(), self.step)

    def _is_of_this_attempt(self, pod: Any) -> bool:
        """Not of one before somebody cleared the task: whoever clears it has decided on a repeat."""
        label = (pod.metadata.labels or {}).get("try_number", "")
        return label.isdigit() and int(label) >= self._first_try

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
        ended = end_of(pod, self.base_container_name)
        if ended is None:
            return
        self._exit_code = ended.exit_code
        second = receipt_from_termination(ended.message) if self._receipt is None else None
        if second is not None:
            self._accept(second.wire())

    def _stop(self, pod: Any) -> tuple[Any, bool]:
        """Stops a pod whose step has not ended when its task does; returns it as last read, and whether it is gone.

        It is stopped whatever `on_finish_action` says: left there it would run beside the next try. The pod is watched,
        not polled: between the end of its step and its removal there may be an instant only.
        """
        grace = self.termination_grace_period or _DEFAULT_GRACE_SECONDS
        watch, seen, is_gone = Watch(), pod, False
        try:
            for event in watch.stream(
                self.client.list_namespaced_pod,
                namespace=pod.metadata.namespace,
                field_selector=f"metadata.name={pod.metadata.name}",
                timeout_seconds=int(grace) + _LAST_LOOK_SECONDS,
            ):
                if seen is pod:
                    self.pod_manager.delete_pod(pod)
                seen, is_gone = event["object"], event["type"] == "DELETED"
                if is_gone or end_of(seen, self.base_container_name) is not None:
                    break
        except (ApiException, HTTPError) as error:
            self.log.warning("The end of the pod could not be watched (%s)", type(error).__name__)
        finally:
            watch.stop()
        return seen, is_gone

    def _read_again(self, pod: Any) -> Any:
        try:
            return self.pod_manager.read_pod(pod)
        except (ApiException, AirflowException):
            return None

    def _leave_for_the_gate(self, ti: Any, end: StepEnd) -> None:
        """Leaves as XCom what the gate needs to name the cause of a failure: receipt, exit code, receipt problem."""
        if end.receipt is not None:
            leave(ti, XCOM_RETURN_KEY, end.receipt.wire(), self.log)
        leave(ti, STEP_END_KEY, end.wire(), self.log)

    def _log_cause(self, failure: BaseException | None, text: str) -> None:
        """Names what the stock operator raised. Its text may hold a whole pod, so it is not shown."""
        if failure is None:
            return
        answer = f", HTTP {failure.status}" if isinstance(failure, ApiException) else ""
        self.log.warning(text, f"{type(failure).__name__}{answer}")
