"""A generated DAG file binds the run-specs of a directory by name; equal requests give equal bytes.

Contract: DAG-19. That such files parse in Airflow: tests/airflow/end_to_end.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dpone_core.gitops.dag_factory import DagFileRefusedError, DagFileRequest
from tests.spec.builders import Finished, Project

PRE_IMPORT = "import airflow.providers.cncf.kubernetes.operators.pod"


@pytest.fixture(name="project")
def two_run_specs(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    for name in ("orders", "airports"):
        project.written("{}", f"specs/{name}.run_spec.json")
    return project


def generated(project: Project, *options: str, output: str = "dags/all.py") -> Finished:
    return project.dpone("gitops", "airflow", "dag-factory", "--run-specs", "specs", "--output", output, *options)


def text_of(project: Project) -> str:
    return (project.root / "dags" / "all.py").read_text("ascii")


def test_the_file_is_short_names_its_run_specs_and_holds_the_literal_pre_import(project: Project) -> None:
    assert generated(project).exit_code == 0
    lines = text_of(project).splitlines()
    assert len(lines) < 60 and any(line.startswith(PRE_IMPORT) for line in lines)
    assert 'RUN_SPECS = Path(__file__).parent / "../specs"' in lines
    assert '    "airports", "orders",' in lines


def test_two_hundred_run_specs_still_make_a_short_file(project: Project) -> None:
    for number in range(200):
        project.written("{}", f"specs/process_{number:03}.run_spec.json")
    assert generated(project).exit_code == 0
    assert len(text_of(project).splitlines()) < 70
    assert max(map(len, text_of(project).splitlines())) <= 120
    ast.parse(text_of(project))


def test_equal_requests_give_equal_bytes_and_check_compares_them(project: Project) -> None:
    assert generated(project, "--schedule", "@daily").exit_code == 0
    first = text_of(project)
    assert generated(project, "--schedule", "@daily").exit_code == 0 and text_of(project) == first
    assert generated(project, "--schedule", "@daily", "--check").exit_code == 0
    stale = generated(project, "--schedule", "@hourly", "--check")
    assert stale.exit_code == 2 and "DPONE_OUTPUT_STALE" in stale.stdout
    project.written("{}", "specs/new.run_spec.json")
    assert generated(project, "--schedule", "@daily", "--check").exit_code == 2


def test_the_one_dag_is_named_as_its_file_unless_given_an_id(project: Project) -> None:
    assert generated(project, "--one-dag").exit_code == 0 and 'DAG("all",' in text_of(project)
    assert generated(project, "--one-dag", "--dag-id", "dwh.nightly").exit_code == 0
    assert 'DAG("dwh.nightly",' in text_of(project)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--dag-id", "x"), "DPONE_USAGE"),
        (("--one-dag", "--dag-per-process"), "DPONE_USAGE"),
        (("--one-dag", "--dag-id", 'x"); import os; ("'), "DPONE_RUN_SPEC_REFUSED"),
        (("--tag", "two\nlines"), "DPONE_RUN_SPEC_REFUSED"),
        (("--start-date", "yesterday"), "DPONE_USAGE"),
        (("--default-arg", "depends_on_past"), "DPONE_USAGE"),
        (("--default-arg", "email=a", "--default-arg", "email=b"), "DPONE_USAGE"),
        (("--default-arg", "retries=3"), "DPONE_RUN_SPEC_REFUSED"),
        (("--default-arg", "Bad Name=3"), "DPONE_RUN_SPEC_REFUSED"),
    ],
)
def test_what_makes_no_dag_is_refused_and_nothing_is_written(
    project: Project, options: tuple[str, ...], code: str
) -> None:
    finished = generated(project, *options)
    assert finished.exit_code == 2 and code in finished.stdout + finished.stderr
    assert not (project.root / "dags").exists()


def test_a_directory_without_run_specs_is_refused(project: Project) -> None:
    finished = project.dpone("gitops", "airflow", "dag-factory", "--run-specs", "dags", "--output", "dags/all.py")
    assert finished.exit_code == 2 and "DPONE_RUN_SPEC_NOT_FOUND" in finished.stdout


def test_quotes_in_a_tag_stay_text(project: Project) -> None:
    assert generated(project, "--tag", 'it\'s "quoted" \\').exit_code == 0
    strings = {node.value for node in ast.walk(ast.parse(text_of(project))) if isinstance(node, ast.Constant)}
    assert 'it\'s "quoted" \\' in strings


def test_owner_start_date_catchup_default_arguments_and_outlets_stand_in_the_file(project: Project) -> None:
    options = ("--owner", "dwh", "--start-date", "2025-03-09", "--catchup", "--outlets")
    arguments = (
        "--default-arg",
        "depends_on_past=true",
        "--default-arg",
        "email=a@b.example",
        "--default-arg",
        "sla=1e",
    )
    assert generated(project, *options, *arguments).exit_code == 0
    text = text_of(project)
    assert "datetime(2025, 3, 9, tzinfo=UTC)" in text and '"catchup": True' in text and "outlets=True" in text
    stated = '"depends_on_past": True, "email": "a@b.example", "owner": "dwh", "sla": "1e"'
    assert f'"default_args": {{{stated}}}' in text


def test_the_file_sets_nothing_of_the_cluster(project: Project) -> None:
    assert generated(project).exit_code == 0
    assert "platform" not in text_of(project) and "namespace" not in text_of(project)


@pytest.mark.parametrize("name", ["retries", "pool", "execution_timeout"])
def test_a_default_argument_that_the_run_spec_decides_would_have_no_effect(name: str) -> None:
    with pytest.raises(DagFileRefusedError, match="no effect"):
        DagFileRequest(directory=".", names=("orders",), default_args={name: 3})
