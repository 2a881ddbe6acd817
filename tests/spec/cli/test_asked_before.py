"""What success needs and can be asked before is asked before: exit 2, nothing ran, nothing was made.

Contract: CLI-29, CLI-30, CLI-31, CLI-32, EVID-28.
"""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpone_core.resources import NotRegularFileError, probe_directory, read_file_bounded
from tests.spec.builders import Project, append_flow, flow, hook, hooks, outcome_of

NESTED = "[" * 5_000


@pytest.fixture(autouse=True)
def with_manifest(project: Project) -> None:
    project.written(flow())


def refused(project: Project, code: str, **options: object) -> None:
    """The run of this process is refused with `code`, and the target does not exist."""
    before = project.files()
    execution = project.execute(**options)
    assert execution.refusal is not None and execution.refusal.code == code, execution
    assert execution.report.exit_code == 2
    assert project.files() == before


def test_an_evidence_directory_that_cannot_be_written_is_refused_before_the_load(project: Project) -> None:
    project.environment["DPONE_EVIDENCE_DIR"] = str(project.root / "shop.sqlite")
    refused(project, "DPONE_EVIDENCE_NOT_WRITABLE")


def test_hooks_ask_for_their_evidence_too(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[hook("tidy", "UPDATE orders SET name = 'x'")])))
    finished = project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--format", "json"),
        environment={"DPONE_EVIDENCE_DIR": str(project.root / "shop.sqlite")},
    )
    assert (finished.exit_code, finished.code) == (2, "DPONE_EVIDENCE_NOT_WRITABLE")


TRANSFER_STEPS = {
    "transfer plan": ("transfer", "plan", "m.yaml", "--separate-hooks", "receipts"),
    "transfer load": ("transfer", "load", "m.yaml", "--partition", "0", "--transfer-plan", "sha256:" + "0" * 64),
}
STEPS = {
    **TRANSFER_STEPS,
    "hooks execute": ("hooks", "execute", "m.yaml", "--phase", "pre_hook"),
    "gitops verify": ("gitops", "verify", "m.yaml", "--pack", "p.json", "--pack-fingerprint", "sha256:" + "0" * 64),
}
OPERATIONS = {
    "state set": ("state", "set", "m.yaml", "--value", "2", "--reason", "looked"),
    "transfer reconcile": (
        *("transfer", "reconcile", "m.yaml", "--run-id", "half", "--found", "published", "--reason", "looked"),
    ),
}


def fan_out_without_a_server(project: Project) -> None:
    """A transfer in processes of their own whose server does not answer: opening it is exit 1."""
    for side in ("SHOP", "DWH"):
        project.environment[f"DPONE_CONN_{side}"] = "postgresql://u:p@127.0.0.1:1/db"
    split = {"column": "id", "num_partitions": 2, "airflow": "mapped"}
    source = {"type": "postgres", "connection_ref": "shop", "table": {"schema": "public", "name": "t"}}
    project.written(flow(source={**source, "options": {"partitioning": split}}, sink__type="postgres"))


@pytest.mark.parametrize("step", TRANSFER_STEPS)
def test_the_processes_of_a_transfer_ask_before_they_open_a_source(project: Project, step: str) -> None:
    fan_out_without_a_server(project)
    asked = project.dpone(
        *TRANSFER_STEPS[step], "--format", "json", environment={"DPONE_EVIDENCE_DIR": str(project.root / "shop.sqlite")}
    )
    assert (asked.exit_code, asked.code) == (2, "DPONE_EVIDENCE_NOT_WRITABLE")
    opened = project.dpone(*TRANSFER_STEPS[step], "--format", "json")
    assert opened.exit_code == 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operator_s_change_asks_for_its_record_before_anything_is_opened(project: Project, operation: str) -> None:
    project.written(append_flow())
    before = project.files()
    finished = project.dpone(
        *OPERATIONS[operation], "--format", "json", environment={"DPONE_EVIDENCE_DIR": str(project.root / "m.yaml")}
    )
    assert (finished.exit_code, finished.code) == (2, "DPONE_EVIDENCE_NOT_WRITABLE")
    assert project.files() == before


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("path", ["/dev/null/x/receipt.json", "{root}"])
def test_every_step_asks_for_its_receipt_path(project: Project, step: str, path: str) -> None:
    before = project.files()
    finished = project.dpone(*STEPS[step], "--format", "json", "--receipt-path", path.format(root=project.root))
    assert (finished.exit_code, finished.code) == (2, "DPONE_RECEIPT_PATH_INVALID")
    assert project.files() == before


def test_processes_that_try_one_directory_at_a_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Mapped tasks start together, over one volume and often under one process id, each in a container of its own."""
    root = tmp_path / "evidence"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(probe_directory, [root / "runs" / "orders" / "r1"] * 400))
    assert not [path for path in root.rglob("*") if path.is_file()]


def test_the_directory_that_was_tried_is_left_as_it_was(tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    probe_directory(tmp_path / "a" / "b")
    probe_directory(tmp_path)
    assert set(tmp_path.rglob("*")) == before
    with pytest.raises(OSError):
        probe_directory(Path("/dev/null/x"))


@pytest.mark.parametrize("path", ["/dev/null/x/receipt.json", "{root}", "{root}/pipe"])
def test_a_receipt_path_that_takes_no_receipt_is_refused(project: Project, path: str) -> None:
    os.mkfifo(project.root / "pipe")
    finished = project.dpone("run", "m.yaml", "--format", "json", "--receipt-path", path.format(root=project.root))
    assert (finished.exit_code, finished.code) == (2, "DPONE_RECEIPT_PATH_INVALID")
    assert not (project.root / "dwh.duckdb").exists()
    assert stat.S_ISFIFO((project.root / "pipe").stat().st_mode)


def test_evidence_is_for_its_owner_and_group_whatever_the_umask_allows(project: Project) -> None:
    before = os.umask(0)
    try:
        assert outcome_of(project.execute()).passed
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (project.root / "evidence").rglob("*") if path.is_file()}
    assert modes == {0o640}


@pytest.mark.parametrize("special", ["m.yaml", "query.sql", "connections.yaml", "pack.json", "platform.yaml"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(project: Project, special: str) -> None:
    """Each in a process of its own, which would otherwise wait for ever."""
    arguments: tuple[str, ...] = ("run", "m.yaml", "--format", "json")
    if special == "query.sql":
        project.written(flow(source__table=None, source__options={"query": {"sql_file": special}}))
    elif special == "connections.yaml":
        del project.environment["DPONE_CONN_SHOP"]
    elif special == "pack.json":
        arguments = (*arguments, "--pack", special, "--pack-fingerprint", "sha256:" + "0" * 64)
    elif special == "platform.yaml":
        arguments = ("gitops", "airflow", "run-spec", "m.yaml", "--platform", special)
    (project.root / special).unlink(missing_ok=True)
    os.mkfifo(project.root / special)
    finished = project.dpone(*arguments)
    assert finished.exit_code == 2, finished
    with pytest.raises(NotRegularFileError):
        read_file_bounded(project.root / special, 10)


def test_a_manifest_that_is_a_loop_of_links_is_refused(project: Project) -> None:
    for name in ("loop.yaml", "directory"):
        (project.root / name).symlink_to(project.root / name)
    for path in ("loop.yaml", "directory/m.yaml"):
        refused(project, "DPONE_MANIFEST_INVALID", manifest=path)


@pytest.mark.parametrize("text", [NESTED, '{"a":' * 5_000])
def test_receipts_that_are_nested_without_end_are_refused(project: Project, text: str) -> None:
    project.environment["DPONE_STEP_RECEIPTS"] = text
    pre = hook("tidy", "UPDATE orders SET name = name", execution={"airflow": "separate_task"})
    project.written(flow(source__options=hooks(pre=[pre])))
    refused(project, "DPONE_RECEIPT_INVALID", separate_hooks="receipts")


@pytest.mark.parametrize(
    ("variable", "uri"),
    [
        ("DPONE_CONN_SHOP", "sqlite:///shop.sqlite?mode=ro"),
        ("DPONE_CONN_DWH", "duckdb:///dwh.duckdb?threads=1"),
        ("DPONE_CONN_PG", "postgresql://u:p@127.0.0.1:1/db?no_such_parameter=1"),
        ("DPONE_CONN_CH", "clickhouse://u:p@127.0.0.1:1/db?no_such_parameter=1"),
        ("DPONE_CONN_MY", "mysql://u:p@127.0.0.1:1/db?no_such_parameter=1"),
    ],
)
def test_a_parameter_that_a_uri_cannot_have_is_refused(project: Project, variable: str, uri: str) -> None:
    project.environment[variable] = uri
    side = {"DPONE_CONN_PG": "postgres", "DPONE_CONN_CH": "clickhouse", "DPONE_CONN_MY": "mysql"}.get(variable)
    if side is not None:
        project.written(flow(source={"type": side, "connection_ref": variable[-2:].lower(), "table": {"name": "t"}}))
    refused(project, "connection_uri_invalid")


def test_the_database_that_is_not_there_is_named(project: Project) -> None:
    (project.root / "shop.sqlite").unlink()
    outcome = outcome_of(project.execute())
    assert outcome.failure is not None and outcome.failure.code == "source_unreachable"
    assert "'shop.sqlite'" in outcome.failure.message and str(project.root) not in outcome.failure.message


def test_a_control_table_without_a_column_is_named_with_those_it_must_have(project: Project) -> None:
    project.written(append_flow())
    assert outcome_of(project.execute("one")).passed
    project.warehouse("ALTER TABLE etl_state.__dpone__commit_intents DROP COLUMN target_mark")
    outcome = outcome_of(project.execute("two"))
    assert outcome.failure is not None and outcome.failure.code == "control_table_unreadable"
    assert "'etl_state.__dpone__commit_intents'" in outcome.failure.message
    assert "target_mark" in outcome.failure.message
