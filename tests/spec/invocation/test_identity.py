"""CLI and Python API derive one identity from the same arguments and environment, in every cell of the matrix.

Contract: CLI-09, CLI-10, CLI-17, CLI-18.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dpone_core import api
from dpone_core.api import RunOptions, execute_run
from dpone_core.errors import DponeError
from dpone_core.invocation import InvocationInvalidError, RunArguments, resolve_invocation
from tests.spec.builders import Project, flow, project_with_orders

ITEM = json.dumps({"schema": "dpone.airflow-mapping-item.v1", "mode": "visible", "item_index": 3})
AIRFLOW = {
    "DPONE_DAG_ID": "orders",
    "DPONE_DAG_RUN_ID": "scheduled__2026-01-02T00:00:00+00:00",
    "DPONE_TRY_NUMBER": "2",
    "DPONE_MAP_INDEX": "4",
    "DPONE_LOGICAL_DATE": "2026-01-02T00:00:00+00:00",
    "DPONE_INTERVAL_START": "2026-01-01T00:00:00+00:00",
    "DPONE_INTERVAL_END": "2026-01-02T00:00:00+00:00",
}
NATIVE = {"DPONE_PARTITION_MODE": "native", "DPONE_PARTITION_DIMENSION": "region", "DPONE_PARTITION_KEY": "EU"}

Case = tuple[dict[str, str], dict[str, str], dict[str, object]]
MATRIX: dict[str, Case] = {
    "nothing at all": (
        {},
        {},
        {"run_id": None, "dag_id": None, "try_number": 1, "map_index": -1, "logical_date": None},
    ),
    "everything from the scheduler": (
        {},
        AIRFLOW,
        {
            "run_id": "scheduled__2026-01-02T00:00:00+00:00",
            "dag_id": "orders",
            "dag_run_id": "scheduled__2026-01-02T00:00:00+00:00",
            "try_number": 2,
            "map_index": 4,
            "logical_date": "2026-01-02T00:00:00+00:00",
            "interval_start": "2026-01-01T00:00:00+00:00",
            "interval_end": "2026-01-02T00:00:00+00:00",
        },
    ),
    "explicit values win": (
        {
            "run_id": "mine",
            "dag_id": "my_dag",
            "execution_date": "2026-05-05",
            "interval_start": "2026-05-01",
            "interval_end": "2026-05-02T03:00:00+03:00",
        },
        AIRFLOW,
        {
            "run_id": "mine",
            "dag_id": "my_dag",
            "dag_run_id": "scheduled__2026-01-02T00:00:00+00:00",
            "logical_date": "2026-05-05T00:00:00+00:00",
            "interval_start": "2026-05-01T00:00:00+00:00",
            "interval_end": "2026-05-02T00:00:00+00:00",
        },
    ),
    "absent words fall through": (
        {"run_id": " none ", "dag_id": "NULL", "execution_date": ""},
        AIRFLOW,
        {
            "run_id": "scheduled__2026-01-02T00:00:00+00:00",
            "dag_id": "orders",
            "logical_date": "2026-01-02T00:00:00+00:00",
        },
    ),
    "absent words in the environment are absent": (
        {},
        {"DPONE_DAG_ID": "None", "DPONE_DAG_RUN_ID": "", "DPONE_LOGICAL_DATE": "null", "DPONE_TRY_NUMBER": ""},
        {"run_id": None, "dag_id": None, "logical_date": None, "try_number": 1},
    ),
    "the logical date falls back on the interval": (
        {},
        {"DPONE_INTERVAL_START": "2026-03-01T00:00:00Z"},
        {"logical_date": "2026-03-01T00:00:00+00:00", "interval_end": None},
    ),
    "a native partition": ({}, NATIVE, {"partition": {"mode": "native", "dimension": "region", "key": "EU"}}),
    "a degraded partition": (
        {},
        {"DPONE_PARTITION_MODE": "degraded_unpartitioned"},
        {"partition": {"mode": "degraded_unpartitioned", "dimension": None, "key": None}},
    ),
    "a mapping item": ({}, {"DPONE_AIRFLOW_MAPPING_ITEM": ITEM}, {"mapping_item": json.loads(ITEM)}),
    "a repair authority": ({}, {"DPONE_REPAIR_AUTHORITY_REF": "CHG-1"}, {"repair_authority_ref": "CHG-1"}),
}
INVALID: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "logical date": ({}, {"DPONE_LOGICAL_DATE": "yesterday"}, "DPONE_LOGICAL_DATE_INVALID"),
    "execution date": ({"execution_date": "2026-13-01"}, {}, "DPONE_LOGICAL_DATE_INVALID"),
    "interval start": ({}, {"DPONE_INTERVAL_START": "x"}, "DPONE_INTERVAL_START_INVALID"),
    "interval end": ({"interval_end": "x"}, {}, "DPONE_INTERVAL_END_INVALID"),
    "empty interval": (
        {"interval_start": "2026-01-01", "interval_end": "2026-01-01"},
        {},
        "DPONE_INTERVAL_END_INVALID",
    ),
    "authority": ({}, {"DPONE_REPAIR_AUTHORITY_REF": "a b"}, "DPONE_REPAIR_AUTHORITY_REF_INVALID"),
    "try": ({}, {"DPONE_TRY_NUMBER": "two"}, "DPONE_TRY_NUMBER_INVALID"),
    "first try": ({}, {"DPONE_FIRST_TRY": "one"}, "DPONE_FIRST_TRY_INVALID"),
    "map index": ({}, {"DPONE_MAP_INDEX": "-2"}, "DPONE_MAP_INDEX_INVALID"),
    "mode missing": ({}, {"DPONE_PARTITION_KEY": "EU"}, "DPONE_AIRFLOW_PARTITION_MODE_MISSING"),
    "mode invalid": ({}, {**NATIVE, "DPONE_PARTITION_MODE": "x"}, "DPONE_AIRFLOW_PARTITION_MODE_INVALID"),
    "dimension missing": (
        {},
        {**NATIVE, "DPONE_PARTITION_DIMENSION": ""},
        "DPONE_AIRFLOW_PARTITION_DIMENSION_MISSING",
    ),
    "dimension invalid": (
        {},
        {**NATIVE, "DPONE_PARTITION_DIMENSION": "1a"},
        "DPONE_AIRFLOW_PARTITION_DIMENSION_INVALID",
    ),
    "key missing": ({}, {**NATIVE, "DPONE_PARTITION_KEY": ""}, "DPONE_AIRFLOW_PARTITION_KEY_MISSING"),
    "key invalid": ({}, {**NATIVE, "DPONE_PARTITION_KEY": "k" * 257}, "DPONE_AIRFLOW_PARTITION_KEY_INVALID"),
    "mapping item": ({}, {"DPONE_AIRFLOW_MAPPING_ITEM": "{}"}, "DPONE_AIRFLOW_MAPPING_ITEM_INVALID"),
    "mapping item with a stranger": (
        {},
        {"DPONE_AIRFLOW_MAPPING_ITEM": '{"schema": "dpone.airflow-mapping-item.v1", "x": 1}'},
        "DPONE_AIRFLOW_MAPPING_ITEM_INVALID",
    ),
    "mapping item too large": (
        {},
        {"DPONE_AIRFLOW_MAPPING_ITEM": json.dumps({"schema": "dpone.airflow-mapping-item.v1", "mode": "x" * 9000})},
        "DPONE_AIRFLOW_MAPPING_ITEM_INVALID",
    ),
    "run id": ({"run_id": "r" * 257}, {}, "DPONE_RUN_ID_INVALID"),
}
OPTIONS = {
    "run_id": "--run-id",
    "dag_id": "--dag-id",
    "execution_date": "--execution-date",
    "interval_start": "--interval-start",
    "interval_end": "--interval-end",
}


@pytest.fixture(name="project", scope="module")
def orders_to_load(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return project_with_orders(tmp_path_factory.mktemp("identity"), flow())


def newest_invocation(project: Project) -> dict[str, Any]:
    newest = max((project.root / "evidence").rglob("run.json"), key=lambda path: path.parent.name)
    return dict(json.loads(newest.read_text())["invocation"])


def by_cli(
    project: Project, arguments: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, Any], str]:
    given = [part for name, value in arguments.items() for part in (OPTIONS[name], value)]
    finished = project.dpone("run", "m.yaml", "--format", "json", *given, environment=environment)
    assert finished.exit_code == 0, finished
    return newest_invocation(project), finished.document["run_id"]


def by_api(
    project: Project, arguments: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, Any], str]:
    report = api.run(
        project.root / "m.yaml", **dict(arguments), environment={**project.environment, **environment}
    ).as_json()
    return newest_invocation(project), str(report["run_id"])


@pytest.mark.parametrize("case", MATRIX)
def test_both_entry_points_are_one_identity(project: Project, case: str) -> None:
    arguments, environment, expected = MATRIX[case]
    cli, cli_run = by_cli(project, arguments, environment)
    python, python_run = by_api(project, arguments, environment)
    assert cli == python
    assert {name: cli[name] for name in expected} == expected
    if expected.get("run_id"):
        assert cli_run == python_run == expected["run_id"]
    elif "run_id" in expected:
        assert cli_run != python_run and cli_run.startswith("manual-") and python_run.startswith("manual-")


@pytest.mark.parametrize("case", INVALID)
def test_a_value_without_meaning_has_its_own_code_and_no_fallback(case: str) -> None:
    arguments, environment, code = INVALID[case]
    with pytest.raises(InvocationInvalidError) as error:
        resolve_invocation(RunArguments(**arguments), environment, "fresh")
    assert error.value.code == code


def test_both_entry_points_refuse_alike(project: Project) -> None:
    arguments, environment, code = INVALID["empty interval"]
    given = [part for name, value in arguments.items() for part in (OPTIONS[name], value)]
    finished = project.dpone("run", "m.yaml", "--format", "json", *given, environment=environment)
    assert (finished.exit_code, finished.code) == (2, code)
    with pytest.raises(DponeError) as error:
        api.run(project.root / "m.yaml", **arguments, environment={**project.environment, **environment})
    assert error.value.code == code


def test_the_environment_is_read_once_and_only_from_what_is_given(project: Project) -> None:
    """The process's own environment has none of these variables: nothing is taken from anywhere else."""
    execution = execute_run(
        project.root / "m.yaml", RunOptions(), environment={**project.environment, "DPONE_DAG_ID": "given"}
    )
    assert execution.invocation is not None and execution.invocation.dag_id == "given"


def test_equal_text_of_other_run_ids_never_shares_a_directory(project: Project) -> None:
    for run_id in ("a.b", "a_b", "a/b", "A.B"):
        project.execute(run_id)
    directories = {path.parents[1].name for path in (project.root / "evidence").rglob("run.json")}
    assert len({name for name in directories if name.lower().startswith("a")}) == 4
    assert len({name.lower() for name in directories}) == len(directories)
