"""DAG files that `dpone gitops airflow dag-factory` writes parse in a real Airflow and bind the named run-specs.

Contract: DAG-19, DAG-20.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.airflow_environment import AirflowEnvironment
from tests.spec.builders import Project
from tests.spec.contracts.documents import fanned_out_steps, run_spec_document

pytestmark = pytest.mark.airflow

PARSER = Path(__file__).parents[1] / "provider" / "parse_dags.py"
PLATFORM = json.loads((Path(__file__).parents[1] / "provider" / "complete_platform.json").read_text())
FORMS = {
    "each": ("--schedule", "0 5 * * *", "--tag", "nightly", "--tag", "dpone", "--owner", "dwh", "--outlets"),
    "whole": ("--one-dag", "--dag-id", "warehouse"),
}


def spec_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("flights", "airports", "ranges"):
        whole = run_spec_document() if name != "ranges" else run_spec_document(steps=fanned_out_steps())
        text = json.dumps(whole).replace("dpone_run_flights", f"dpone_run_{name}")
        document = {**json.loads(text), "process": name, "asset": f"x-dpone://dwh/raw/{name}", "platform": PLATFORM}
        (folder / f"{name}.run_spec.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "broken.run_spec.json").write_text("{", encoding="utf-8")


@pytest.fixture(scope="module")
def parsed(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("generated")
    project = Project(root)
    for form, options in FORMS.items():
        spec_files(root / "dags" / form / "specs")
        target = f"dags/{form}/{form}.py"
        bound = ("--run-specs", f"dags/{form}/specs", "--output", target, *options)
        finished = project.dpone("gitops", "airflow", "dag-factory", *bound)
        assert finished.exit_code == 0, finished.stdout + finished.stderr
        assert len((root / target).read_text().splitlines()) < 60
    result = root / "result.json"
    airflow_environment.run_script(PARSER, str(root / "dags"), str(result))
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def test_a_dag_per_process_carries_its_steps_and_its_gate(parsed: dict[str, Any]) -> None:
    assert set(parsed["dags"]) == {"flights", "airports", "ranges", "broken", "warehouse"}
    assert list(parsed["dags"]["airports"]["groups"]) == ["dpone_airports"]
    assert "dpone_airports.outcome_gate" in parsed["dags"]["airports"]["tasks"]


def test_one_dag_holds_a_group_with_its_own_gate_per_process(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["warehouse"]["tasks"]
    assert set(parsed["dags"]["warehouse"]["groups"]) == {"airports", "broken", "flights", "ranges"}
    for name in ("airports", "flights", "ranges"):
        upstream = tasks[f"{name}.outcome_gate"]["upstream"]
        assert upstream and all(task.startswith(f"{name}.") for task in upstream)


def test_a_process_of_mapped_partitions_needs_nothing_of_its_own(parsed: dict[str, Any]) -> None:
    mapped = {
        (dag_id, name)
        for dag_id, dag in parsed["dags"].items()
        for name, task in dag["tasks"].items()
        if task["is_mapped"]
    }
    assert mapped == {("ranges", "dpone_ranges.transfer_partition"), ("warehouse", "ranges.transfer_partition")}
    listing = parsed["dags"]["warehouse"]["tasks"]["ranges.partitions"]
    assert listing["upstream"] == ["ranges.transfer_plan"]


def test_no_serialised_dag_depends_on_where_an_object_lay_in_memory(parsed: dict[str, Any]) -> None:
    assert not [name for name, dag in parsed["dags"].items() if " at 0x" in dag["serialized"]]


def test_schedule_tags_and_one_run_at_a_time_survive_serialisation(parsed: dict[str, Any]) -> None:
    dag = json.loads(parsed["dags"]["flights"]["serialized"])["dag"]
    assert "0 5 * * *" in json.dumps(dag["timetable"]) and set(dag["tags"]) == {"nightly", "dpone"}
    assert {found["max_active_runs"] for found in parsed["dags"].values()} == {1}


def test_every_serialised_dag_reads_back(parsed: dict[str, Any]) -> None:
    for dag in parsed["dags"].values():
        assert dag["read_back"] == dag["authored"]


def test_owner_and_asset_stand_where_they_were_asked_for(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["flights"]["read_back"]["tasks"]
    assert {task["owner"] for task in tasks.values()} == {"dwh"}
    updating = {name: task["outlets"] for name, task in tasks.items() if task["outlets"]}
    assert updating == {"dpone_flights.outcome_gate": ["x-dpone://dwh/raw/flights"]}
    assert not any(task["outlets"] for task in parsed["dags"]["warehouse"]["read_back"]["tasks"].values())


def test_a_broken_run_spec_fails_in_its_own_place_and_hides_no_other(parsed: dict[str, Any]) -> None:
    assert parsed["import_errors"] == {}
    own, among = parsed["dags"]["broken"]["tasks"], parsed["dags"]["warehouse"]["tasks"]
    for tasks, group in ((own, "dpone_broken"), (among, "broken")):
        assert "broken.run_spec.json" in tasks[f"{group}.broken_run_spec"]["doc_md"]
        assert tasks[f"{group}.outcome_gate"]["upstream"] == [f"{group}.broken_run_spec"]
    assert "dpone-broken" in parsed["dags"]["broken"]["authored"]["tags"]
