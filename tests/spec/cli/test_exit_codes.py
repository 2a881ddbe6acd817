"""`dpone` exits 0, 1, 2, 130 or 143 by what had happened, says so in one JSON object, and states what is true.

Contract: CLI-01, CLI-02, CLI-15, CLI-16.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpone_core.contracts.step_receipt import parse_receipt
from tests.spec.builders import Finished, Project, append_flow, flow, project_with_orders

from .launchers import with_disk_of, without

UNREACHABLE = {"DPONE_CONN_DWH": "clickhouse://loader:s3cr3t-p4ss@127.0.0.1:1/raw"}


@pytest.fixture(name="project")
def orders_to_load(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, flow())


def receipt_of(finished: Finished) -> dict[str, object]:
    assert finished.receipt is not None
    return parse_receipt(finished.receipt).wire()


REFUSED: dict[str, tuple[dict[str, object] | str | None, tuple[str, ...], dict[str, str], str]] = {
    "no such option": (None, ("--bogus",), {}, "DPONE_USAGE"),
    "an option that contradicts itself": (None, ("--retry-attempts", "-1"), {}, "DPONE_USAGE"),
    "half a pack": (None, ("--pack", "p.json"), {}, "DPONE_USAGE"),
    "not a manifest": ("kind: nonsense\n", (), {}, "DPONE_MANIFEST_UNKNOWN_VALUE"),
    "not YAML": ("a: [\n", (), {}, "DPONE_YAML_SYNTAX"),
    "an unknown process": (None, ("--selector", "nobody"), {}, "DPONE_SELECTOR_UNKNOWN"),
    "a missing connection": (None, (), {"DPONE_CONN_DWH": ""}, "DPONE_CONNECTION_UNRESOLVED"),
    "a connection that is no URI": (None, (), {"DPONE_CONN_DWH": "nonsense"}, "DPONE_CONNECTION_INVALID"),
    "an interval that ends before it starts": (
        None,
        ("--interval-start", "2026-01-02", "--interval-end", "2026-01-01"),
        {},
        "DPONE_INTERVAL_END_INVALID",
    ),
    "a date that is none": (None, ("--execution-date", "soon"), {}, "DPONE_LOGICAL_DATE_INVALID"),
    "a token without value": (
        flow(source__table=None, source__options={"query": {"sql": "SELECT * FROM orders WHERE name = {{ ds }}"}}),
        (),
        {},
        "DPONE_INTERVAL_VALUE_MISSING",
    ),
    "lookback on append": (
        append_flow(source__options={"incremental": {"cursor_column": "updated_at", "lookback": "PT1H"}}),
        (),
        {},
        "DPONE_ROUTE_REFUSED",
    ),
    "a strategy the sink has not": (
        append_flow(sink__type="files", sink__strategy={"mode": "incremental_merge", "unique_key": ["id"]}),
        (),
        {"DPONE_CONN_DWH": "file:///lake"},
        "DPONE_ROUTE_REFUSED",
    ),
    "a pack that is not there": (
        None,
        ("--pack", "p.json", "--pack-fingerprint", "sha256:" + "0" * 64),
        {},
        "DPONE_PACK_NOT_FOUND",
    ),
}


QUICK = ("no such option", "not a manifest", "a missing connection", "a token without value", "half a pack")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in REFUSED]
)
def test_what_can_be_refused_is_refused_with_exit_2_and_leaves_nothing_but_the_receipt(
    project: Project, case: str
) -> None:
    manifest, arguments, environment, code = REFUSED[case]
    if manifest is not None:
        project.written(manifest)
    before = project.files()
    finished = project.run(*arguments, environment=environment)
    assert finished.exit_code == 2, finished
    assert finished.code == code
    receipt = receipt_of(finished)
    assert (receipt["status"], receipt["exit_code"], receipt["error_code"]) == ("refused", 2, finished.code)
    assert receipt["target_state"] is None and receipt["retry_classification"] is None
    assert project.files() - before == {"receipt.json"}


def test_a_missing_extra_is_refused_with_the_line_that_installs_it(project: Project) -> None:
    before = project.files()
    finished = project.dpone("run", "m.yaml", "--format", "json", launcher=without("duckdb"))
    assert (finished.exit_code, finished.code) == (2, "DPONE_EXTRA_MISSING")
    assert finished.result["fix"] == "install it from a checkout or wheel: pip install '.[duckdb]'"
    assert project.files() == before


def test_a_driver_that_the_route_does_not_need_is_not_asked_for(project: Project) -> None:
    finished = project.dpone(
        "run", "m.yaml", "--format", "json", launcher=without("chdb", "clickhouse_connect", "airflow", "kubernetes")
    )
    assert finished.exit_code == 0


def absent_table(project: Project) -> None:
    project.written(flow(source__table={"name": "nobody_made_this"}))


def absent_file(project: Project) -> None:
    (project.root / "shop.sqlite").unlink()


def reserved_column(project: Project) -> None:
    project.source("CREATE TABLE marked (id INTEGER, __dpone__load_id TEXT)")
    project.written(flow(source__table={"name": "marked"}))


def differing_target(project: Project) -> None:
    project.warehouse("CREATE SCHEMA raw", "CREATE TABLE raw.orders (id VARCHAR, name VARCHAR, updated_at BIGINT)")
    project.written(append_flow())


def unreachable_server(project: Project) -> None:
    project.environment.update(UNREACHABLE)
    project.written(flow(sink__type="clickhouse"))


def blocking_gate(project: Project) -> None:
    project.written(flow(quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 4}]}))


def damaged_source(project: Project) -> None:
    (project.root / "shop.sqlite").write_bytes(b"this is no database at all" * 100)


def query_of_nothing(project: Project) -> None:
    project.written(flow(source__table=None, source__options={"query": {"sql": "SELECT nothing FROM orders"}}))


EXECUTED: list[tuple[Callable[[Project], None], str]] = [
    (absent_table, "source_object_not_found"),
    (absent_file, "source_unreachable"),
    (damaged_source, "source_unreachable"),
    (query_of_nothing, "source_query_refused"),
    (reserved_column, "framework_column_in_source"),
    (differing_target, "target_schema_differs"),
    (unreachable_server, "sink_unreachable"),
    (blocking_gate, "DPONE_QUALITY_GATES_FAILED"),
]


@pytest.mark.parametrize(("arrange", "code"), EXECUTED, ids=lambda value: getattr(value, "__name__", value))
def test_what_fails_while_it_runs_exits_1_and_says_what_is_true_of_the_target(
    project: Project, arrange: Callable[[Project], None], code: str
) -> None:
    arrange(project)
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 1
    assert finished.code == code
    context = finished.result["failure_context"]
    assert context == {
        "failure_boundary": "pre_commit",
        "target_state": "not_mutated",
        "checkpoint_state": "not_advanced",
        "source_state": "not_advanced",
        "retry_classification": "retry_before_target_mutation",
    }
    receipt = receipt_of(finished)
    assert {name: receipt[name] for name in context} == context
    assert (receipt["status"], receipt["error_code"], receipt["run_id"]) == ("failed", finished.code, "r1")
    published = project.root / "evidence" / str(receipt["evidence_path"])
    assert published.is_file() and published.with_name("report.md").is_file()
    assert "Traceback" not in finished.stderr + finished.stdout


def test_text_output_tells_the_same_truth_in_sentences(project: Project) -> None:
    blocking_gate(project)
    finished = project.dpone("run", "m.yaml")
    assert finished.exit_code == 1
    assert "error     DPONE_QUALITY_GATES_FAILED: quality gates failed" in finished.stdout
    assert "recovery  The target was not changed by this attempt." in finished.stdout
    assert "a retry is safe" in finished.stdout


def test_a_full_disk_is_a_coded_failure_and_the_old_target_stays(project: Project) -> None:
    assert project.run().exit_code == 0
    project.orders((number, "x" * 200, number) for number in range(60_000))
    finished = project.dpone("run", "m.yaml", "--format", "json", launcher=with_disk_of(3_000_000))
    assert (finished.exit_code, finished.code) == (1, "disk_full")
    assert finished.result["failure_context"]["target_state"] == "not_mutated"
    assert project.target("SELECT count(*) FROM raw.orders") == [(3,)]


def test_zero_rows_are_a_success_unless_a_gate_says_otherwise(project: Project) -> None:
    project.orders([])
    finished = project.run()
    assert finished.exit_code == 0 and finished.result["final_rows"] == 0
    blocking_gate(project)
    assert project.run().exit_code == 1


def test_warnings_alone_do_not_change_the_exit(project: Project) -> None:
    gate = {"type": "min_rows", "side": "target", "threshold": 4, "severity": "warning"}
    project.written(flow(quality={"gates": [gate]}))
    finished = project.run()
    assert finished.exit_code == 0
    (result,) = finished.result["details"]["reconciliation_metrics"]["quality_gates"]["results"]
    assert result["severity"] == "warning" and result["metrics"]["row_count"] == 3
    assert receipt_of(finished)["gates_warned"] == 1 and receipt_of(finished)["failed_gate"] is None


def test_a_gate_that_was_skipped_is_no_warning(project: Project) -> None:
    """A check that dpone does not know is kept under mode warn and never executed."""
    project.written(flow(quality={"mode": "warn", "checks": [{"type": "nobody_knows_it"}]}))
    finished = project.run()
    assert finished.exit_code == 0, finished.stdout
    receipt = receipt_of(finished)
    assert (receipt["gates_warned"], receipt["gates_skipped"]) == (0, 1)


def test_column_names_are_data_and_not_syntax(project: Project) -> None:
    names = ['a"b', "ключ", "select", "x y", "it's", "semi;colon", "back`tick", "ΔΣ"]
    columns = ", ".join('"{}" TEXT'.format(name.replace('"', '""')) for name in names)
    values = ", ".join(["'v'"] * len(names))
    project.source(f"CREATE TABLE odd ({columns})", f"INSERT INTO odd VALUES ({values})")
    project.written(flow(source__table={"name": "odd"}))
    assert project.run().exit_code == 0
    sql = "SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position"
    assert [row[0] for row in project.target(sql)] == names


def test_a_lock_held_by_another_process_is_named_and_nothing_is_mutated(project: Project) -> None:
    """The lock is waited for; here its holder is a reader of the same file that does not take dpone's lock."""
    import duckdb

    holder = duckdb.connect(str(project.root / "dwh.duckdb"))
    try:
        finished = project.run()
    finally:
        holder.close()
    assert (finished.exit_code, finished.code) == (1, "embedded_directory_locked")
    assert finished.result["failure_context"]["target_state"] == "not_mutated"


ABORTS_AT_THE_END = """
import atexit, os
atexit.register(os.abort)
from dpone_core.cli.main import entry_point
entry_point()
"""


@pytest.mark.parametrize(("table", "exit_code"), [("orders", 0), ("absent", 1)])
def test_nothing_that_goes_wrong_while_the_interpreter_ends_changes_the_exit(
    project: Project, table: str, exit_code: int
) -> None:
    """Threads of engines may outlive a run that was terminated, and abort the process at its very end."""
    project.written(flow(source__table={"name": table}))
    finished = project.dpone(
        *("run", "m.yaml", "--format", "json", "--receipt-path", str(project.root / "receipt.json")),
        launcher=(sys.executable, "-c", ABORTS_AT_THE_END),
    )
    assert (finished.exit_code, receipt_of(finished)["exit_code"]) == (exit_code, exit_code)
    assert finished.document["passed"] is (exit_code == 0)
