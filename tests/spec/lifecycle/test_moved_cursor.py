"""A cursor that somebody else advanced during a load is not overwritten, and the outcome says it did not advance.

Contract: STATE-04.
"""

from __future__ import annotations

from pathlib import Path

from dpone_core.model.vocabulary import Boundary, SourceState, TargetState
from dpone_core.state.cursor import cursor_table, state_key
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import FixedClock, MemoryControlTables
from tests.spec.builders import append_flow

from .harness import ActingJournal, Attempt

OTHER = load_identity("01KB6Q4X7D8M1T9N3VZ5C2R0AF")


def test_a_moved_cursor_is_kept_and_known_not_to_have_advanced(tmp_path: Path) -> None:
    def another_load_advances() -> None:
        config = attempt.planned().config
        MemoryControlTables(attempt.warehouse).upsert(
            cursor_table("etl_state"),
            (
                {
                    "state_key": state_key(config),
                    "process_name": config.process,
                    "cursor_column": "id",
                    "cursor_value": "2",
                    "run_id": OTHER.run_id,
                    "load_id": OTHER.load_id,
                    "updated_at": FixedClock().utc_now(),
                },
            ),
        )

    journal = ActingJournal("file load.json", another_load_advances)
    manifest = append_flow(source__options={"incremental": {"cursor_column": "id"}})
    attempt = Attempt(manifest=manifest, directory=tmp_path, journal=journal)
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "cursor_state_moved"
    assert (outcome.boundary, outcome.source_state) == (Boundary.POST_COMMIT, SourceState.NOT_ADVANCED)
    assert outcome.target_state is TargetState.MUTATION_RETURNED_SUCCESS
    assert [row["cursor_value"] for row in attempt.state()] == ["2"]
