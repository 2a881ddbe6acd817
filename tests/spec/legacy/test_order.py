"""A legacy load happens in one published order (LIFE-49); whatever fails after `sink.load` is post-commit.

Contract: FAIL-05, FAIL-09, GATE-17, LIFE-05, SNAP-07, SNAP-08.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.errors import ConnectorError, RunTerminated
from dpone_core.evidence.audit import StepOutcome
from dpone_core.model.vocabulary import (
    Boundary,
    CheckpointState,
    FinalizationPhase,
    RetryClassification,
    SourceState,
    TargetState,
)
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.sink import LegacyLoadResult
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.testing.fakes import MemoryWarehouse
from dpone_core.testing.legacy_fakes import MemoryLegacy, legacy_ports
from dpone_core.use_cases.plan import SideUnavailableError
from dpone_core.wiring.runtime import NoCancellation
from tests.spec.builders import append_flow, hook, hooks
from tests.spec.lifecycle.harness import ActingJournal, Attempt

REQUIRED = {
    "enabled": True,
    "mode": "required",
    "capture": {"staged": False},
    "checks": {"row_count": True, "null_counts": "all_columns"},
}
GATE = {"type": "row_count_reconciliation"}
TOO_MANY = {"type": "min_rows", "side": "target", "threshold": 4}


def legacy_load(directory: Path, **changes: object) -> Attempt:
    """Every step: hooks on both sides of the source, gate, acceptance on both sides, cursor state."""
    pre, post = hook("refresh", "INSERT INTO log VALUES (1)"), hook("tidy", "DELETE FROM log")
    manifest = append_flow(
        **{
            "sink__type": "files",
            "source__options": {**hooks(pre=[pre], post=[post]), "incremental": {"cursor_column": "id"}},
            "quality": {"gates": [GATE], "acceptance": REQUIRED},
            "sink__options": {"load_governance": {"decision_audit": {"persist": False}}},
            **changes,
        }
    )
    return with_legacy_sink(Attempt(manifest=manifest, directory=directory))


def with_legacy_sink(attempt: Attempt, legacy: MemoryLegacy | None = None) -> Attempt:
    ports = legacy_ports(attempt.warehouse)
    attempt.sink = ports if legacy is None else replace(ports, legacy=legacy)
    return attempt


WHOLE = [
    "lease taken",
    "load started",
    "sink.leftovers",
    "step refresh running",
    "statements.execute",
    "step refresh succeeded",
    "source.describe",
    "source.cursor_maximum",
    "sink.describe_target",
    "step source_described succeeded",
    "source.open_stream",
    "sink.preflight",
    "metrics.source",  # sides and probes are valid; source metrics before the target changes
    "step source_metrics_captured succeeded",
    "sink.load",
    "step source_exported succeeded",
    "lease renewed",
    "intent armed",
    "sink.publish",
    "sink.published",  # the target commit boundary
    "step quality_checked succeeded",  # gates, once, on the rows of this load
    "metrics.target",
    "step target_metrics_captured succeeded",
    "step finalized succeeded",
    "load committed",
    "file load.json",
    "state advanced",
    "step tidy running",
    "statements.execute",
    "step tidy succeeded",
    "lease released",
]


def test_the_whole_load_is_the_journal_of_the_specification(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path)
    outcome = attempt.ran().outcome
    assert outcome.failure is None
    assert attempt.lines == WHOLE
    assert outcome.source_state is SourceState.ADVANCED
    result = outcome.result
    assert result.governance_finalization is FinalizationPhase.LEGACY_POST_FINALIZE
    assert (result.extracted_rows, result.inserted_rows, result.final_rows, result.staged_rows) == (3, 3, 3, None)


def test_the_snapshots_are_of_source_and_target_and_never_of_staging(tmp_path: Path) -> None:
    metrics = legacy_load(tmp_path).ran().outcome.result.acceptance_metrics
    assert metrics is not None
    assert [snapshot.side.value for snapshot in metrics.snapshots] == ["source", "target"]


@pytest.mark.parametrize("broken", WHOLE[: WHOLE.index("sink.published")])
def test_whatever_fails_before_rows_are_visible_leaves_target_and_state_alone(tmp_path: Path, broken: str) -> None:
    attempt = legacy_load(tmp_path).fails(broken)
    outcome = attempt.ran().outcome
    assert not outcome.passed
    assert attempt.target_ids() is None and attempt.state() == []
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    if WHOLE.index(broken) >= WHOLE.index("source.describe"):  # before it a hook without proof of success decides
        assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION


@pytest.mark.parametrize("broken", WHOLE[WHOLE.index("step quality_checked succeeded") : WHOLE.index("state advanced")])
def test_whatever_fails_after_the_load_is_post_commit_and_rolls_nothing_back(tmp_path: Path, broken: str) -> None:
    attempt = legacy_load(tmp_path).fails(broken)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.exit_code == 1
    assert attempt.target_ids() == [1, 2, 3] and "sink.discard" not in attempt.lines
    assert attempt.state() == [] and outcome.source_state is SourceState.NOT_ADVANCED
    assert (outcome.boundary, outcome.target_state) == (Boundary.POST_COMMIT, TargetState.MUTATION_RETURNED_SUCCESS)
    assert outcome.retry is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
    assert outcome.result.inserted_rows == 3


def test_a_blocking_gate_reports_what_the_load_really_did(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path, quality={"gates": [TOO_MANY], "acceptance": REQUIRED})
    ended = attempt.ran()
    assert isinstance(ended.error, QualityGateFailure) and ended.error.outcome is not None
    said = ended.error.outcome
    assert said.failure_boundary is Boundary.POST_COMMIT
    assert said.target_state is TargetState.MUTATION_RETURNED_SUCCESS
    assert said.checkpoint_state is CheckpointState.NOT_APPLICABLE
    assert said.source_state is SourceState.NOT_ADVANCED
    assert said.retry_classification is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
    assert (said.extracted_rows, said.inserted_rows, said.updated_rows, said.final_rows) == (3, 3, 0, 3)
    assert said.attempts >= 1
    assert attempt.target_ids() == [1, 2, 3] and attempt.state() == []
    assert attempt.lines.count("step quality_checked failed") == 1
    assert "metrics.target" not in attempt.lines


def test_a_lost_answer_is_an_unknown_outcome(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path).fails("sink.published")
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "target_outcome_unknown"
    assert (outcome.boundary, outcome.target_state) == (Boundary.POST_COMMIT, TargetState.UNKNOWN)
    assert outcome.checkpoint_state is CheckpointState.UNKNOWN
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED


def test_a_sink_that_cannot_say_what_is_visible_leaves_the_target_unknown(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path).fails("sink.load").fails("sink.has_rows")
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "injected"
    assert outcome.target_state is TargetState.UNKNOWN


@pytest.mark.parametrize(
    ("broken", "code", "state", "extracted"),
    [
        (("sink.load",), "injected", TargetState.NOT_MUTATED, 0),
        (("sink.publish",), "injected", TargetState.NOT_MUTATED, 3),
        (("sink.published",), "target_outcome_unknown", TargetState.UNKNOWN, 3),
        (("sink.load", "sink.has_rows"), "injected", TargetState.UNKNOWN, 0),
    ],
)
def test_a_failed_write_is_a_step_that_says_what_is_known_and_no_more(
    tmp_path: Path, broken: tuple[str, ...], code: str, state: TargetState, extracted: int
) -> None:
    attempt = legacy_load(tmp_path)
    for line in broken:
        attempt.fails(line)
    outcome = attempt.ran().outcome
    (step,) = [step for step in outcome.steps if step.step_id == "finalized"]
    assert (step.status, step.error_code) == (StepOutcome.FAILED, code)
    assert step.details == {"extracted_rows": extracted, "target_state": state.value}
    assert outcome.target_state is state and step.finished_at >= step.started_at
    assert attempt.lines.index("step finalized failed") < attempt.lines.index("step load_governance_failed failed")


def test_a_failed_write_whose_step_cannot_be_recorded_keeps_its_own_code(tmp_path: Path) -> None:
    outcome = legacy_load(tmp_path).fails("sink.publish").fails("step finalized failed").ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "injected"
    assert outcome.target_state is TargetState.NOT_MUTATED and "failed_step_not_recorded" in outcome.warnings


class LosesARow(MemoryLegacy):
    """Two of three rows arrive, and the sink says so."""

    def load(self, request: Any, batches: Any) -> LegacyLoadResult:
        return super().load(request, [batch.slice(0, 1) for batch in batches])


def test_gates_judge_the_rows_that_are_there(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path)
    outcome = with_legacy_sink(attempt, LosesARow(attempt.warehouse)).ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"
    assert outcome.quality_gates is not None
    (gate,) = outcome.quality_gates["results"]  # type: ignore[misc]
    assert gate["metrics"] == {
        "source_row_count": 3,
        "target_row_count": 2,
        "difference": 1,
        "allowed_difference": 0,
    }


def test_no_tolerance_forgives_a_row_that_was_sent_and_is_not_there(tmp_path: Path) -> None:
    tolerant = {**GATE, "tolerance": {"mode": "absolute", "value": 5}}
    attempt = legacy_load(tmp_path, quality={"gates": [tolerant]})
    outcome = with_legacy_sink(attempt, LosesARow(attempt.warehouse)).ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "written_row_count_mismatch"
    assert outcome.target_state is TargetState.MUTATION_RETURNED_SUCCESS and attempt.state() == []


def test_a_drift_seen_after_the_load_is_post_commit_and_nothing_is_judged(tmp_path: Path) -> None:
    quality: dict[str, object] = {"gates": [GATE]}
    attempt = legacy_load(tmp_path, quality=quality)
    attempt.quality = quality
    attempt.journal = ActingJournal("sink.published", lambda: quality.update(gates=[]))
    attempt.warehouse = MemoryWarehouse(journal=attempt.journal)
    outcome = with_legacy_sink(attempt).ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_POLICY_DRIFT"
    assert (outcome.boundary, outcome.target_state) == (Boundary.POST_COMMIT, TargetState.MUTATION_RETURNED_SUCCESS)
    assert not [line for line in attempt.lines if line.startswith("step quality_checked")]
    assert attempt.state() == []


def test_a_drift_seen_before_the_load_calls_no_sink(tmp_path: Path) -> None:
    quality: dict[str, object] = {"gates": [GATE]}
    attempt = legacy_load(tmp_path, quality=quality)
    attempt.quality = quality
    attempt.journal = ActingJournal("source.open_stream", lambda: quality.update(gates=[]))
    attempt.warehouse = MemoryWarehouse(journal=attempt.journal)
    outcome = with_legacy_sink(attempt).ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_POLICY_DRIFT"
    assert "sink.load" not in attempt.lines and outcome.target_state is TargetState.NOT_MUTATED


def test_required_staged_acceptance_is_refused_when_it_is_planned(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path, quality={"acceptance": {"enabled": True, "mode": "required"}})
    with pytest.raises(SideUnavailableError) as raised:
        attempt.planned()
    assert raised.value.code == "staged_acceptance_metric_unavailable"
    assert attempt.lines == []


def test_warn_only_staged_acceptance_is_a_warning_snapshot(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path, quality={"acceptance": {"enabled": True, "mode": "warn_only"}})
    outcome = attempt.ran().outcome
    assert outcome.failure is None and outcome.result.acceptance_metrics is not None
    by_side = {snapshot.side.value: snapshot for snapshot in outcome.result.acceptance_metrics.snapshots}
    assert by_side["staged"].warnings == ("staged_acceptance_metric_unavailable",)
    assert by_side["source"].succeeded and by_side["target"].succeeded
    assert attempt.lines.index("step staged_metrics_captured warning") < attempt.lines.index("sink.load")


class NoAnswer:
    """A probe that does not answer."""

    def collect(self, request: MetricRequest) -> Any:
        raise ConnectorError("no", code="sink_query_failed")


def test_a_target_that_cannot_be_measured_holds_the_state_back(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path)
    assert attempt.sink is not None
    attempt.sink = replace(attempt.sink, metrics=NoAnswer())
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "target_acceptance_metric_probe_failed"
    details = attempt.step("load_governance_failed")["details"]
    assert (details["failure_boundary"], details["acceptance_side"]) == ("post_commit", "target")
    assert attempt.state() == [] and attempt.target_ids() == [1, 2, 3]


@dataclass
class Signals(NoCancellation):
    """A Cancellation that records the depth of shields and delivers at a journal line."""

    depth: int = 0
    arrived: bool = False
    depths: list[int] = field(default_factory=list)

    @contextmanager
    def shield(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def checkpoint(self) -> None:
        if self.arrived:
            raise RunTerminated


def test_a_signal_while_rows_flow_ends_the_load_before_anything_is_visible(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path)
    signals = Signals()
    attempt.cancellation = signals
    attempt.journal = ActingJournal("sink.load", lambda: setattr(signals, "arrived", True))
    attempt.warehouse = MemoryWarehouse(journal=attempt.journal)
    outcome = with_legacy_sink(attempt).ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_RUN_TERMINATED"
    assert attempt.target_ids() is None and outcome.target_state is TargetState.NOT_MUTATED


def test_a_signal_while_files_become_visible_waits_for_the_record(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path)
    signals = Signals()
    attempt.cancellation = signals
    attempt.journal = ActingJournal("sink.publish", lambda: signals.depths.append(signals.depth))
    attempt.warehouse = MemoryWarehouse(journal=attempt.journal)
    assert with_legacy_sink(attempt).ran().outcome.passed
    assert signals.depths == [1] and signals.depth == 0


def test_a_typed_hash_is_of_the_rows_read_back_from_the_target(tmp_path: Path) -> None:
    gates = {"gates": [{"type": "typed_hash_reconciliation"}]}
    attempt = legacy_load(tmp_path, quality=gates)
    outcome = attempt.ran().outcome
    assert outcome.failure is None
    lines = attempt.lines
    assert lines.index("sink.published") < lines.index("sink.read_back") < lines.index("step quality_checked succeeded")


class ChangesACell(MemoryLegacy):
    def load(self, request: Any, batches: Any) -> LegacyLoadResult:
        result = super().load(request, batches)
        self._warehouse.tables[request.target].rows[1]["name"] = "changed"
        return result


def test_a_changed_cell_fails_the_typed_hash_after_the_commit(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path, quality={"gates": [{"type": "typed_hash_reconciliation"}]})
    outcome = with_legacy_sink(attempt, ChangesACell(attempt.warehouse)).ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"
    assert outcome.target_state is TargetState.MUTATION_RETURNED_SUCCESS


def test_rows_that_cannot_be_read_back_pass_no_hash_gate(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path, quality={"gates": [{"type": "typed_hash_reconciliation"}]})
    attempt.fails("sink.read_back", ConnectorError("no", code="written_rows_unreadable"))
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"
    assert "typed_hash_unavailable" in outcome.warnings
