"""What a load does so that no load before it comes late, and what becomes of a load that is late itself.

Contract: STATE-31, STATE-32, STATE-33.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.identity import LoadId
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState
from dpone_core.ports.control import ControlRow
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.sink import FinalizeResult, StagedHandle
from dpone_core.ports.state import CommitIntent
from dpone_core.state.cursor import state_key
from dpone_core.state.intents import IntentStore
from dpone_core.state.lease import lease_key
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import MemoryControlTables, MemoryRevocation, MemoryStaging

from .harness import ActingJournal, Attempt
from .test_in_doubt_loads import LOADS, append, code, saves_a_cursor

LEASES = ("etl_state", "__dpone__leases")
INTENTS = ("etl_state", "__dpone__commit_intents")
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)


def revocable(attempt: Attempt) -> Attempt:
    ports: SinkPorts = attempt.warehouse.ports()
    attempt.sink = replace(ports, revocation=MemoryRevocation(attempt.warehouse))
    return attempt


def leaves_a_lease(attempt: Attempt, owner: str = LOADS[2]) -> None:
    """A load that died, or stands still, past its lease."""
    config = attempt.planned().config
    row: ControlRow = {
        "lease_key": lease_key(config),
        "owner": owner,
        "run_id": "late",
        "expires_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    attempt.warehouse.control_rows[LEASES] = [row]


def acting(attempt: Attempt, line: str, action: Callable[[], None]) -> Attempt:
    attempt.journal = ActingJournal(line, action)
    attempt.__post_init__()
    return attempt


def test_who_takes_over_a_lease_takes_the_staging_of_earlier_loads_before_it_looks(tmp_path: Path) -> None:
    attempt = revocable(append(tmp_path, 0))
    leaves_a_lease(attempt)
    assert attempt.ran().outcome.passed
    assert attempt.lines.index("lease taken") < attempt.lines.index("sink.revoke")
    assert attempt.lines.index("sink.revoke") < attempt.lines.index("sink.leftovers")
    assert attempt.warehouse.control_rows[LEASES] == []


def test_who_is_given_a_lease_back_takes_nothing_away(tmp_path: Path) -> None:
    attempt = revocable(append(tmp_path, 0))
    assert attempt.ran().outcome.passed and "sink.revoke" not in attempt.lines


def test_staging_that_was_taken_away_is_in_the_audit(tmp_path: Path) -> None:
    first = revocable(append(tmp_path, 0)).fails("sink.finalize", RuntimeError("stands still"))
    first.ran()
    second = revocable(append(tmp_path, 1, first))
    leaves_a_lease(second, LOADS[0])
    assert second.ran().outcome.passed
    assert len(second.step("earlier_staging_revoked")["details"]["staging"]) == 1


@pytest.mark.parametrize("fault", ["revocation", "unknown outcome"])
def test_a_lease_behind_which_somebody_may_still_publish_is_taken_over_and_not_given_back(
    tmp_path: Path, fault: str
) -> None:
    attempt = revocable(append(tmp_path, 0))
    if fault == "revocation":
        leaves_a_lease(attempt)
        attempt.fails("sink.revoke", ConnectorError("refused", code="sink_unreachable"))
    else:
        attempt.fails("sink.finalize", CommitOutcomeUnknownError("no answer"))
    assert not attempt.ran().outcome.passed
    (lease,) = attempt.warehouse.control_rows[LEASES]
    assert lease["owner"] == LOADS[0] and lease["expires_at"] == lease["updated_at"]
    following = revocable(append(tmp_path, 1, attempt))
    leaves_a_lease(following, LOADS[0])
    following.ran()
    assert "sink.revoke" in following.lines, "the lease has expired, and the next load took it over"


@pytest.mark.parametrize("fault", ["step quality_checked succeeded", "sink.stage"])
def test_a_load_that_failed_before_its_commit_gives_its_lease_back(tmp_path: Path, fault: str) -> None:
    attempt = revocable(append(tmp_path, 0)).fails(fault)
    assert not attempt.ran().outcome.passed
    assert attempt.warehouse.control_rows[LEASES] == []


def test_a_publication_that_is_refused_because_the_lease_is_lost_says_so(tmp_path: Path) -> None:
    attempt = append(tmp_path, 0)

    class Revoked(MemoryStaging):
        def finalize(self, handle: StagedHandle) -> FinalizeResult:
            rows = attempt.warehouse.control_rows[LEASES]
            rows[:] = [{**row, "owner": LOADS[2]} for row in rows]
            raise ConnectorError("the staging is gone", code="finaliser_refused")

    ports = revocable(attempt).sink
    assert ports is not None
    attempt.sink = replace(ports, staged=Revoked(attempt.warehouse))
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "load_in_progress"
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION


def test_a_cursor_that_was_saved_while_the_target_was_asked_settles_the_load_before(tmp_path: Path) -> None:
    """The load before was late, not dead: it is not taken for one that is in the target without a cursor."""
    first = append(tmp_path, 0).fails("file load.json")
    first.ran()
    second = append(tmp_path, 1, first)
    ports = second.warehouse.ports()

    class Asked:
        def contains(self, ref: object, mark: object) -> bool:
            saves_a_cursor(second)
            return True

        def __getattr__(self, name: str) -> object:
            return getattr(ports.publications, name)

    second.sink = replace(ports, publications=Asked())  # type: ignore[arg-type]
    assert second.ran().outcome.passed


def test_an_intent_takes_the_place_of_the_one_that_was_examined_and_of_no_other(tmp_path: Path) -> None:
    """Else a load that stood still before it stored its intent would hide that a later one is in the target."""
    attempt = append(tmp_path, 0)

    def arms() -> None:
        config = attempt.planned().config
        row: ControlRow = {
            "state_key": state_key(config),
            "process_name": config.process,
            "run_id": "later",
            "load_id": LOADS[2],
            "attempt": 1,
            "seen_load_id": None,
            "cursor_value": "3",
            "target_mark": None,
            "updated_at": LONG_AGO,
        }
        attempt.warehouse.control_rows[INTENTS] = [row]

    acting(attempt, "step quality_checked succeeded", arms)
    assert code(attempt) == "load_in_progress"
    assert attempt.target_ids() is None and attempt.staging() == []
    (intent,) = attempt.warehouse.control_rows[INTENTS]
    assert intent["load_id"] == LOADS[2], "nor does the refused load withdraw it"


def test_an_intent_is_stored_over_the_one_it_names(tmp_path: Path) -> None:
    attempt = append(tmp_path, 0)
    config = attempt.planned().config
    store = IntentStore(control=MemoryControlTables(attempt.warehouse), schema="etl_state")

    def intent(load: str) -> CommitIntent:
        return CommitIntent(identity=load_identity(load), seen_load_id=None, cursor_value="1", target_mark=None)

    assert store.arm(config, intent(LOADS[0]), None, LONG_AGO)
    assert not store.arm(config, intent(LOADS[1]), None, LONG_AGO)
    assert not store.arm(config, intent(LOADS[1]), LoadId(LOADS[2]), LONG_AGO)
    assert store.arm(config, intent(LOADS[1]), LoadId(LOADS[0]), LONG_AGO)
    found = store.read(config)
    assert found is not None and found.identity.load_id == LOADS[1]
