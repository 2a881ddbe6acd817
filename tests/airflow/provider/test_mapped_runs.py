"""A mapped process in real dag.test() runs: which receipts the gate takes, and what it says of those it does not.

As in test_real_runs, whose quick runs hold one lost and one killed partition. Contract: AIR-15, AIR-16.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.airflow.airflow_environment import AirflowEnvironment
from tests.airflow.provider.test_real_runs import LOAD, STAGED, Runs, executed

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(700)]

SYNCHRONOUS = ("mapped_ok", "mapped_native", "mapped_mixed_up", "mapped_other_plan", "mapped_too_many")
DEFERRED = () if version("apache-airflow").startswith("2.") else ("mapped_ok", "mapped_lost", "mapped_killed")
"""A test run of Airflow 2 gives a task no start date, and the provider's deferral needs one: UNVERIFIED there."""


@pytest.fixture(scope="module")
def runs(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    scenarios = (*SYNCHRONOUS, *(f"{name}_deferred" for name in DEFERRED))
    return executed(airflow_environment, tmp_path_factory.mktemp("mapped"), scenarios)


@pytest.mark.parametrize("scenario", ["mapped_ok", "mapped_native", *(["mapped_ok_deferred"] if DEFERRED else [])])
def test_one_receipt_for_each_partition_passes(runs: Runs, scenario: str) -> None:
    verdict = runs.verdict(scenario)
    assert "success" in runs.results[scenario]["state"]
    assert (verdict["passed"], verdict["partitions"], verdict["partitions_passed"]) == (True, 3, 3)
    receipts = [runs.task(scenario, f"{STAGED}[{index}]")["xcom"]["return_value"] for index in range(3)]
    assert [receipt["map_index"] for receipt in receipts] == [0, 1, 2]
    assert runs.task(scenario)["xcom"]["return_value"]["transfer_plan"] == receipts[0]["transfer_plan"]
    listed = runs.task(scenario, "partitions")["xcom"]["return_value"]
    assert [item["item_index"] for item in listed] == [0, 1, 2]


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ("mapped_mixed_up", "DPONE_RECEIPT_MISMATCH"),
        ("mapped_other_plan", "DPONE_RECEIPT_MISMATCH"),
        *([("mapped_lost_deferred", "DPONE_RECEIPT_REQUIRED")] if DEFERRED else []),
    ],
)
def test_the_gate_names_the_index_whose_receipt_is_missing_or_another_s(runs: Runs, scenario: str, code: str) -> None:
    states = {name: task["state"] for name, task in runs.results[scenario]["tasks"].items()}
    assert [states[f"{STAGED}[{index}]"] for index in range(3)] == ["success", "failed", "success"]
    assert (states[LOAD], states["outcome_gate"]) == ("upstream_failed", "failed")
    assert runs.task(scenario, f"{STAGED}[1]")["try_number"] == 2, "it mutates no target and is repeated"
    verdict = runs.verdict(scenario)
    assert (verdict["primary_step"], verdict["primary_code"]) == (f"{STAGED}[1]", code)
    assert verdict["retry_classification"] == "retry_before_target_mutation"


@pytest.mark.skipif(not DEFERRED, reason="UNVERIFIED: see DEFERRED")
def test_a_killed_deferred_partition_is_repeated_alone(runs: Runs) -> None:
    tries = [runs.task("mapped_killed_deferred", f"{STAGED}[{index}]")["try_number"] for index in range(3)]
    assert tries == [1, 2, 1] and runs.verdict("mapped_killed_deferred")["passed"] is True


def test_a_plan_longer_than_airflow_maps_is_refused_by_the_task_that_lists_it(runs: Runs) -> None:
    verdict = runs.verdict("mapped_too_many")
    assert (verdict["primary_step"], verdict["primary_code"]) == ("partitions", "DPONE_AIRFLOW_MAPPING_TOO_LONG")
    assert (runs.task("mapped_too_many", "partitions")["try_number"], verdict["partitions"]) == (1, 5000)
    assert "the plan has 5000 partitions, core.max_map_length is 1024" in runs.output


def test_no_pod_is_left_behind(runs: Runs) -> None:
    assert runs.pods_left == []
