"""Every way in which a pod can end, in both modes of the operator: state, cause, receipt and tries as expected.

Real dag.test() runs; pods are processes of the local pod runner. Contract: AIR-07.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from tests.airflow.airflow_environment import CHECKOUT, AirflowEnvironment
from tests.airflow.provider.matrix import SCENARIOS, Scenario, manual_table, shown
from tests.spec.contracts.documents import load_step, run_spec_document, verify_step

HERE = Path(__file__).parent
LOAD = "dpone_run_flights"
MANUAL = CHECKOUT / "docs" / "how-to" / "airflow.md"
CANARY = "canary-7c1f"
RUN_LIMIT_SECONDS = 900
MODES = ("sync", "deferred")
MATRIX_ROW = "kpo matrix"
"""Property under which a cell hands its line to the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """What Airflow's database held after every scenario of one mode, its output, and the pods that were left."""

    results: dict[str, Any]
    output: str
    pods_left: list[Any]

    def observed(self, scenario: str) -> tuple[str, str | None, str | None, int]:
        tasks = self.results[scenario]["tasks"]
        load, gate = tasks[LOAD], tasks[f"{LOAD}_outcome_gate"]
        receipt = load["xcom"].get("return_value")
        verdict = gate["xcom"].get("return_value") or {}
        status = receipt.get("status") if isinstance(receipt, dict) else None
        return load["state"], verdict.get("primary_code", "no verdict"), status, load["try_number"]

    def advice(self, scenario: str) -> str | None:
        """What the gate advises; None without a verdict."""
        verdict = self.results[scenario]["tasks"][f"{LOAD}_outcome_gate"]["xcom"].get("return_value") or {}
        found: str | None = verdict.get("advice")
        return found


@pytest.fixture(scope="module", params=MODES)
def matrix(
    request: pytest.FixtureRequest, airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Matrix:
    root = tmp_path_factory.mktemp(f"matrix_{request.param}")
    commands = root / "commands"
    commands.mkdir()
    stand_in = commands / "dpone"
    program = f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} {HERE / "stand_in_dpone.py"} "$@"\n'
    stand_in.write_text(program, encoding="utf-8")
    stand_in.chmod(0o755)
    dag_file = airflow_environment.dags_folder / "matrix_dags.py"
    dag_file.write_text((HERE / "matrix_dags.py").read_text(encoding="utf-8"), encoding="utf-8")
    steps = [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[])]
    spec = airflow_environment.dags_folder / "matrix.spec.json"
    spec.write_text(json.dumps(run_spec_document(steps=steps)), encoding="utf-8")
    result = root / "result.json"
    fixtures = Fixtures(secrets={"dpone-dwh": {"uri": f"dwh://etl:{CANARY}"}})
    with LocalPodRunner(root=root / "pods", fixtures=fixtures, search_path=(commands,)) as runner:
        output = airflow_environment.run_script(
            HERE / "run_scenarios.py",
            str(dag_file),
            str(result),
            variables={"KUBECONFIG": str(runner.kubeconfig_path), "MATRIX_MODE": request.param},
            timeout_seconds=RUN_LIMIT_SECONDS,
        )
        pods_left = list(runner.state()["pods"])
    dag_file.unlink()
    return Matrix(results=json.loads(result.read_text(encoding="utf-8")), output=output, pods_left=pods_left)


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(RUN_LIMIT_SECONDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_pod_that_ends_like_this_is_told_as_it_was(
    matrix: Matrix, scenario: Scenario, request: pytest.FixtureRequest, record_property: Any
) -> None:
    observed = matrix.observed(scenario.name)
    mode = request.node.callspec.params["matrix"]
    advice = matrix.advice(scenario.name)
    record_property(MATRIX_ROW, [mode, scenario.name, shown(scenario.expected), shown(observed), advice])
    assert observed == scenario.expected
    assert (advice == "nothing is left to do") is (scenario.code is None)


@pytest.mark.airflow
@pytest.mark.slow
def test_no_scenario_leaves_a_pod_or_shows_a_secret(matrix: Matrix) -> None:
    assert matrix.pods_left == []
    assert CANARY not in matrix.output and CANARY not in json.dumps(matrix.results)


def test_there_are_28_scenarios_and_the_manual_shows_them() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == 28
    manual = MANUAL.read_text(encoding="utf-8")
    assert "\n".join(manual_table()) in manual
