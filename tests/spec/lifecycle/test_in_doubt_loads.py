"""The question whether an earlier append is in the target is asked before pre-hooks and before anything is read.

Contract: LIFE-22, LIFE-25.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState
from dpone_core.ports.session import SinkPorts
from dpone_core.state.cursor import cursor_table, state_key
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import FixedClock, Journal, MemoryControlTables
from tests.spec.builders import append_flow, flow, hook, hooks

from .harness import ActingJournal, Attempt

PRE = hooks(pre=[hook("refresh", "INSERT INTO log VALUES (1)")])
LOADS = ["01KB6Q4X7D8M1T9N3VZ5C2R0AE", "01KB6Q4X7D8M1T9N3VZ5C2R0AF", "01KB6Q4X7D8M1T9N3VZ5C2R0AG"]


def append(directory: Path, load: int, before: Attempt | None = None, **changes: object) -> Attempt:
    """The `load`-th attempt of one process; it meets what the one before left in the warehouse."""
    options = {**PRE, "incremental": {"cursor_column": "id"}}
    attempt = Attempt(
        manifest=append_flow(source__options=options, **changes),
        directory=directory,
        identity=load_identity(LOADS[load]),
    )
    if before is not None:
        attempt.warehouse.tables.update(before.warehouse.tables)
        attempt.warehouse.control_rows.update(before.warehouse.control_rows)
        for name, kinds in before.warehouse.control_kinds.items():
            attempt.warehouse.control_kinds[name] = dict(kinds)
    return attempt


@pytest.mark.parametrize("broken", ["step finalized succeeded", "sink.cleanup", "load committed", "file load.json"])
def test_a_load_that_failed_after_its_commit_is_not_repeated(tmp_path: Path, broken: str) -> None:
    first = append(tmp_path, 0).fails(broken)
    assert first.ran().outcome.target_state is TargetState.MUTATION_RETURNED_SUCCESS
    second = append(tmp_path, 1, first)
    outcome = second.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "load_already_committed"
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    touched = ("statements.", "source.", "sink.stage", "sink.finalize", "intent")
    assert [line for line in second.lines if line.startswith(touched)] == []
    assert second.target_ids() == [1, 2, 3] and second.state() == []
    assert second.step("earlier_load_examined")["details"]["is_in_target"] is True


def test_a_sink_that_cannot_say_leaves_the_load_unknown_and_nothing_is_repeated(tmp_path: Path) -> None:
    first = append(tmp_path, 0).fails("file load.json")
    first.ran()
    second = append(tmp_path, 1, first)
    mute: SinkPorts = replace(second.warehouse.ports(), publications=None)
    second.sink = mute
    outcome = second.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "earlier_load_unknown"
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    assert second.target_ids() == [1, 2, 3]


def test_a_load_that_failed_before_its_commit_asks_no_question(tmp_path: Path) -> None:
    first = append(tmp_path, 0).fails("step quality_checked succeeded")
    first.ran()
    second = append(tmp_path, 1, first)
    assert second.ran().outcome.passed and second.target_ids() == [1, 2, 3]
    assert not [row for row in steps(second) if row == "earlier_load_examined"]


def test_an_intent_whose_answer_was_lost_is_taken_back_with_its_staging(tmp_path: Path) -> None:
    attempt = append(tmp_path, 0).fails("intent armed")
    outcome = attempt.ran().outcome
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert "intent released" in attempt.lines and "sink.finalize" not in attempt.lines
    assert attempt.staging() == [] and attempt.warehouse.control_rows[("etl_state", "__dpone__commit_intents")] == []


def test_a_publication_that_the_sink_refused_leaves_no_question(tmp_path: Path) -> None:
    refused = ConnectorError("refused", code="finaliser_refused")
    attempt = append(tmp_path, 0).fails("sink.finalize", refused)
    outcome = attempt.ran().outcome
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert attempt.warehouse.control_rows[("etl_state", "__dpone__commit_intents")] == []


def test_a_full_refresh_announces_nothing_and_is_asked_nothing(tmp_path: Path) -> None:
    attempt = Attempt(manifest=flow(), directory=tmp_path)
    assert attempt.ran().outcome.passed
    assert ("etl_state", "__dpone__commit_intents") not in attempt.warehouse.control_rows


def test_a_load_without_rows_announces_nothing(tmp_path: Path) -> None:
    attempt = append(tmp_path, 0)
    attempt.data = ()
    assert attempt.ran().outcome.passed
    assert "intent armed" not in attempt.lines


def test_a_cursor_that_moved_during_the_load_does_not_settle_it(tmp_path: Path) -> None:
    """Somebody saved a cursor while this load committed; that is no decision about rows they never saw."""

    first = append(tmp_path, 0)
    first.journal = ActingJournal("file load.json", lambda: saves_a_cursor(first))
    first.__post_init__()
    assert code(first) == "cursor_state_moved"
    assert code(append(tmp_path, 1, first)) == "load_already_committed"


def test_an_operator_who_saved_a_cursor_has_decided(tmp_path: Path) -> None:
    first = append(tmp_path, 0).fails("file load.json")
    first.ran()
    second = append(tmp_path, 1, first)
    saves_a_cursor(second)
    assert second.ran().outcome.passed
    assert "earlier_load_examined" not in steps(second)


def test_a_load_that_died_before_it_published_is_loaded_by_the_next_one(tmp_path: Path) -> None:
    """Its outcome was unknown to it; the sink knows."""
    first = append(tmp_path, 0).fails("sink.finalize", RuntimeError("nobody foresaw this"))
    assert first.ran().outcome.target_state is TargetState.UNKNOWN
    second = append(tmp_path, 1, first)
    outcome = second.ran().outcome
    assert outcome.passed and second.target_ids() == [1, 2, 3]
    assert "earlier_load_not_published" in outcome.warnings
    assert second.step("earlier_load_examined")["details"]["is_in_target"] is False


def saves_a_cursor(attempt: Attempt) -> None:
    """Somebody else saves the cursor of this process."""
    config = attempt.planned().config
    row = {
        "state_key": state_key(config),
        "process_name": config.process,
        "cursor_column": "id",
        "cursor_value": "2",
        "run_id": "other",
        "load_id": LOADS[2],
        "updated_at": FixedClock().utc_now(),
    }
    control = MemoryControlTables(attempt.warehouse)
    control.ensure(cursor_table("etl_state"))
    control.upsert(cursor_table("etl_state"), (row,))


def code(attempt: Attempt) -> str | None:
    failure = attempt.ran().outcome.failure
    return None if failure is None else failure.code


def steps(attempt: Attempt) -> list[str]:
    rows = attempt.warehouse.control_rows[("etl_state", "__dpone__load_steps")]
    return [str(row["step_id"]) for row in rows if row["load_id"] == attempt.identity.load_id]


class TakenLease:
    """Another load takes the lease at a moment of this one: its owner had slept past the expiry."""

    @staticmethod
    def during(attempt: Attempt, line: str) -> None:
        def take() -> None:
            rows = attempt.warehouse.control_rows[("etl_state", "__dpone__leases")]
            rows[:] = [{**row, "owner": LOADS[2]} for row in rows]

        attempt.journal = ActingJournal(line, take)
        attempt.__post_init__()


@pytest.mark.parametrize("manifest", [append_flow(source__options={"incremental": {"cursor_column": "id"}}), flow()])
def test_a_load_whose_lease_went_to_another_does_not_commit(tmp_path: Path, manifest: dict[str, object]) -> None:
    """STATE-13. A look right before the commit; the fence is the sink's (STATE-27, STATE-28)."""
    attempt = Attempt(manifest=manifest, directory=tmp_path, journal=Journal())
    TakenLease.during(attempt, "step quality_checked succeeded")
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "load_in_progress"
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert "sink.finalize" not in attempt.journal.lines, "it is known before the sink is asked"
    assert attempt.target_ids() is None and attempt.staging() == [] and attempt.state() == []
    (lease,) = attempt.warehouse.control_rows[("etl_state", "__dpone__leases")]
    assert lease["owner"] == LOADS[2], "the late release must not free the lease of the other load"
