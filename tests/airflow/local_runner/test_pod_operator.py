"""The stock KubernetesPodOperator of a real Airflow works against the runner, in success and in failure."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpone_airflow.local.runner import LocalPodRunner
from tests.airflow.airflow_environment import AirflowEnvironment
from tests.airflow.local_runner.dags import CASES_FILE

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(400)]

CASES = ("succeeded", "failed", "evicted", "log_reset", "server_errors")
RESULT_MARK = "@@RESULT "


class Outcome:
    """What one run of all cases in one Airflow process left behind."""

    def __init__(self, output: str, state: Mapping[str, Any]) -> None:
        results = [
            json.loads(line.removeprefix(RESULT_MARK)) for line in output.splitlines() if line.startswith(RESULT_MARK)
        ]
        self.results: dict[str, Any] = {result["case"]: result for result in results}
        self.logs = {part.split("\n", 1)[0]: part for part in output.split("@@BEGIN ")[1:]}
        self.state = state

    def subject(self, case: str) -> str:
        return str(self.results[case]["states"]["subject"])

    def receipt(self, case: str) -> Any:
        return self.results[case]["receipt"]


@pytest.fixture(scope="module", params=["sync", pytest.param("deferrable", marks=pytest.mark.slow)])
def outcome(
    request: pytest.FixtureRequest, airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    directory = tmp_path_factory.mktemp("operator")
    script = Path(shutil.copy(CASES_FILE, airflow_environment.dags_folder))
    with LocalPodRunner(root=directory / "runner") as runner:
        output = airflow_environment.run_script(
            script,
            *CASES,
            variables={
                "KUBECONFIG": str(runner.kubeconfig_path),
                "CASES_RECEIPT": str(directory / "receipt.json"),
                "CASES_DEFERRABLE": str(int(request.param == "deferrable")),
            },
        )
        yield Outcome(output, runner.state())
    script.unlink()


def test_a_pod_that_succeeds_is_a_task_that_succeeds_with_its_receipt(outcome: Outcome) -> None:
    assert (outcome.subject("succeeded"), outcome.receipt("succeeded")) == ("success", {"status": "succeeded"})
    assert "working" in outcome.logs["succeeded"]


def test_a_pod_that_fails_is_a_failed_task_with_its_receipt_and_termination_message(outcome: Outcome) -> None:
    assert (outcome.subject("failed"), outcome.receipt("failed")) == ("failed", {"status": "failed"})
    assert "E_QUALITY: 3 rows" in outcome.logs["failed"]


def test_an_evicted_pod_is_a_failed_task_without_receipt(outcome: Outcome) -> None:
    assert (outcome.subject("evicted"), outcome.receipt("evicted")) == ("failed", None)


def test_a_log_that_breaks_off_fails_nothing(outcome: Outcome) -> None:
    assert (outcome.subject("log_reset"), outcome.receipt("log_reset")) == ("success", {"status": "succeeded"})


def test_server_errors_are_retried_by_the_client(outcome: Outcome) -> None:
    assert outcome.subject("server_errors") == "success"
    assert [request["status"] for request in outcome.state["requests"]].count(500) == 2


def test_every_pod_was_deleted(outcome: Outcome) -> None:
    assert outcome.state["pods"] == []
    assert len(outcome.state["finished"]) == len(CASES)


def test_the_operator_asked_for_nothing_that_is_not_modelled(outcome: Outcome) -> None:
    unknown = [
        request
        for request in outcome.state["requests"]
        if request["status"] in (404, 405, 415, 422)
        and not request["path"].startswith("/api/v1/namespaces/default/pods/")
    ]

    assert unknown == []
