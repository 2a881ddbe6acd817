"""`dpone` loads files without a server and without an engine, and says the truth about a path that has no staging.

Contract: ACC-15, FAIL-06, LIFE-07.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dpone_core.connectors.files.sink.target_directory import TargetDirectory
from dpone_core.model.load_config import TableName
from tests.spec.builders import Project, append_flow, code_of, flow, outcome_of

ACCEPTANCE = {"enabled": True, "mode": "required", "capture": {"staged": False}}


def lake(root: Path) -> Project:
    project = Project(root, environment={"DPONE_CONN_DWH": f"file:///{root / 'lake'}"})
    project.orders()
    return project


def files_flow(file_format: str, **changes: object) -> dict[str, object]:
    return flow(**{"sink__type": "files", "sink__options": {"files": {"format": file_format}}, **changes})


def parts(project: Project) -> list[Path]:
    return sorted((project.root / "lake/raw/orders").glob("part-*"))


@pytest.mark.parametrize("file_format", ["parquet", "csv", "ndjson"])
def test_a_full_refresh_replaces_every_row(tmp_path: Path, file_format: str) -> None:
    project = lake(tmp_path)
    gates = [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}]
    project.written(files_flow(file_format, quality={"gates": gates, "acceptance": ACCEPTANCE}))
    assert outcome_of(project.execute("run-1")).passed
    project.orders([(7, None, 70)])
    outcome = outcome_of(project.execute("run-2"))
    assert outcome.passed
    assert (outcome.result.extracted_rows, outcome.result.inserted_rows, outcome.result.final_rows) == (1, 1, 1)
    assert len(parts(project)) == 1


def test_an_append_reads_only_what_is_new_and_keeps_its_cursor_in_the_directory(tmp_path: Path) -> None:
    project = lake(tmp_path)
    project.written(append_flow(sink__type="files"))
    assert outcome_of(project.execute("run-1")).result.inserted_rows == 2
    project.add_orders((4, "d", 40))
    outcome = outcome_of(project.execute("run-2"))
    assert (outcome.result.inserted_rows, outcome.result.final_rows) == (1, 3)
    rows = sorted(row["id"] for part in parts(project) for row in pq.read_table(part).to_pylist())
    assert rows == [1, 2, 3]
    assert (tmp_path / "lake/etl_state/__dpone__cursor_state.jsonl").is_file()
    statuses = (tmp_path / "lake/etl_state/__dpone__loads.jsonl").read_text().count('"status":"committed"')
    assert statuses == 2


def test_a_sampled_hash_needs_the_key_and_passes_with_it(tmp_path: Path) -> None:
    project = lake(tmp_path)
    gate = {"type": "typed_hash_reconciliation", "mode": "sample"}
    strategy = {"mode": "full_refresh", "unique_key": ["id"]}
    project.written(files_flow("parquet", quality={"gates": [gate]}, sink__strategy=strategy))
    assert outcome_of(project.execute()).passed


def test_lineage_columns_stand_in_the_files(tmp_path: Path) -> None:
    project = lake(tmp_path)
    options = {"lineage": {"enabled": True, "preset": "standard"}}
    strategy = {"mode": "full_refresh", "unique_key": ["id"]}
    project.written(files_flow("parquet", sink__strategy=strategy, sink__options=options))
    outcome = outcome_of(project.execute())
    (part,) = parts(project)
    rows = pq.read_table(part).to_pylist()
    assert {row["__dpone__load_id"] for row in rows} == {outcome.identity.load_id}
    assert len({row["__dpone__row_id"] for row in rows}) == 3
    assert outcome.identity.load_id not in (part.parent / "_dpone_target.json").read_text()


def test_a_blocking_gate_says_post_commit_with_real_counters_in_json(tmp_path: Path) -> None:
    project = lake(tmp_path)
    gate = {"type": "min_rows", "side": "target", "threshold": 4}
    project.written(files_flow("csv", quality={"gates": [gate]}))
    finished = project.run()
    assert finished.exit_code == 1 and finished.code == "DPONE_QUALITY_GATES_FAILED"
    result = finished.result
    assert (result["extracted_rows"], result["inserted_rows"], result["final_rows"]) == (3, 3, 3)
    assert finished.document["attempts"] == 1
    assert result["failure_context"] == {
        "failure_boundary": "post_commit",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "not_applicable",
        "source_state": "not_advanced",
        "retry_classification": "retry_may_repeat_target_mutation",
    }
    metrics = result["details"]["reconciliation_metrics"]
    assert metrics["governance_finalization"] == "legacy_post_finalize"
    assert finished.receipt is not None and finished.receipt["staged_rows"] is None
    assert len(parts(project)) == 1


def test_a_gate_failure_does_not_repeat_itself_under_a_retry_policy(tmp_path: Path) -> None:
    project = lake(tmp_path)
    gate = {"type": "min_rows", "side": "target", "threshold": 4}
    project.written(append_flow(sink__type="files", quality={"gates": [gate]}))
    outcome = outcome_of(project.execute())
    assert outcome.retry is not None and not outcome.retry.allows_automatic_retry
    assert len(parts(project)) == 1


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_required_staged_acceptance_is_refused_by_every_verb(tmp_path: Path, command: str) -> None:
    project = lake(tmp_path)
    project.written(files_flow("csv", quality={"acceptance": {"enabled": True, "mode": "required"}}))
    finished = project.dpone(command, "m.yaml", "--format", "json")
    assert finished.exit_code == 2
    assert "staged_acceptance_metric_unavailable" in finished.stdout + finished.stderr
    assert not (tmp_path / "lake").exists()


def test_the_plan_shows_a_path_without_staging(tmp_path: Path) -> None:
    project = lake(tmp_path)
    project.written(files_flow("ndjson"))
    finished = project.dpone("plan", "m.yaml", "--format", "json")
    plan = json.loads(finished.stdout)
    plan = plan["plans"][0] if "plans" in plan else plan
    assert plan["route"]["load_path"] == "legacy"
    assert plan["route"]["finalization_phase"] == "legacy_post_finalize"
    assert plan["route"]["physical_sides"] == ["source", "target"]
    (target,) = plan["targets"]
    assert (target["staging"], target["file_format"]) == (None, "ndjson")
    assert "old and new rows together" in target["finaliser"]["atomic_for"]
    assert "at least once" in plan["delivery"]["semantics"]


def test_a_gate_that_hashes_is_refused_without_the_hashing_engine(tmp_path: Path) -> None:
    project = lake(tmp_path)
    blocker = "import sys; sys.modules['duckdb'] = None; sys.argv[0] = 'dpone'; from dpone_core.cli.main import main; "
    project.written(files_flow("csv", quality={"gates": [{"type": "typed_hash_reconciliation"}]}))
    launcher = (sys.executable, "-c", blocker + "sys.exit(main(sys.argv[1:]))")
    finished = project.dpone("run", "m.yaml", "--format", "json", launcher=launcher)
    assert finished.exit_code == 2
    assert "DPONE_EXTRA_MISSING" in finished.stdout + finished.stderr
    assert not (tmp_path / "lake").exists()


def test_decimals_of_another_engine_arrive_exactly(tmp_path: Path) -> None:
    project = lake(tmp_path)
    project.source(
        "CREATE TABLE prices (id INTEGER NOT NULL, amount DECIMAL(18,4))", "INSERT INTO prices VALUES (1, '0.1000')"
    )
    project.written(files_flow("csv", source__table={"name": "prices"}))
    outcome = outcome_of(project.execute())
    assert outcome.passed
    assert code_of(project.execute("run-2")) is None
    (part,) = parts(project)
    assert Decimal(part.read_text().splitlines()[1].split(",")[1].strip('"')) == Decimal("0.1")


def test_cleanup_removes_what_a_dead_load_never_published_and_no_data(tmp_path: Path) -> None:
    project = lake(tmp_path)
    project.written(files_flow("csv"))
    outcome = outcome_of(project.execute("run-1"))
    table = TableName(schema="raw", name="orders")
    hidden = TargetDirectory(base=tmp_path / "lake", table=table).unpublished_directory(outcome.identity)
    hidden.mkdir()
    before = parts(project)
    finished = project.dpone("cleanup", "m.yaml", "--run-id", "run-1", "--format", "json")
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert finished.document["removed"] == [hidden.name[1:]]
    assert not hidden.exists() and parts(project) == before


def test_a_leftover_is_reported_by_the_next_load(tmp_path: Path) -> None:
    project = lake(tmp_path)
    project.written(files_flow("csv"))
    outcome = outcome_of(project.execute("run-1"))
    table = TableName(schema="raw", name="orders")
    TargetDirectory(base=tmp_path / "lake", table=table).unpublished_directory(outcome.identity).mkdir()
    warnings = outcome_of(project.execute("run-2")).warnings
    assert any(warning.startswith("leftovers of an earlier load: raw.__dpone__stg_orders_") for warning in warnings)
