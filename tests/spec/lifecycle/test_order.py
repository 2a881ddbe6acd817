"""A staged load happens in fifteen published steps, in that order and no other; what fails keeps later steps away.

Contract: FAIL-07, FAIL-08, FAIL-14, LIFE-01, LIFE-02, LIFE-03.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.model.vocabulary import Boundary, RetryClassification, SourceState, TargetState
from tests.spec.builders import append_flow, flow, hook, hooks

from .harness import Attempt

PRE = hook("refresh", "INSERT INTO log VALUES (1)")
POST = hook("tidy", "DELETE FROM log")
REQUIRED = {"enabled": True, "mode": "required", "checks": {"row_count": True, "null_counts": "all_columns"}}
GATE = {"type": "row_count_reconciliation"}


def whole_load(directory: Path, **changes: object) -> Attempt:
    """Every step of LIFE-01: hooks on both sides, gate, acceptance on three sides, cursor state."""
    options = {**hooks(pre=[PRE], post=[POST]), "incremental": {"cursor_column": "id"}}
    manifest = append_flow(
        **{
            "source__options": options,
            "quality": {"gates": [GATE], "acceptance": REQUIRED},
            "sink__options": {"load_governance": {"decision_audit": {"persist": False}}},
            **changes,
        }
    )
    return Attempt(manifest=manifest, directory=directory)


WHOLE = [
    "lease taken",
    "load started",  # 3 identity and audit record
    "sink.leftovers",
    "step refresh running",  # 4 pre_hook
    "statements.execute",
    "step refresh succeeded",
    "source.describe",  # 5 extract
    "source.cursor_maximum",
    "sink.describe_target",
    "step source_described succeeded",
    "source.open_stream",
    "sink.preflight",
    "sink.stage",  # 6 stage
    "step staged succeeded",
    "load staged",
    "step source_exported succeeded",
    "sink.project_lineage",  # 7 lineage
    "step lineage_projected succeeded",
    "step quality_checked succeeded",  # 8 gates
    "metrics.source",  # 9 requested source and staged metrics
    "step source_metrics_captured succeeded",
    "metrics.staged",
    "step staged_metrics_captured succeeded",
    "lease renewed",
    "intent armed",
    "sink.finalize",  # 10 the target commit boundary
    "metrics.target",  # 11 target metrics, then finalized evidence
    "step target_metrics_captured succeeded",
    "step finalized succeeded",
    "sink.cleanup",  # 12 cleanup
    "step cleanup succeeded",
    "load committed",  # 13 metrics returned, then state
    "file load.json",
    "state advanced",
    "step tidy running",  # 14 post_hook
    "statements.execute",
    "step tidy succeeded",
    "lease released",  # 15 complete
]


def test_the_whole_load_is_the_journal_of_the_specification(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path)
    outcome = attempt.ran().outcome
    assert outcome.failure is None
    assert attempt.lines == WHOLE
    assert outcome.source_state is SourceState.ADVANCED


def test_a_failing_pre_hook_reads_no_source_row_and_stages_nothing(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("statements.execute")
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "hook_failed"
    assert not [line for line in attempt.lines if line.startswith(("source.", "sink.stage", "sink.finalize"))]
    assert attempt.target_ids() is None and attempt.state() == []
    assert outcome.target_state is TargetState.NOT_MUTATED


@pytest.mark.parametrize("broken", WHOLE[: WHOLE.index("sink.finalize")])
def test_whatever_fails_before_the_commit_leaves_the_target_and_the_state_alone(tmp_path: Path, broken: str) -> None:
    attempt = whole_load(tmp_path).fails(broken)
    outcome = attempt.ran().outcome
    assert not outcome.passed
    assert "sink.finalize" not in attempt.lines and "state advanced" not in attempt.lines
    assert attempt.target_ids() is None
    assert attempt.staging() == []
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert outcome.source_state is SourceState.NOT_ADVANCED


@pytest.mark.parametrize("broken", WHOLE[WHOLE.index("metrics.target") : WHOLE.index("state advanced")])
def test_whatever_fails_after_the_commit_keeps_the_target_and_holds_the_state_back(tmp_path: Path, broken: str) -> None:
    attempt = whole_load(tmp_path).fails(broken)
    outcome = attempt.ran().outcome
    assert not outcome.passed and outcome.failure is not None and outcome.failure.exit_code == 1
    assert attempt.target_ids() == [1, 2, 3]
    assert attempt.state() == [] and "statements.execute" not in attempt.lines[WHOLE.index("sink.finalize") :]
    assert (outcome.boundary, outcome.target_state) == (Boundary.POST_COMMIT, TargetState.MUTATION_RETURNED_SUCCESS)
    assert outcome.source_state is SourceState.NOT_ADVANCED
    assert outcome.retry is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ("metrics.source", "source_acceptance_metric_probe_failed"),
        ("step source_metrics_captured succeeded", "source_acceptance_metric_evidence_failed"),
        ("metrics.staged", "staged_acceptance_metric_probe_failed"),
        ("step staged_metrics_captured succeeded", "staged_acceptance_metric_evidence_failed"),
        ("metrics.target", "target_acceptance_metric_probe_failed"),
        ("step target_metrics_captured succeeded", "target_acceptance_metric_evidence_failed"),
        ("step finalized succeeded", "finalized_evidence_failed"),
        ("sink.cleanup", "staged_cleanup_failed"),
        ("step staged succeeded", "load_evidence_failed"),
        ("load committed", "load_evidence_failed"),
        ("file load.json", "injected"),
        ("state advanced", "injected"),
    ],
)
def test_every_failure_has_its_own_code_in_report_and_audit(tmp_path: Path, broken: str, code: str) -> None:
    attempt = whole_load(tmp_path).fails(broken)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == code
    assert attempt.step("load_governance_failed")["details"]["error_code"] == code
    assert attempt.load_row()["error_message"] == code


def test_a_blocking_gate_cleans_staging_and_touches_neither_target_nor_state(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path, quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 4}]})
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"
    assert attempt.target_ids() is None and attempt.staging() == [] and attempt.state() == []
    assert attempt.lines[-4:] == ["sink.cleanup", "step load_governance_failed failed", "load failed", "lease released"]
    assert outcome.gate_counts.failed == 1
    assert outcome.result.extracted_rows == outcome.result.staged_rows == 3
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION


def test_a_warning_gate_does_not_block(tmp_path: Path) -> None:
    gate = {"type": "min_rows", "side": "target", "threshold": 4, "severity": "warning"}
    outcome = whole_load(tmp_path, quality={"gates": [gate]}).ran().outcome
    assert outcome.passed and outcome.gate_counts.warned == 1


def test_without_a_cursor_no_state_is_claimed(tmp_path: Path) -> None:
    attempt = Attempt(manifest=flow(), directory=tmp_path)
    assert attempt.ran().outcome.source_state is SourceState.NOT_APPLICABLE
    assert "state advanced" not in attempt.lines


def test_audit_off_stops_audit_rows_and_never_gates(tmp_path: Path) -> None:
    quiet = flow(
        sink__options={"load_governance": {"audit": {"enabled": False}}},
        quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 4}]},
    )
    attempt = Attempt(manifest=quiet, directory=tmp_path)
    assert not attempt.ran().outcome.passed
    assert not [line for line in attempt.lines if line.startswith(("step ", "load "))]


def test_planned_decisions_stand_in_the_audit_before_anything_else_is_done(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path, sink__options={})
    assert attempt.ran().outcome.passed
    decided = attempt.lines[2:6]
    assert decided == [
        "step load_governance.finalization succeeded",
        "step source.scan_mode succeeded",
        "step sink.ingest succeeded",
        "step lineage.columns succeeded",
    ]
    assert attempt.step("sink.ingest")["kind"] == "runtime_decision"
