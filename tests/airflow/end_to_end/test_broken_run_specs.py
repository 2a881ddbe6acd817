"""A run-spec that cannot be used never touches another: its own DAG or group fails and says why (DAG-20).

Judged by what the real dag-processor left in the metadata database, and by a run of both forms to its end.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpone_core.contracts.run_spec import parse_run_spec, render_run_spec
from dpone_core.resources import dag_factories_directory
from tests.airflow.airflow_environment import AirflowEnvironment
from tests.spec.contracts.documents import load_step, run_spec_document, verify_step

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

SPECS = (4, pytest.param(200, marks=pytest.mark.slow))
RUNNER = Path(__file__).parents[1] / "provider" / "run_scenarios.py"
ONE_DAG = """
from datetime import UTC, datetime
from pathlib import Path
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG, BaseOperator
from dpone_airflow.tasks import load_run_specs, wire_dpone_gitops_task_group

class Marks(BaseOperator):
    def execute(self, context):
        return self.task_id

SPECS = load_run_specs(Path(__file__).parent / "whole", ["absent", "altered"])
with DAG("whole", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1) as dag_whole:
    before, behind = Marks(task_id="before"), Marks(task_id="behind")
    for name, run_spec in SPECS.items():
        before >> wire_dpone_gitops_task_group(dag=dag_whole, run_spec=run_spec, group_id=name).group >> behind
"""


def document(name: str) -> bytes:
    steps = [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[])]
    return render_run_spec(parse_run_spec(json.dumps(run_spec_document(process=name, steps=steps))))


def altered(content: bytes) -> bytes:
    """The same file with one other byte in its middle."""
    middle = content.index(b"bundle_verify") + 3
    return content[:middle] + b"X" + content[middle + 1 :]


@pytest.fixture
def folder(airflow_environment: AirflowEnvironment) -> Iterator[Path]:
    made = airflow_environment.dags_folder / "broken_run_specs"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def rows(airflow: AirflowEnvironment, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(airflow.home / "airflow.db")) as database:
        return database.execute(sql).fetchall()


@pytest.mark.parametrize("number", SPECS)
def test_one_altered_byte_leaves_every_other_dag_schedulable(
    airflow_environment: AirflowEnvironment, folder: Path, number: int
) -> None:
    names = [f"of_{number}_{index}" for index in range(number)]
    for name in names:
        content = document(name)
        (folder / f"{name}.run_spec.json").write_bytes(altered(content) if name == names[1] else content)
    factory = dag_factories_directory() / "many_run_specs.py"
    (folder / "many.py").write_text(factory.read_text(encoding="utf-8"), encoding="utf-8")
    airflow_environment.run_airflow("dag-processor", "-n", "1", timeout_seconds=300)
    found = rows(
        airflow_environment,
        f"SELECT dag_id, is_stale, has_import_errors FROM dag WHERE dag_id LIKE 'of\\_{number}\\_%' ESCAPE '\\'",
    )
    assert sorted(found) == sorted((name, 0, 0) for name in names)
    assert rows(airflow_environment, "SELECT stacktrace FROM import_error WHERE filename LIKE '%many.py'") == []
    tagged = rows(airflow_environment, "SELECT dag_id FROM dag_tag WHERE name = 'dpone-broken'")
    assert (names[1],) in tagged and not {(name,) for name in names if name != names[1]} & set(tagged)


def test_a_run_of_both_forms_fails_where_the_process_is_missing(
    airflow_environment: AirflowEnvironment, folder: Path, tmp_path: Path
) -> None:
    (folder / "whole").mkdir()
    (folder / "whole" / "altered.run_spec.json").write_bytes(altered(document("altered")))
    (folder / "whole.py").write_text(ONE_DAG, encoding="utf-8")
    result = tmp_path / "result.json"
    output = airflow_environment.run_script(RUNNER, str(folder / "whole.py"), str(result))
    run = json.loads(result.read_text(encoding="utf-8"))["whole"]
    states = {name: task["state"] for name, task in run["tasks"].items()}
    assert "failed" in run["state"]
    assert states == {
        "before": "success",
        "broken_run_spec": "failed",
        "outcome_gate": "failed",
        "behind": "upstream_failed",
    }
    assert "DPONE_RUN_SPEC_NOT_FOUND" in output and "DPONE_RUN_SPEC_INVALID" in output
