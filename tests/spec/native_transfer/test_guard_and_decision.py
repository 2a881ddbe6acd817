"""An unresolved guard blocks the route; what matches is skipped, everything else is read.

Contract: NAT-09, NAT-12, NAT-51, NAT-61, NAT-62, NAT-67.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.native_transfer.checkpoint_file import CheckpointFiles
from dpone_core.native_transfer.decision import ResumeAction, artifact_checksum, decide, is_reusable
from dpone_core.native_transfer.guard import (
    GUARD_FIELD,
    GuardInvalidError,
    GuardNotArmedError,
    GuardPhase,
    ManualReconciliationRequiredError,
    batch_id,
    find_unresolved,
    read_guard,
    require_resolved,
)
from dpone_core.native_transfer.ledger import GuardedCommit
from dpone_core.quality.scope import NativeTransferQualityScope
from tests.spec.native_transfer.builders import (
    APPEND,
    QUERY,
    ROUTE,
    SCHEMA,
    checkpoint,
    ledger,
    partitions,
    transferred,
)

FIRST, SECOND, THIRD = partitions()


def moved(tmp_path: Path, phase: GuardPhase) -> tuple[tuple[PartitionCheckpoint, ...], GuardedCommit]:
    """A batch of two partitions whose guard reached this phase."""
    made = ledger(CheckpointFiles(root=tmp_path))
    commit = made.guard_commit([transferred(FIRST), transferred(SECOND)], {"marker": "[dpone 1]"})
    commit.arm()
    match phase:
        case GuardPhase.CHECKPOINT_COMMITTED:
            commit.commit()
        case GuardPhase.TARGET_OUTCOME_UNKNOWN:
            commit.mark_unknown("target_outcome_unknown")
        case GuardPhase.CHECKPOINT_INCOMPLETE:
            commit.mark_incomplete("partition_checkpoint_not_written")
        case GuardPhase.FAILED_BEFORE_TARGET:
            commit.mark_refused("finaliser_refused")
    return CheckpointFiles(root=tmp_path).latest(ROUTE, "r1"), commit


@pytest.mark.parametrize("phase", list(GuardPhase))
def test_each_phase_has_its_status_and_its_verdict(tmp_path: Path, phase: GuardPhase) -> None:
    records, _ = moved(tmp_path, phase)
    guards = [read_guard(record) for record in records]
    assert [guard and guard.phase for guard in guards] == [phase, phase, None]
    assert {record.status for record in records[:2]} == {phase.status}
    blocks = {"armed", "checkpoint_incomplete", "target_outcome_unknown"}
    assert len(find_unresolved(records)) == (2 if phase.value in blocks else 0)
    if phase.value not in blocks:
        require_resolved("r1", records)
        return
    with pytest.raises(ManualReconciliationRequiredError) as refusal:
        require_resolved("r1", records)
    assert refusal.value.code == "native_transfer_manual_reconciliation_required"
    assert "transfer reconcile" in str(refusal.value.fix)


def test_a_guard_says_what_the_facts_say_and_no_more(tmp_path: Path) -> None:
    records, _ = moved(tmp_path, GuardPhase.ARMED)
    assert records[0].diagnostics[GUARD_FIELD] == {
        "schema_version": "dpone.native_transfer.target_commit_guard.v1",
        "checkpoint_batch_id": fingerprint({"partition_ids": sorted([FIRST.id, SECOND.id]), "run_id": "r1"}),
        "phase": "armed",
        "recovery": "manual_reconciliation_required",
        "strategy": "full_refresh",
    }
    assert batch_id("r1", [SECOND.id, FIRST.id]) == batch_id("r1", [FIRST.id, SECOND.id])


def test_a_commit_without_its_armed_guard_is_refused(tmp_path: Path) -> None:
    made = ledger(CheckpointFiles(root=tmp_path))
    with pytest.raises(GuardNotArmedError) as refusal:
        made.guard_commit([transferred(FIRST)], {}).commit()
    assert refusal.value.code == "native_transfer_target_commit_guard_not_armed"
    made.guard_commit([transferred(FIRST)], {}).arm()
    with pytest.raises(GuardNotArmedError):
        made.guard_commit([transferred(FIRST), transferred(SECOND)], {}).commit()


def test_a_commit_written_in_part_stays_blocked(tmp_path: Path) -> None:
    """The process died while the committed lines were written: one is whole, one is torn."""
    records, _ = moved(tmp_path, GuardPhase.CHECKPOINT_COMMITTED)
    (path,) = tmp_path.rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    records = CheckpointFiles(root=tmp_path).latest(ROUTE, "r1")
    assert [record.status.value for record in records[:2]] == ["committed", "exported"]
    with pytest.raises(ManualReconciliationRequiredError):
        require_resolved("r1", records)


@pytest.mark.parametrize(
    "guard",
    [
        "armed",
        {},
        {"schema_version": "dpone.native_transfer.target_commit_guard.v2"},
        {"phase": "over"},
        {"checkpoint_batch_id": "sha256:1"},
        {"recovery": "automatic"},
        {"phase": "failed_before_target"},
    ],
)
def test_a_malformed_guard_never_counts_as_resolved(tmp_path: Path, guard: object) -> None:
    records, _ = moved(tmp_path, GuardPhase.ARMED)
    whole = records[0].diagnostics[GUARD_FIELD]
    assert isinstance(whole, dict)
    damaged = {**whole, **guard} if isinstance(guard, dict) and guard else guard
    record = checkpoint(FIRST, CheckpointStatus.EXPORTED, diagnostics={GUARD_FIELD: damaged})
    with pytest.raises(GuardInvalidError) as refusal:
        require_resolved("r1", [record])
    assert refusal.value.code == "native_transfer_target_commit_guard_invalid"


def test_a_partition_handed_over_without_a_guard_never_counts_as_resolved() -> None:
    with pytest.raises(GuardInvalidError):
        find_unresolved([checkpoint(FIRST, CheckpointStatus.EXPORTED, diagnostics={})])


OTHER = "sha256:" + "9" * 64
UNFINISHED = [status for status in CheckpointStatus if status is not CheckpointStatus.COMMITTED]


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (None, "missing_checkpoint"),
        *(
            (checkpoint(FIRST, status), f"latest_status_{status}")
            for status in CheckpointStatus
            if status != "committed"
        ),
        (checkpoint(partitions(query_hash=OTHER)[0]), "query_or_schema_hash_changed"),
        (checkpoint(partitions(schema_hash=OTHER)[0]), "query_or_schema_hash_changed"),
        (checkpoint(FIRST, diagnostics={}), "missing_artifact_checksum"),
        (checkpoint(FIRST, diagnostics={"artifact_sha256": "abc"}), "missing_artifact_checksum"),
        (checkpoint(FIRST), "committed_matching_checkpoint"),
    ],
)
def test_only_a_committed_checkpoint_of_the_same_workload_is_skipped(
    stored: PartitionCheckpoint | None, reason: str
) -> None:
    (decision,) = decide([FIRST], [] if stored is None else [stored], StrategyMode.INCREMENTAL_APPEND).decisions
    assert decision.reason == reason
    assert decision.action is (ResumeAction.SKIP if reason == "committed_matching_checkpoint" else ResumeAction.RETRY)
    assert decision.checkpoint_status is (None if stored is None else stored.status)


def test_a_changed_artifact_is_read_again() -> None:
    (decision,) = decide([FIRST], [checkpoint(FIRST)], StrategyMode.INCREMENTAL_APPEND, {FIRST.id: OTHER}).decisions
    assert (decision.action, decision.reason) == (ResumeAction.RETRY, "artifact_checksum_changed")


STATUSES = st.one_of(st.none(), st.sampled_from(CheckpointStatus))


@given(st.tuples(STATUSES, STATUSES, STATUSES), st.sampled_from([ROUTE, APPEND]))
def test_every_partition_is_read_or_skipped_and_none_counts_twice(
    statuses: tuple[CheckpointStatus | None, ...], route: object
) -> None:
    """P = A + (S - R) for whatever the checkpoints say; a full refresh with any retry reactivates every skip."""
    assert route in (ROUTE, APPEND)
    used = ROUTE if route == ROUTE else APPEND
    planned = partitions(used)
    stored = [checkpoint(each, status) for each, status in zip(planned, statuses, strict=True) if status is not None]
    resume = decide(planned, stored, used.strategy)
    scope = NativeTransferQualityScope.of(
        planned=(each.id for each in resume.planned),
        active=(each.id for each in resume.active),
        skipped=(each.id for each in resume.skipped),
        reactivated=(each.id for each in resume.reactivated),
    )
    rows = {each.id: 2 for each in planned}
    committed = {record.partition_id: 2 for record in stored if record.status is CheckpointStatus.COMMITTED}
    if scope.is_resume_only:
        assert scope.resume_snapshots(committed=committed).target.row_count == 6
        return
    snapshots = scope.projected_snapshots(extracted=rows, staged=rows, committed=committed)
    assert (snapshots.source.row_count, snapshots.target.row_count) == (6, 6)
    if used is ROUTE:
        assert resume.active == resume.planned and resume.reactivated == resume.skipped
    else:
        assert resume.reactivated == ()


def test_the_resume_plan_is_told_with_its_summary() -> None:
    resume = decide(partitions(APPEND), [checkpoint(partitions(APPEND)[0])], APPEND.strategy)
    assert resume.as_json()["summary"] == {"skip": 1, "retry": 2}


def test_staged_rows_stand_for_reading_again_only_when_nothing_about_them_changed() -> None:
    checksum = artifact_checksum("raw.stg", 2, QUERY, SCHEMA)
    loaded = checkpoint(FIRST, CheckpointStatus.LOADED)
    assert is_reusable(FIRST, loaded, checksum)
    assert not is_reusable(FIRST, loaded, None), "staging is gone"
    assert not is_reusable(FIRST, loaded, artifact_checksum("raw.stg", 3, QUERY, SCHEMA)), "another count"
    assert not is_reusable(FIRST, None, checksum)
    assert not is_reusable(FIRST, checkpoint(FIRST, CheckpointStatus.FAILED), checksum)
    assert not is_reusable(partitions(query_hash=OTHER)[0], loaded, checksum)
