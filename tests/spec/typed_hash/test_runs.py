"""A typed hash gate compares the rows that were read with the rows that are there, on every sink, before a commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.loading.typed_rows import SideHashes
from dpone_core.model.vocabulary import GateType, HashMode, TargetState
from dpone_core.ports.sink import StagedHandle
from dpone_core.quality.gates import QualityGate
from dpone_core.quality.policy import QualityGatePolicy
from dpone_core.testing.builders import ORDERS, arrow_schema, orders
from dpone_core.testing.fakes import MemoryStaging
from tests.spec.builders import Project, append_flow, flow, outcome_of
from tests.spec.lifecycle.harness import Attempt

FULL = {"type": "typed_hash_reconciliation", "id": "full"}
SAMPLE = {"type": "typed_hash_reconciliation", "id": "sample", "mode": "sample"}
KEYED = {"mode": "full_refresh", "unique_key": ["id"]}


def results(document: Any) -> dict[str, dict[str, Any]]:
    return {result["gate_id"]: result for result in document["results"]}


@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
def test_full_and_sample_pass_when_every_value_arrived(tmp_path: Path, sink: str) -> None:
    uri = f"chdb:///{tmp_path / 'dwh'}" if sink == "clickhouse" else f"duckdb:///{tmp_path / 'dwh.duckdb'}"
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": uri})
    project.orders([(i, None if i % 2 else f"n{i}", i) for i in range(500)])
    project.written(flow(sink__type=sink, sink__strategy=KEYED, quality={"gates": [FULL, SAMPLE]}))
    finished = project.run()
    assert finished.exit_code == 0
    judged = results(finished.result["details"]["reconciliation_metrics"]["quality_gates"])
    assert {gate["status"] for gate in judged.values()} == {"passed"}
    full, sample = judged["full"]["metrics"], judged["sample"]["metrics"]
    assert full["source_hash"] == full["target_hash"] != sample["source_hash"] == sample["target_hash"]
    assert (full["mode"], sample["mode"]) == ("full", "sample")


def test_wider_target_columns_do_not_change_the_hash(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.warehouse(
        "CREATE SCHEMA raw",
        "CREATE TABLE raw.orders (id BIGINT NOT NULL, name VARCHAR, updated_at BIGINT, note VARCHAR)",
    )
    project.written(append_flow(quality={"gates": [FULL]}))
    assert outcome_of(project.execute()).passed


class ChangesACell(MemoryStaging):
    def stage(self, request: Any, batches: Any) -> StagedHandle:
        handle = super().stage(request, batches)
        self._warehouse.tables[handle.table].rows[0]["name"] = "changed"
        return handle


def attempt_with(directory: Path, gate: dict[str, object], staging: type[MemoryStaging] = MemoryStaging) -> Attempt:
    attempt = Attempt(manifest=flow(quality={"gates": [gate]}), directory=directory)
    attempt.sink = replace(attempt.warehouse.ports(), staged=staging(attempt.warehouse))
    return attempt


def test_one_changed_cell_in_staging_keeps_the_target_untouched(tmp_path: Path) -> None:
    attempt = attempt_with(tmp_path, FULL, ChangesACell)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"
    assert outcome.target_state is TargetState.NOT_MUTATED and attempt.target_ids() is None
    assert attempt.staging() == []


def test_a_warning_gate_reports_the_difference_and_loads(tmp_path: Path) -> None:
    outcome = attempt_with(tmp_path, {**FULL, "severity": "warning"}, ChangesACell).ran().outcome
    assert outcome.failure is None and outcome.quality_gates is not None
    assert results(outcome.quality_gates)["full"]["status"] == "warning"


@pytest.mark.parametrize(("severity", "passes"), [("error", False), ("warning", True)])
def test_a_missing_hash_is_never_a_passed_gate(tmp_path: Path, severity: str, passes: bool) -> None:
    attempt = attempt_with(tmp_path, {**FULL, "severity": severity})
    attempt.fails("sink.read_back", ConnectorError("no", code="staged_rows_unreadable"))
    outcome = attempt.ran().outcome
    assert outcome.passed is passes and "typed_hash_unavailable" in outcome.warnings
    assert outcome.quality_gates is not None
    gate = results(outcome.quality_gates)["full"]
    assert gate["status"] == ("warning" if passes else "failed")


def test_a_sink_that_cannot_give_rows_back_passes_no_hash_gate(tmp_path: Path) -> None:
    attempt = attempt_with(tmp_path, FULL)
    assert attempt.sink is not None
    attempt.sink = replace(attempt.sink, staged_rows=None)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"


def test_without_a_hash_gate_nothing_is_read_back(tmp_path: Path) -> None:
    attempt = attempt_with(tmp_path, {"type": "row_count_reconciliation"})
    assert attempt.ran().outcome.passed
    assert "sink.read_back" not in attempt.lines


def test_the_rows_are_read_back_before_the_commit(tmp_path: Path) -> None:
    attempt = attempt_with(tmp_path, FULL)
    assert attempt.ran().outcome.passed
    assert attempt.lines.index("sink.stage") < attempt.lines.index("sink.read_back")
    assert attempt.lines.index("sink.read_back") < attempt.lines.index("sink.finalize")


def test_a_sample_without_key_has_no_hash(tmp_path: Path) -> None:
    """`check` refuses it; a caller of Python who bypasses the manifest gets no hash, and so no passed gate."""
    policy = QualityGatePolicy(
        gates=(QualityGate(id="s", type=GateType.TYPED_HASH_RECONCILIATION, hash_mode=HashMode.SAMPLE),)
    )
    hashes = SideHashes.of(policy, arrow_schema(ORDERS), ())
    assert hashes is not None
    hashes.update(orders(1, 2))
    assert hashes.snapshot(2).sample_hash is None
