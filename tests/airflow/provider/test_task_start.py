"""A task process builds the one DAG it needs out of five hundred, and reads no other file (DAG-12, DAG-13)."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from dpone_airflow.run_spec_files import load_run_specs
from dpone_core.resources import dag_factories_directory
from tests.airflow.airflow_environment import AirflowEnvironment
from tests.spec.contracts.documents import run_spec_document

PARSER = Path(__file__).with_name("parse_dags.py")
NEEDED = "process_250"
MANY = 500


def folder_of(root: Path, *, others: str) -> Path:
    """A DAG folder of 500 processes; `others` is the content of every run-spec but the needed one."""
    folder = root / "many"
    folder.mkdir()
    factory = dag_factories_directory() / "many_run_specs.py"
    (folder / factory.name).write_text(factory.read_text(encoding="utf-8"), encoding="utf-8")
    for number in range(MANY):
        (folder / f"process_{number}.run_spec.json").write_text(others, encoding="utf-8")
    needed = json.dumps(run_spec_document(process=NEEDED))
    (folder / f"{NEEDED}.run_spec.json").write_text(needed, encoding="utf-8")
    return folder


@pytest.mark.airflow
def test_a_task_start_builds_one_dag_of_five_hundred(airflow_environment: AirflowEnvironment, tmp_path: Path) -> None:
    """Whatever else was opened would be an import error: it is no run-spec."""
    folder, result = folder_of(tmp_path, others="{"), tmp_path / "result.json"
    needed = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": NEEDED}
    airflow_environment.run_script(PARSER, str(folder), str(result), variables=needed)
    found = json.loads(result.read_text(encoding="utf-8"))
    assert (list(found["dags"]), found["import_errors"]) == ([NEEDED], {})


def test_reading_one_of_five_hundred_costs_what_one_costs(tmp_path: Path) -> None:
    """Measured against reading them all, on the same machine: at least fifty times less."""
    folder = folder_of(tmp_path, others=json.dumps(run_spec_document(process="other")))
    everything, read_of_all = timed(folder, None)
    one, read_of_one = min(timed(folder, NEEDED) for _ in range(5))
    assert (read_of_all, read_of_one) == (MANY, 1)
    assert one * 50 < everything


def timed(folder: Path, wanted: str | None) -> tuple[float, int]:
    """Seconds, and how many run-specs came out, good or bad."""
    started = time.perf_counter()
    found = load_run_specs(folder, wanted=wanted)
    return time.perf_counter() - started, len(found)
