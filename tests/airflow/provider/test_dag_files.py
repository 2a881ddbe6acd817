"""The DAG files a user copies build the whole chain, name what is broken, and give the same bytes on every parse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone_core.resources import dag_factories_directory
from tests.airflow.airflow_environment import CHECKOUT, AirflowEnvironment
from tests.spec.contracts.documents import fanned_out_steps, hook_step, load_step, run_spec_document, verify_step

pytestmark = pytest.mark.airflow

FACTORIES = dag_factories_directory()
PARSER = Path(__file__).with_name("parse_dags.py")
PRE_IMPORT = "import airflow.providers.cncf.kubernetes.operators.pod"


def post_hook() -> dict[str, Any]:
    return hook_step("announce", "post_hook", depends_on=["dpone_run_flights"])


@pytest.fixture(scope="module")
def parsed(
    airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One folder per DAG file, parsed twice in fresh processes."""
    root = tmp_path_factory.mktemp("parsed")
    one, many, mapped, unmapped = (root / name for name in ("one", "many", "mapped", "unmapped"))
    for folder, factory in (
        *((one, "one_run_spec.py"), (many, "many_run_specs.py")),
        *((mapped, "mapped_partitions.py"), (unmapped, "mapped_partitions.py")),
    ):
        folder.mkdir()
        (folder / factory).write_text((FACTORIES / factory).read_text(encoding="utf-8"), encoding="utf-8")
    complete = run_spec_document(steps=[verify_step(), hook_step(), load_step(), post_hook()])
    (one / "orders.run_spec.json").write_text(json.dumps(complete), encoding="utf-8")
    for name in ("flights", "airports"):
        (many / f"{name}.run_spec.json").write_text(json.dumps(run_spec_document(process=name)), encoding="utf-8")
    (many / "broken.run_spec.json").write_text(json.dumps(run_spec_document(surprise=1)), encoding="utf-8")
    (many / "torn.run_spec.json").write_text("{", encoding="utf-8")
    factory = mapped / "mapped_partitions.py"
    factory.write_text(factory.read_text(encoding="utf-8").replace('DAG_ID = "orders"', 'DAG_ID = "ranges"'), "utf-8")
    ranges = [*fanned_out_steps(), post_hook()]
    (mapped / "orders.run_spec.json").write_text(json.dumps(run_spec_document(steps=ranges)), encoding="utf-8")
    (unmapped / "orders.run_spec.json").write_text(json.dumps(complete), encoding="utf-8")
    results = []
    for number in range(2):
        result = root / f"result{number}.json"
        airflow_environment.run_script(PARSER, str(root), str(result))
        results.append(json.loads(result.read_text(encoding="utf-8")))
    return results[0], results[1]


@pytest.fixture
def orders(parsed: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = parsed[0]["dags"]["orders"]
    return found


def test_the_chain_is_verify_hooks_load_post_hooks_gate(orders: dict[str, Any]) -> None:
    upstream = {name.partition(".")[2]: task["upstream"] for name, task in orders["tasks"].items()}
    assert upstream == {
        "bundle_verify": [],
        "pre_hook_refresh_mart": ["dpone_flights.bundle_verify"],
        "dpone_run_flights": ["dpone_flights.pre_hook_refresh_mart"],
        "post_hook_announce": ["dpone_flights.dpone_run_flights"],
        "outcome_gate": [
            "dpone_flights.bundle_verify",
            "dpone_flights.dpone_run_flights",
            "dpone_flights.post_hook_announce",
            "dpone_flights.pre_hook_refresh_mart",
        ],
    }


def test_the_gate_always_runs_and_is_never_retried(orders: dict[str, Any]) -> None:
    gate = orders["tasks"]["dpone_flights.outcome_gate"]
    assert (gate["type"], gate["trigger_rule"], gate["retries"]) == ("DponeOutcomeGateOperator", "all_done", 0)


def test_a_search_of_the_fields_for_outputs_of_other_tasks_would_find_none(
    parsed: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    for dag in parsed[0]["dags"].values():
        assert dag["upstream_searched"] == {name: task["upstream"] for name, task in dag["tasks"].items()}


def test_every_step_is_bounded_in_time_and_keeps_its_receipt(orders: dict[str, Any]) -> None:
    steps = [task for task in orders["tasks"].values() if task["type"] == "DponePodOperator"]
    assert len(steps) == 4
    for step in steps:
        assert 0 < step["execution_timeout_seconds"] < step["active_deadline_seconds"]
        assert (step["do_xcom_push"], step["log_pod_spec_on_failure"], step["automount"]) == (True, False, False)


def test_a_step_holds_only_its_own_secret_references(orders: dict[str, Any]) -> None:
    secrets = {name.partition(".")[2]: task["secrets"] for name, task in orders["tasks"].items()}
    assert secrets["bundle_verify"] == []
    assert secrets["dpone_run_flights"] == [["env", "DPONE_CONN_DWH", "dpone-dwh", "uri"]]


def test_the_ui_shows_command_lineage_and_what_a_retry_repeats(orders: dict[str, Any]) -> None:
    hook = orders["tasks"]["dpone_flights.pre_hook_refresh_mart"]
    assert hook["template_fields"][:2] == ["dpone_command", "run_spec_ref"]
    assert hook["title"] == "pre-hook refresh_mart"
    assert "main.flights_mart" in hook["doc_md"] and "a retry would repeat" in hook["doc_md"]
    assert "run-spec" in orders["groups"]["dpone_flights"]


@pytest.fixture
def ranges(parsed: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = parsed[0]["dags"]["ranges"]
    return found


def test_the_chain_of_a_mapped_process_has_a_task_for_each_partition_before_its_load(ranges: dict[str, Any]) -> None:
    upstream = {
        name.partition(".")[2]: sorted(one.partition(".")[2] for one in task["upstream"])
        for name, task in ranges["tasks"].items()
    }
    assert upstream == {
        "bundle_verify": [],
        "pre_hook_refresh_mart": ["bundle_verify"],
        "transfer_plan": ["pre_hook_refresh_mart"],
        "partitions": ["transfer_plan"],
        "transfer_partition": ["partitions", "transfer_plan"],
        "dpone_run_flights": ["transfer_partition"],
        "post_hook_announce": ["dpone_run_flights"],
        "outcome_gate": sorted(upstream.keys() - {"outcome_gate"}),
    }


def test_a_mapped_step_is_bounded_in_time_and_number_and_its_tasks_are_named(ranges: dict[str, Any]) -> None:
    tasks = {name.partition(".")[2]: task for name, task in ranges["tasks"].items()}
    assert [name for name, task in tasks.items() if task["is_mapped"]] == ["transfer_partition"]
    mapped = tasks["transfer_partition"]
    assert (mapped["type"], mapped["at_once"]) == ("DponeMappedPodOperator", 4)
    assert mapped["index_title"] == "partition {{ ti.map_index }}"
    assert 0 < mapped["execution_timeout_seconds"] < mapped["active_deadline_seconds"]
    assert (mapped["do_xcom_push"], mapped["log_pod_spec_on_failure"], mapped["automount"]) == (True, False, False)
    assert mapped["template_fields"][:2] == ["dpone_command", "run_spec_ref"]
    assert (tasks["partitions"]["type"], tasks["partitions"]["retries"]) == ("DponePartitionsOperator", 2)


def test_the_ui_says_what_each_task_of_a_mapped_process_does(ranges: dict[str, Any]) -> None:
    tasks = {name.partition(".")[2]: task for name, task in ranges["tasks"].items()}
    titles = {name: tasks[name]["title"] for name in ("transfer_plan", "partitions", "transfer_partition")}
    assert list(titles.values()) == ["plan partitions", "list partitions", "stage partition"]
    assert tasks["dpone_run_flights"]["title"] == "publish flights"
    assert "partitions at a time: 4" in tasks["transfer_partition"]["doc_md"]
    assert "the target is not touched" in tasks["transfer_partition"]["doc_md"]
    assert "starts no pod" in tasks["partitions"]["doc_md"]
    assert "one for each partition of the plan" in tasks["outcome_gate"]["doc_md"]


def test_a_run_spec_without_a_mapped_step_is_refused_by_the_file_that_needs_one(
    parsed: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    message = parsed[0]["import_errors"]["unmapped/mapped_partitions.py"]
    assert "unmapped/orders.run_spec.json: no step of the run-spec is mapped" in message


@pytest.mark.parametrize("dag_id", ["orders", "ranges"])
def test_a_dag_read_back_is_the_one_that_was_written(
    parsed: tuple[dict[str, Any], dict[str, Any]], dag_id: str
) -> None:
    dag = parsed[0]["dags"][dag_id]
    assert dag["read_back"] == dag["authored"]


def test_two_runs_at_once_are_not_allowed(parsed: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert {dag["max_active_runs"] for dag in parsed[0]["dags"].values()} == {1}


def test_parsing_again_gives_the_same_bytes(parsed: tuple[dict[str, Any], dict[str, Any]]) -> None:
    first, second = ({name: dag["sha256"] for name, dag in one["dags"].items()} for one in parsed)
    assert first == second
    assert set(first) == {"orders", "flights", "airports", "ranges", "broken", "torn"}


def test_a_task_process_builds_the_dag_it_needs_and_reads_no_other_run_spec(
    airflow_environment: AirflowEnvironment, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "many.py").write_text((FACTORIES / "many_run_specs.py").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("flights", "airports"):
        (folder / f"{name}.run_spec.json").write_text(json.dumps(run_spec_document(process=name)), encoding="utf-8")
    (folder / "broken.run_spec.json").write_text("{", encoding="utf-8")
    result = tmp_path / "result.json"
    needed = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": "airports"}
    airflow_environment.run_script(PARSER, str(folder), str(result), variables=needed)
    found = json.loads(result.read_text(encoding="utf-8"))
    assert (list(found["dags"]), found["import_errors"]) == (["airports"], {})


def failing(parsed: tuple[dict[str, Any], dict[str, Any]], dag_id: str) -> tuple[str, dict[str, Any]]:
    """What stands in a DAG in the place of a process: the problem, and the tasks by their last word."""
    dag = parsed[0]["dags"][dag_id]
    assert "dpone-broken" in dag["authored"]["tags"]
    tasks = {name.rpartition(".")[2]: task for name, task in dag["tasks"].items()}
    assert {task["type"] for task in tasks.values()} == {"DponeBrokenProcessOperator"}
    return tasks["broken_run_spec"]["doc_md"], tasks


def test_in_the_place_of_a_broken_run_spec_stands_a_dag_that_fails_and_says_why(
    parsed: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    problem, tasks = failing(parsed, "broken")
    assert problem.startswith("DPONE_RUN_SPEC_INVALID: ") and problem.endswith("run-spec MANIFEST")
    assert "broken.run_spec.json: run-spec surprise: Extra inputs are not permitted" in problem
    assert tasks["outcome_gate"]["trigger_rule"] == "all_done", "it fails whatever came before"
    assert tasks["broken_run_spec"]["retries"] == tasks["outcome_gate"]["retries"] == 0
    assert "torn.run_spec.json" in failing(parsed, "torn")[0]
    assert "many/many_run_specs.py" not in parsed[0]["import_errors"], "it would stop the other DAGs of the file"


def test_an_absent_run_spec_is_told_with_its_path(airflow_environment: AirflowEnvironment, tmp_path: Path) -> None:
    (tmp_path / "absent.py").write_text((FACTORIES / "one_run_spec.py").read_text(encoding="utf-8"), encoding="utf-8")
    result = tmp_path / "result.json"
    airflow_environment.run_script(PARSER, str(tmp_path), str(result))
    found = json.loads(result.read_text(encoding="utf-8"))
    problem, _ = failing((found, found), "orders")
    assert problem.startswith("DPONE_RUN_SPEC_NOT_FOUND: ") and "/orders.run_spec.json" in problem


@pytest.mark.parametrize("name", ["one_run_spec.py", "many_run_specs.py", "mapped_partitions.py"])
def test_a_dag_file_is_short_and_holds_the_literal_pre_import(name: str) -> None:
    lines = (FACTORIES / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60
    assert any(line.startswith(PRE_IMPORT) for line in lines)


def test_importing_the_package_and_its_wiring_imports_no_vendor() -> None:
    program = (
        "import sys, dpone_airflow, dpone_airflow.tasks, dpone_airflow.provider_info\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('airflow', 'kubernetes', 'jinja2')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_parsing_reads_only_the_dag_folder_s_run_specs() -> None:
    source = Path(CHECKOUT / "dpone_airflow" / "tasks.py").read_text(encoding="utf-8")
    assert not [word for word in ("Variable", "Connection", "datetime.now", "random") if word in source]
