"""Every requested side yields exactly one snapshot, or required mode fails with a stable code.

A probe is untrusted: nothing it says beyond the requested counts reaches evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from dpone_core.acceptance.policy import AcceptanceMetricError
from dpone_core.acceptance.recorder import (
    AcceptanceSequenceError,
    SideDataset,
    UnavailableSide,
    unavailable_sides,
)
from dpone_core.errors import ConnectorError, ExitClass
from dpone_core.model.outcome import AcceptanceMetricSnapshot
from dpone_core.model.vocabulary import Boundary, LoadPath, Side
from tests.spec.acceptance.builders import (
    JournalEvidence,
    ScriptedProbe,
    acceptance_policy,
    recorder,
    side_dataset,
    table_schema,
)

ALL = (Side.SOURCE, Side.STAGED, Side.TARGET)
CANARY = "c4n4ry select * from secrets"
CHECKS = {"null_counts": ("id",), "distinct_counts": ("name",)}
SOURCE_CODE = "source_acceptance_metric_probe_unavailable"
STAGED_CODE = "staged_acceptance_metric_unavailable"
TARGET_CODE = "target_acceptance_metric_probe_unavailable"


def datasets(*sides: Side) -> tuple[SideDataset, ...]:
    return tuple(side_dataset(side) for side in sides)


@pytest.mark.parametrize(
    ("path", "source", "sink", "codes"),
    [
        (LoadPath.STAGED, True, True, []),
        (LoadPath.STAGED, False, True, [SOURCE_CODE]),
        (LoadPath.STAGED, True, False, [STAGED_CODE, TARGET_CODE]),
        (LoadPath.LEGACY, True, True, [STAGED_CODE]),
        (LoadPath.LEGACY, False, False, [SOURCE_CODE, STAGED_CODE, TARGET_CODE]),
        (LoadPath.RESUME, True, True, [STAGED_CODE]),
    ],
)
def test_sides_known_unavailable_are_named_at_plan_time(
    path: LoadPath, source: bool, sink: bool, codes: list[str]
) -> None:
    assert [missing.code for missing in unavailable_sides(acceptance_policy(), path, source, sink)] == codes


def test_only_requested_sides_can_be_unavailable() -> None:
    policy = acceptance_policy(capture={"staged": False, "source": False})
    assert unavailable_sides(policy, LoadPath.LEGACY, False, False) == (
        UnavailableSide(side=Side.TARGET, code=TARGET_CODE),
    )
    assert unavailable_sides(acceptance_policy(enabled=False), LoadPath.LEGACY, False, False) == ()


@pytest.mark.parametrize(
    ("path", "source", "sink", "code"),
    [
        (LoadPath.STAGED, None, ScriptedProbe(), SOURCE_CODE),
        (LoadPath.STAGED, ScriptedProbe(), None, STAGED_CODE),
        (LoadPath.LEGACY, ScriptedProbe(), ScriptedProbe(), STAGED_CODE),
        (LoadPath.RESUME, ScriptedProbe(), ScriptedProbe(), STAGED_CODE),
    ],
)
def test_required_mode_refuses_an_unavailable_side_before_any_probe_is_asked(
    path: LoadPath, source: ScriptedProbe | None, sink: ScriptedProbe | None, code: str
) -> None:
    evidence = JournalEvidence()
    owner = recorder(acceptance_policy(), path=path, source=source, sink=sink, evidence=evidence)
    with pytest.raises(AcceptanceMetricError) as refused:
        owner.validate(datasets(*ALL))
    assert refused.value.code == code
    assert refused.value.exit_class is ExitClass.EXECUTED
    expected = Boundary.RESUME_VALIDATION if path is LoadPath.RESUME else Boundary.PRE_COMMIT
    assert refused.value.boundary is expected
    assert evidence.snapshots == []


def test_required_mode_refuses_a_side_whose_dataset_does_not_exist() -> None:
    owner = recorder(acceptance_policy(), source=ScriptedProbe(), sink=ScriptedProbe())
    with pytest.raises(AcceptanceMetricError) as refused:
        owner.validate(datasets(Side.SOURCE, Side.TARGET))
    assert refused.value.code == STAGED_CODE


def test_a_legacy_route_that_does_not_ask_for_staged_needs_none() -> None:
    owner = recorder(
        acceptance_policy(capture={"staged": False}),
        path=LoadPath.LEGACY,
        source=ScriptedProbe(),
        sink=ScriptedProbe(),
    )
    owner.validate(datasets(Side.SOURCE, Side.TARGET))


def test_warn_only_mode_records_one_warning_for_every_unavailable_side() -> None:
    evidence = JournalEvidence()
    owner = recorder(acceptance_policy(mode="warn_only"), path=LoadPath.LEGACY, sink=ScriptedProbe(), evidence=evidence)
    owner.validate(datasets(Side.SOURCE, Side.TARGET))
    for side in ALL:
        owner.capture(side)
    metrics = owner.run_metrics(3)
    assert metrics is not None
    assert [(snapshot.side, snapshot.warnings) for snapshot in metrics.snapshots] == [
        (Side.SOURCE, (SOURCE_CODE,)),
        (Side.STAGED, (STAGED_CODE,)),
        (Side.TARGET, ()),
    ]
    assert metrics.warnings == 2
    assert len(evidence.snapshots) == 3
    staged = metrics.snapshots[1]
    assert (staged.row_count, dict(staged.null_counts), staged.succeeded) == (None, {}, False)


def test_explicit_columns_are_judged_per_side_before_any_probe_is_asked() -> None:
    probe = ScriptedProbe()
    owner = recorder(acceptance_policy(checks={"null_counts": ("id",)}), source=probe, sink=probe)
    other = side_dataset(Side.TARGET, table_schema("ID"))
    with pytest.raises(AcceptanceMetricError) as refused:
        owner.validate((*datasets(Side.SOURCE, Side.STAGED), other))
    assert refused.value.code == "target_acceptance_metric_unknown_columns"
    assert probe.requests == []


def test_a_staged_load_records_each_side_where_its_lifecycle_says_so() -> None:
    journal: list[str] = []
    evidence = JournalEvidence(journal)
    owner = recorder(
        acceptance_policy(checks=CHECKS), source=ScriptedProbe(journal), sink=ScriptedProbe(journal), evidence=evidence
    )
    owner.validate(datasets(*ALL))
    owner.capture(Side.SOURCE)
    owner.capture(Side.STAGED)
    journal.append("finalize")
    owner.capture(Side.TARGET)
    assert journal == [
        "probe source",
        "evidence source",
        "probe staged",
        "evidence staged",
        "finalize",
        "probe target",
        "evidence target",
    ]
    assert [boundary for _, boundary in evidence.snapshots] == [
        Boundary.PRE_COMMIT,
        Boundary.PRE_COMMIT,
        Boundary.POST_COMMIT,
    ]


def test_the_published_run_metrics_shape_is_reproduced() -> None:
    owner = recorder(
        acceptance_policy(capture={"staged": False, "target": False}, checks=CHECKS), source=ScriptedProbe()
    )
    owner.validate(datasets(Side.SOURCE))
    owner.capture(Side.SOURCE)
    metrics = owner.run_metrics(10)
    assert metrics is not None
    assert metrics.as_json() == {
        "kind": "dpone.acceptance.run_metrics.v1",
        "mode": "required",
        "snapshots": {
            "source": {
                "kind": "dpone.acceptance.metric_snapshot.v1",
                "side": "source",
                "dataset": "db.source",
                "columns": ["id", "name"],
                "row_count": 3,
                "null_counts": {"id": 0},
                "distinct_counts": {"name": 3},
                "warnings": [],
                "captured_before_cleanup": True,
            }
        },
        "load_result_rows": 10,
    }


class Exploding(Mapping[str, object]):
    """A mapping with code behind it."""

    def __getitem__(self, key: str) -> object:
        raise RuntimeError(CANARY)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError(CANARY)

    def __len__(self) -> int:
        return 1


GOOD: dict[str, object] = {"row_count": 3, "null_counts": {"id": 0}, "distinct_counts": {"name": 3}}
HOSTILE: dict[str, object] = {
    "list": [0],
    "text": "0",
    "number": 3,
    "empty": {},
    "row count false": {**GOOD, "row_count": False},
    "row count true": {**GOOD, "row_count": True},
    "row count text": {**GOOD, "row_count": "0"},
    "row count list": {**GOOD, "row_count": [0]},
    "row count none": {**GOOD, "row_count": None},
    "row count float": {**GOOD, "row_count": 3.0},
    "row count negative": {**GOOD, "row_count": -1},
    "row count endless": {**GOOD, "row_count": 10**5000},
    "row count missing": {key: value for key, value in GOOD.items() if key != "row_count"},
    "null counts missing": {key: value for key, value in GOOD.items() if key != "null_counts"},
    "null counts list": {**GOOD, "null_counts": [("id", 0)]},
    "null counts of another column": {**GOOD, "null_counts": {"ID": 0}},
    "null count bool": {**GOOD, "null_counts": {"id": False}},
    "null count negative": {**GOOD, "null_counts": {"id": -1}},
    "more nulls than rows": {**GOOD, "null_counts": {"id": 4}},
    "distinct count missing": {**GOOD, "distinct_counts": {}},
    "distinct count none": {**GOOD, "distinct_counts": {"name": None}},
    "distinct count float": {**GOOD, "distinct_counts": {"name": 3.0}},
    "warning": {**GOOD, "warnings": [CANARY]},
    "warning text": {**GOOD, "warnings": CANARY},
    "warning mapping": {**GOOD, "warnings": {}},
}


def measured(answer: object, mode: str) -> tuple[AcceptanceMetricSnapshot | None, JournalEvidence]:
    evidence = JournalEvidence()
    policy = acceptance_policy(mode=mode, capture={"source": False, "staged": False}, checks=CHECKS)
    owner = recorder(policy, sink=ScriptedProbe(answer=answer), evidence=evidence)
    owner.validate(datasets(Side.TARGET))
    return owner.capture(Side.TARGET), evidence


@pytest.mark.parametrize("name", HOSTILE)
def test_required_mode_rejects_a_hostile_answer(name: str) -> None:
    with pytest.raises(AcceptanceMetricError) as refused:
        measured(HOSTILE[name], "required")
    assert refused.value.code == "target_acceptance_metric_snapshot_invalid"
    assert refused.value.boundary is Boundary.POST_COMMIT
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("name", HOSTILE)
def test_warn_only_mode_keeps_nothing_of_a_hostile_answer(name: str) -> None:
    snapshot, evidence = measured(HOSTILE[name], "warn_only")
    assert snapshot == AcceptanceMetricSnapshot(
        side=Side.TARGET, dataset="db.target", warnings=("acceptance_metric_snapshot_invalid",)
    )
    assert [recorded for recorded, _ in evidence.snapshots] == [snapshot]


def test_identity_and_extra_keys_of_an_answer_never_enter_evidence() -> None:
    answer = {
        **GOOD,
        "kind": CANARY,
        "dataset": CANARY,
        "columns": [CANARY],
        "rows": [CANARY],
        "null_counts": {"id": 1, CANARY: 9},
        "warnings": [],
    }
    snapshot, _ = measured(answer, "required")
    assert snapshot is not None
    assert CANARY not in json.dumps(snapshot.as_json())
    assert (snapshot.dataset, snapshot.columns, dict(snapshot.null_counts)) == ("db.target", ("id", "name"), {"id": 1})


def test_a_count_that_was_not_requested_is_not_kept() -> None:
    policy = acceptance_policy(
        capture={"source": False, "staged": False}, checks={"row_count": False, "null_counts": ("id",)}
    )
    owner = recorder(policy, sink=ScriptedProbe(answer=GOOD))
    owner.validate(datasets(Side.TARGET))
    snapshot = owner.capture(Side.TARGET)
    assert snapshot is not None
    assert (snapshot.row_count, dict(snapshot.distinct_counts)) == (None, {})


def test_empty_datasets_are_values() -> None:
    snapshot, _ = measured({"row_count": 0, "null_counts": {"id": 0}, "distinct_counts": {"name": 0}}, "required")
    assert snapshot is not None and snapshot.row_count == 0 and snapshot.succeeded


@pytest.mark.parametrize(
    "probe",
    [
        ScriptedProbe(error=ConnectorError(CANARY)),
        ScriptedProbe(error=KeyError(CANARY)),
        ScriptedProbe(answer=Exploding()),
        ScriptedProbe(answer={**GOOD, "null_counts": Exploding()}),
    ],
    ids=["connector error", "foreign error", "exploding answer", "exploding counts"],
)
@pytest.mark.parametrize("side", ALL)
def test_a_failing_probe_becomes_a_stable_code(probe: ScriptedProbe, side: Side) -> None:
    capture = {other.value: other is side for other in ALL}
    required = recorder(acceptance_policy(capture=capture), source=probe, sink=probe)
    required.validate(datasets(side))
    with pytest.raises(AcceptanceMetricError) as refused:
        required.capture(side)
    assert refused.value.code == f"{side.value}_acceptance_metric_probe_failed"
    assert refused.value.__cause__ is not None
    assert CANARY not in str(refused.value) + str(refused.value.as_evidence())
    warned = recorder(acceptance_policy(capture=capture, mode="warn_only"), source=probe, sink=probe)
    warned.validate(datasets(side))
    snapshot = warned.capture(side)
    assert snapshot is not None and snapshot.warnings == ("acceptance_metric_probe_failed",)


def test_unknown_columns_are_excluded_and_the_rest_is_measured_in_warn_only_mode() -> None:
    probe = ScriptedProbe()
    policy = acceptance_policy(
        mode="warn_only", capture={"source": False, "staged": False}, checks={"null_counts": ("id", "ghost")}
    )
    owner = recorder(policy, sink=probe)
    owner.validate(datasets(Side.TARGET))
    snapshot = owner.capture(Side.TARGET)
    assert probe.requests[0].null_counts == ("id",)
    assert snapshot is not None
    assert (snapshot.row_count, snapshot.warnings) == (3, ("acceptance_metric_unknown_columns",))


def test_a_side_with_nothing_to_measure_is_not_probed() -> None:
    probe = ScriptedProbe()
    policy = acceptance_policy(
        mode="warn_only",
        capture={"source": False, "staged": False},
        checks={"row_count": False, "null_counts": ("ghost",)},
    )
    owner = recorder(policy, sink=probe)
    owner.validate(datasets(Side.TARGET))
    snapshot = owner.capture(Side.TARGET)
    assert probe.requests == []
    assert snapshot is not None and not snapshot.succeeded


def test_a_disabled_policy_measures_nothing() -> None:
    probe = ScriptedProbe()
    owner = recorder(acceptance_policy(enabled=False), source=probe, sink=probe)
    owner.validate(())
    assert [owner.capture(side) for side in ALL] == [None, None, None]
    assert owner.run_metrics(3) is None
    assert probe.requests == []


def test_resume_captures_stand_at_resume_validation() -> None:
    evidence = JournalEvidence()
    policy = acceptance_policy(capture={"staged": False})
    owner = recorder(policy, path=LoadPath.RESUME, source=ScriptedProbe(), sink=ScriptedProbe(), evidence=evidence)
    owner.validate(datasets(Side.SOURCE, Side.TARGET))
    owner.capture(Side.SOURCE)
    owner.capture(Side.TARGET)
    assert {boundary for _, boundary in evidence.snapshots} == {Boundary.RESUME_VALIDATION}


def test_a_capture_needs_a_validation() -> None:
    with pytest.raises(AcceptanceSequenceError):
        recorder(acceptance_policy(), source=ScriptedProbe()).capture(Side.SOURCE)


def test_a_side_is_captured_once_and_validated_once() -> None:
    owner = recorder(acceptance_policy(), source=ScriptedProbe(), sink=ScriptedProbe())
    owner.validate(datasets(*ALL))
    with pytest.raises(AcceptanceSequenceError):
        owner.validate(datasets(*ALL))
    owner.capture(Side.SOURCE)
    with pytest.raises(AcceptanceSequenceError):
        owner.capture(Side.SOURCE)


@pytest.mark.parametrize("mode", ["required", "warn_only"])
def test_run_metrics_need_every_requested_side(mode: str) -> None:
    owner = recorder(acceptance_policy(mode=mode), source=ScriptedProbe(), sink=ScriptedProbe())
    owner.validate(datasets(*ALL))
    owner.capture(Side.SOURCE)
    with pytest.raises(AcceptanceSequenceError) as refused:
        owner.run_metrics(3)
    assert "staged, target" in str(refused.value)


def test_load_result_rows_that_are_no_count_are_unknown() -> None:
    owner = recorder(acceptance_policy(capture={"staged": False, "target": False}), source=ScriptedProbe())
    owner.validate(datasets(Side.SOURCE))
    owner.capture(Side.SOURCE)
    metrics = owner.run_metrics(True)
    assert metrics is not None and metrics.load_result_rows is None


class FailingEvidence(JournalEvidence):
    def record_snapshot(self, snapshot: AcceptanceMetricSnapshot, boundary: Boundary) -> None:
        raise OSError("disk full")


def test_a_snapshot_that_could_not_be_recorded_does_not_count() -> None:
    owner = recorder(
        acceptance_policy(capture={"staged": False, "target": False}),
        source=ScriptedProbe(),
        evidence=FailingEvidence(),
    )
    owner.validate(datasets(Side.SOURCE))
    with pytest.raises(OSError):
        owner.capture(Side.SOURCE)
    with pytest.raises(AcceptanceSequenceError):
        owner.run_metrics(3)
