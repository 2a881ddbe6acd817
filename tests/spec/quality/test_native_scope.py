"""Every planned partition counts exactly once, and an unknown count makes the sum unknown (NAT-04, NAT-76)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_core.quality.scope import NativeTransferQualityScope, QualityScopeError, QualityScopeSummary

PARTIAL = NativeTransferQualityScope.of(planned="abc", active="c", skipped="ab")
MIXED = NativeTransferQualityScope.of(planned="abc", active="bc", skipped="ab", reactivated="b")
RESUME = NativeTransferQualityScope.of(planned="ab", active="", skipped="ab")
COMMITTED: dict[str, object] = {"a": 1, "b": 20, "c": 300}


def test_a_resume_counts_committed_rows_on_both_sides() -> None:
    snapshots = RESUME.resume_snapshots(committed=COMMITTED)
    assert (snapshots.source.row_count, snapshots.target.row_count) == (21, 21)


def test_a_scope_with_active_partitions_is_not_a_resume() -> None:
    with pytest.raises(QualityScopeError):
        PARTIAL.resume_snapshots(committed=COMMITTED)


def test_a_partial_retry_adds_kept_and_active_partitions_on_both_sides() -> None:
    snapshots = PARTIAL.projected_snapshots(extracted={"c": 300}, staged={"c": 299}, committed=COMMITTED)
    assert (snapshots.source.row_count, snapshots.target.row_count) == (321, 320)


def test_a_reactivated_partition_counts_once_with_its_new_rows() -> None:
    snapshots = MIXED.projected_snapshots(
        extracted={"b": 25, "c": 300}, staged={"b": 25, "c": 300}, committed=COMMITTED
    )
    assert (snapshots.source.row_count, snapshots.target.row_count) == (326, 326)


def test_after_the_checkpoint_commit_the_target_is_every_committed_partition() -> None:
    committed = {**COMMITTED, "b": 25}
    snapshots = MIXED.committed_snapshots(extracted={"b": 25, "c": 300}, committed=committed)
    assert (snapshots.source.row_count, snapshots.target.row_count) == (326, 326)


@pytest.mark.parametrize("value", [None, True, False, -1, "20", 20.0])
def test_a_checkpoint_count_that_is_no_count_makes_the_aggregate_unknown(value: object) -> None:
    snapshots = PARTIAL.projected_snapshots(extracted={"c": 1}, staged={"c": 1}, committed={**COMMITTED, "b": value})
    assert (snapshots.source.row_count, snapshots.target.row_count) == (None, None)


def test_a_missing_contribution_is_not_zero() -> None:
    snapshots = PARTIAL.projected_snapshots(extracted={"c": 1}, staged={}, committed=COMMITTED)
    assert (snapshots.source.row_count, snapshots.target.row_count) == (22, None)


def test_counts_of_partitions_outside_the_scope_are_ignored() -> None:
    snapshots = RESUME.resume_snapshots(committed={**COMMITTED, "z": "hostile"})
    assert snapshots.target.row_count == 21


def test_no_hash_is_claimed_across_partitions() -> None:
    snapshots = RESUME.resume_snapshots(committed=COMMITTED)
    assert snapshots.source.full_hash is None and snapshots.target.sample_hash is None


@pytest.mark.parametrize(
    "sets",
    [
        {"planned": "ab", "active": "a"},
        {"planned": "a", "active": "ab"},
        {"planned": "ab", "active": "ab", "skipped": "b"},
        {"planned": "ab", "active": "ab", "reactivated": "b"},
        {"planned": "ab", "active": "a", "skipped": "b", "reactivated": "b"},
        {"planned": "aab", "active": "ab"},
        {"planned": "ab", "active": "aab"},
    ],
)
def test_sets_that_do_not_make_up_the_plan_are_refused(sets: dict[str, str]) -> None:
    with pytest.raises(QualityScopeError):
        NativeTransferQualityScope.of(**sets)  # type: ignore[arg-type]


def test_evidence_holds_counts_and_a_digest_and_no_partition_id() -> None:
    scope = NativeTransferQualityScope.of(planned=["id=1..9", "id=9..17"], active=["id=9..17"], skipped=["id=1..9"])
    evidence = scope.committed_snapshots(
        extracted={"id=9..17": 2}, committed={"id=1..9": 1, "id=9..17": 2}
    ).summary.as_json()
    assert evidence == {
        "kind": "dpone.native_transfer.quality_scope.v1",
        "digest": scope.digest,
        "planned_count": 2,
        "active_count": 1,
        "skipped_committed_count": 1,
        "reactivated_count": 0,
        "source_rows": 3,
        "target_rows": 3,
    }
    assert "id=" not in json.dumps(evidence)


def test_the_digest_does_not_depend_on_order_and_tells_roles_apart() -> None:
    assert NativeTransferQualityScope.of(planned="ba", active="ab").digest == (
        NativeTransferQualityScope.of(planned="ab", active="ba").digest
    )
    assert PARTIAL.digest != MIXED.digest


SUMMARY: dict[str, object] = {
    "digest": "sha256:" + "0" * 64,
    "planned_count": 2,
    "active_count": 1,
    "skipped_committed_count": 1,
    "reactivated_count": 0,
    "source_rows": None,
    "target_rows": 0,
}


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "0" * 64},
        {"planned_count": 3},
        {"planned_count": True},
        {"active_count": -1},
        {"skipped_committed_count": "1"},
        {"active_count": 2, "skipped_committed_count": 1, "reactivated_count": 2, "planned_count": 1},
        {"source_rows": -1},
        {"target_rows": True},
    ],
)
def test_a_summary_that_contradicts_itself_cannot_exist(changed: dict[str, object]) -> None:
    QualityScopeSummary(**SUMMARY)  # type: ignore[arg-type]
    with pytest.raises(QualityScopeError):
        QualityScopeSummary(**{**SUMMARY, **changed})  # type: ignore[arg-type]


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.tuples(st.sampled_from("ASR"), st.integers(0, 9)), max_size=8)
)
def test_any_plan_counts_each_partition_once(plan: dict[str, tuple[str, int]]) -> None:
    scope = NativeTransferQualityScope.of(
        planned=plan,
        active=[name for name, (role, _) in plan.items() if role in "AR"],
        skipped=[name for name, (role, _) in plan.items() if role in "SR"],
        reactivated=[name for name, (role, _) in plan.items() if role == "R"],
    )
    old = dict.fromkeys(scope.skipped, 1000)
    new = {name: count for name, (role, count) in plan.items() if role in "AR"}
    expected = sum(1000 if role == "S" else count for role, count in plan.values())
    snapshots = scope.projected_snapshots(extracted=new, staged=new, committed=old)
    assert (snapshots.source.row_count, snapshots.target.row_count) == (expected, expected)
