"""A policy that changes during a load stops it at the next of four places; after the commit it holds the state back.

SNAP-03, SNAP-06: before staging, before finalize, after the payload, before the state.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.model.vocabulary import Boundary, SourceState, TargetState
from tests.spec.builders import append_flow

from .harness import ActingJournal, Attempt

STRICT: dict[str, object] = {"gates": [{"type": "min_rows", "side": "target", "threshold": 1}]}
LAX: dict[str, object] = {"gates": []}
BROKEN: dict[str, object] = {"gates": "none"}
PLACES = {
    "sink.describe_target": (False, "before staging"),
    "step quality_checked succeeded": (False, "before finalize"),
    "step cleanup succeeded": (True, "after the payload"),
    "file load.json": (True, "before the state"),
}


@pytest.mark.parametrize("changed", [LAX, BROKEN])
@pytest.mark.parametrize("moment", PLACES)
def test_drift_is_caught_at_the_next_place(tmp_path: Path, moment: str, changed: dict[str, object]) -> None:
    quality = dict(STRICT)
    manifest = append_flow(source__options={"incremental": {"cursor_column": "id"}}, quality=STRICT)
    journal = ActingJournal(moment, lambda: quality.update(changed))
    attempt = Attempt(manifest=manifest, directory=tmp_path, journal=journal, quality=quality)
    outcome = attempt.ran().outcome
    committed = PLACES[moment][0]
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_POLICY_DRIFT"
    assert outcome.failure.exit_code == 1, "it had begun to execute"
    assert attempt.target_ids() == ([1, 2, 3] if committed else None)
    assert outcome.boundary is (Boundary.POST_COMMIT if committed else Boundary.PRE_COMMIT)
    assert outcome.target_state is (TargetState.MUTATION_RETURNED_SUCCESS if committed else TargetState.NOT_MUTATED)
    assert attempt.state() == [] and outcome.source_state is SourceState.NOT_ADVANCED
    assert attempt.staging() == []


def test_drift_after_the_payload_leaves_no_success_evidence(tmp_path: Path) -> None:
    quality = dict(STRICT)
    journal = ActingJournal("step cleanup succeeded", lambda: quality.update(LAX))
    manifest = append_flow(source__options={"incremental": {"cursor_column": "id"}}, quality=STRICT)
    attempt = Attempt(manifest=manifest, directory=tmp_path, journal=journal, quality=quality)
    assert not attempt.ran().outcome.passed
    assert "load committed" not in attempt.lines and "file load.json" not in attempt.lines


def test_the_same_policy_written_otherwise_is_no_drift(tmp_path: Path) -> None:
    quality = dict(STRICT)
    explicit = {
        "gates": [{"id": "min_rows", "type": "min_rows", "side": "target", "threshold": 1, "severity": "error"}]
    }
    journal = ActingJournal("sink.stage", lambda: quality.update(explicit))
    manifest = append_flow(source__options={"incremental": {"cursor_column": "id"}}, quality=STRICT)
    assert Attempt(manifest=manifest, directory=tmp_path, journal=journal, quality=quality).ran().outcome.passed
