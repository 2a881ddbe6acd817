"""Whatever happens around the commit, the outcome states what is true of target, state and retry.

Contract: FAIL-10, FAIL-11, FAIL-12, FAIL-13, HOOK-14, LIFE-31, LIFE-39.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError, ETLExecutionError, RunTerminated
from dpone_core.model.vocabulary import Boundary, RetryClassification, SourceState, TargetState
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.testing.builders import ORDERS
from dpone_core.testing.fakes import MemorySource
from tests.spec.builders import append_flow, flow, hook, hooks

from .harness import Attempt, HeldSignals
from .test_order import REQUIRED, whole_load

INTERRUPTIONS = [(KeyboardInterrupt(), 130), (RunTerminated(), 143)]


def test_a_refused_commit_is_a_failure_before_the_target_was_touched(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("sink.finalize", ConnectorError("no", code="finaliser_refused"))
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "finaliser_refused"
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert attempt.staging() == []


def test_a_commit_whose_answer_is_lost_is_unknown_and_asks_for_a_person(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("sink.finalize", CommitOutcomeUnknownError("lost"))
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "target_outcome_unknown"
    assert outcome.target_state is TargetState.UNKNOWN
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    assert "sink.cleanup" not in attempt.lines, "staging may be the only copy of what was published"
    assert outcome.source_state is SourceState.NOT_ADVANCED


def test_a_commit_that_fails_in_an_unforeseen_way_is_never_taken_for_refused(tmp_path: Path) -> None:
    outcome = whole_load(tmp_path).fails("sink.finalize", RuntimeError("driver bug")).ran().outcome
    assert outcome.target_state is TargetState.UNKNOWN
    assert outcome.failure is not None and outcome.failure.message == "internal error (RuntimeError)"


def test_a_failed_post_hook_leaves_a_committed_load_and_an_advanced_state(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path, source__options={**hooks(post=[hook("tidy", "DELETE FROM log")]), **cursor()})
    outcome = attempt.fails("statements.execute").ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "hook_failed" and outcome.failure.exit_code == 1
    assert outcome.source_state is SourceState.ADVANCED and len(attempt.state()) == 1
    assert outcome.boundary is Boundary.POST_COMMIT
    assert outcome.retry is not None and not outcome.retry.allows_automatic_retry


@pytest.mark.parametrize("after_the_gates", ["sink.finalize", "sink.cleanup", "statements.execute"])
def test_what_the_gates_said_is_reported_whatever_fails_behind_them(tmp_path: Path, after_the_gates: str) -> None:
    post = hooks(post=[hook("tidy", "DELETE FROM log")])
    attempt = whole_load(tmp_path, source__options={**post, **cursor()})
    outcome = attempt.fails(after_the_gates).ran().outcome
    assert outcome.failure is not None
    assert outcome.quality_gates is not None and outcome.quality_gates["passed"] is True
    assert outcome.gate_counts.passed == 1


def test_a_load_that_failed_before_its_gates_reports_none(tmp_path: Path) -> None:
    outcome = whole_load(tmp_path).fails("sink.stage").ran().outcome
    assert outcome.quality_gates is None and outcome.gate_counts.passed == 0


def test_the_audit_keeps_a_committed_load_committed_when_its_post_hook_fails(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path, source__options={**hooks(post=[hook("tidy", "DELETE FROM log")]), **cursor()})
    attempt.fails("statements.execute").ran()
    row = attempt.load_row()
    assert (row["status"], row["error_message"]) == ("committed", "hook_failed")
    assert row["committed_at"] is not None and row["failed_at"] is not None


def test_a_failure_before_the_load_was_recorded_as_committed_is_a_failed_load(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("sink.cleanup")
    attempt.ran()
    assert attempt.load_row()["status"] == "failed"


@pytest.mark.parametrize(("interruption", "exit_code"), INTERRUPTIONS)
@pytest.mark.parametrize("moment", ["source.open_stream", "sink.stage", "metrics.staged"])
def test_an_interruption_before_the_commit_aborts_and_cleans(
    tmp_path: Path, interruption: BaseException, exit_code: int, moment: str
) -> None:
    attempt = whole_load(tmp_path).fails(moment, interruption)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.exit_code == exit_code
    assert attempt.target_ids() is None and attempt.staging() == [] and attempt.state() == []
    assert outcome.target_state is TargetState.NOT_MUTATED
    assert attempt.lines[-1] == "lease released"


@pytest.mark.parametrize(("interruption", "exit_code"), INTERRUPTIONS)
def test_an_interruption_held_back_over_the_commit_is_told_after_the_state_is_durable(
    tmp_path: Path, interruption: BaseException, exit_code: int
) -> None:
    attempt = Attempt(manifest=append_flow(source__options=cursor()), directory=tmp_path)
    attempt.cancellation = HeldSignals(attempt.journal, after="sink.finalize", interruption=interruption)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.exit_code == exit_code
    assert (outcome.target_state, outcome.source_state) == (
        TargetState.MUTATION_RETURNED_SUCCESS,
        SourceState.ADVANCED,
    )


def test_a_lease_that_cannot_be_released_does_not_hide_why_the_load_failed(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("sink.finalize", CommitOutcomeUnknownError("lost")).fails("lease released")
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "target_outcome_unknown"
    assert "lease_not_released" in outcome.warnings


def test_a_cleanup_that_fails_during_an_abort_does_not_hide_why_the_load_failed(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("metrics.staged").fails("sink.cleanup")
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "staged_acceptance_metric_probe_failed"
    assert "staged_abort_incomplete" in outcome.warnings


def test_an_audit_that_fails_while_recording_a_failure_does_not_hide_it(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("metrics.target").fails("step load_governance_failed failed")
    outcome = attempt.fails("load failed").ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "target_acceptance_metric_probe_failed"
    assert {"failed_step_not_recorded", "load_status_not_recorded"} <= set(outcome.warnings)


def test_a_live_lease_refuses_the_second_load_before_its_pre_hooks(tmp_path: Path) -> None:
    first = whole_load(tmp_path).fails("lease released")
    first.ran()
    second = whole_load(tmp_path)
    second.warehouse.control_rows.update(first.warehouse.control_rows)
    outcome = second.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "load_in_progress"
    assert second.lines == [] and outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION


def test_leftovers_of_a_dead_load_are_reported_and_never_read(tmp_path: Path) -> None:
    dead = whole_load(tmp_path).fails("metrics.target")
    dead.ran()
    survivor = Attempt(manifest=flow(), directory=tmp_path)
    survivor.warehouse.tables.update(
        {name: table for name, table in dead.warehouse.tables.items() if name.name.startswith("__dpone__")}
    )
    outcome = survivor.ran().outcome
    assert outcome.passed and survivor.target_ids() == [1, 2, 3]
    assert any(warning.startswith("leftovers of an earlier load: raw.__dpone__stg_") for warning in outcome.warnings)
    assert survivor.step("leftovers_found")["status"] == "warning"


class HostileProbe:
    """Answers with what nobody asked for: code in a mapping, foreign keys, impossible numbers."""

    def __init__(self, answer: Mapping[str, object] | BaseException) -> None:
        self._answer = answer

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


HOSTILE: list[tuple[Mapping[str, object] | BaseException, str]] = [
    (RuntimeError("password=hunter2 at 10.0.0.1"), "probe_failed"),
    ({}, "snapshot_invalid"),
    ({"row_count": True, "null_counts": {}}, "snapshot_invalid"),
    ({"row_count": -1, "null_counts": {"id": 0, "name": 0, "amount": 0}}, "snapshot_invalid"),
    ({"row_count": 3, "null_counts": {"id": 0, "name": "0", "amount": 0}}, "snapshot_invalid"),
]


@pytest.mark.parametrize(("answer", "suffix"), HOSTILE)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_hostile_probe_fails_its_side_at_its_boundary_with_a_stable_code(
    tmp_path: Path, answer: Mapping[str, object] | BaseException, suffix: str, side: str
) -> None:
    capture = {"source": side == "source", "staged": False, "target": side == "target"}
    attempt = whole_load(tmp_path, quality={"acceptance": {**REQUIRED, "capture": capture}})
    if side == "source":
        real = MemorySource(journal=attempt.journal, schema=ORDERS, data=attempt.data).ports()
        attempt.source = SourcePorts(source=real.source, metrics=HostileProbe(answer), statements=real.statements)
    else:
        sink = attempt.warehouse.ports()
        attempt.sink = SinkPorts(
            staged=sink.staged,
            target=sink.target,
            metrics=HostileProbe(answer),
            control=sink.control,
            statements=sink.statements,
        )
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == f"{side}_acceptance_metric_{suffix}"
    assert outcome.boundary is (Boundary.PRE_COMMIT if side == "source" else Boundary.POST_COMMIT)
    assert attempt.target_ids() == (None if side == "source" else [1, 2, 3])
    assert attempt.state() == []
    assert attempt.step("load_governance_failed")["details"]["acceptance_side"] == side
    assert "hunter2" not in repr(attempt.warehouse.control_rows) + repr(attempt.files.published)


def test_a_row_that_arrives_at_a_source_seen_empty_waits_for_the_next_run(tmp_path: Path) -> None:
    """The first window ends at the newest cursor value seen at the start; there was none, so no row is in it."""
    attempt = Attempt(manifest=append_flow(source__options=cursor()), directory=tmp_path)
    real = GrowingSource(journal=attempt.journal, schema=ORDERS, data=attempt.data)
    attempt.source = SourcePorts(source=real, metrics=real, statements=None)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "source_refused"
    assert attempt.target_ids() is None and attempt.state() == [] and attempt.staging() == []
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION


class GrowingSource(MemorySource):
    """Empty when it is asked for its newest cursor value, not empty when it is read."""

    def cursor_maximum(self, request: object, column: str) -> str | None:
        self.journal.write("source.cursor_maximum")
        return None


def cursor() -> dict[str, object]:
    return {"incremental": {"cursor_column": "id"}}


def test_the_same_error_object_reaches_python_callers(tmp_path: Path) -> None:
    error = ETLExecutionError("refused", code="injected")
    assert whole_load(tmp_path).fails("file load.json", error).ran().error is error
