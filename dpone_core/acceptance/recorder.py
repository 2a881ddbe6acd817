"""Measures the requested sides of a load with metric probes and records one snapshot for each.

The coordinator passes the datasets that exist to `validate` and calls `capture` at the right moment of its own order
of steps; this module knows no coordinator and no staged handle. Contract: ACC-14, ACC-29, ACC-33.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from dpone_core.acceptance.metrics import SNAPSHOT_INVALID, MetricAnswerError, canonical_snapshot
from dpone_core.acceptance.policy import AcceptanceMetricError, AcceptanceMetricPolicy
from dpone_core.acceptance.selectors import NOTHING_SELECTED, SelectedColumns, select_columns
from dpone_core.errors import ETLExecutionError
from dpone_core.model.load_config import TableName
from dpone_core.model.outcome import AcceptanceMetricSnapshot, AcceptanceRunMetrics, count_or_none
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import Boundary, LoadPath, Side
from dpone_core.ports.metrics import MetricProbe, MetricRequest
from dpone_core.ports.source import ExtractRequest

PROBE_FAILED: Final = "acceptance_metric_probe_failed"
_UNAVAILABLE: Final = {
    Side.SOURCE: "source_acceptance_metric_probe_unavailable",
    Side.STAGED: "staged_acceptance_metric_unavailable",
    Side.TARGET: "target_acceptance_metric_probe_unavailable",
}


class AcceptanceSequenceError(ETLExecutionError):
    """A coordinator called the recorder out of order: a side was captured twice, before `validate`, or not at all."""

    code = "DPONE_ACCEPTANCE_SEQUENCE_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableSide:
    """A requested side that cannot be measured, and the stable code of the reason."""

    side: Side
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideDataset:
    """An existing dataset to measure. `dataset` is its name in evidence; a query is named by its hash, never by SQL.

    `schema` is the payload schema of this side. `extract` is set for the source, `table` for staging and target.
    """

    side: Side
    dataset: str
    schema: TableSchema
    extract: ExtractRequest | None = None
    table: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideProbes:
    """The probe of each session, None for none. That of the sink measures both the staged and the target side."""

    source: MetricProbe | None
    sink: MetricProbe | None

    def of(self, side: Side) -> MetricProbe | None:
        return self.source if side is Side.SOURCE else self.sink


class AcceptanceEvidence(Protocol):
    """The port that stores snapshots as load steps."""

    def record_snapshot(self, snapshot: AcceptanceMetricSnapshot, boundary: Boundary) -> None:
        """Called once per requested side, in the order of capture. What it raises reaches the coordinator."""
        ...


def unavailable_sides(
    policy: AcceptanceMetricPolicy, load_path: LoadPath, source_has_probe: bool, sink_has_probe: bool
) -> tuple[UnavailableSide, ...]:
    """The requested sides that the load path or its connectors cannot measure; empty for a disabled policy. Pure.

    `check` and `plan` pass what the connectors declare, the recorder passes the probes it has.
    """
    missing = []
    for side in policy.requested_sides:
        has_probe = source_has_probe if side is Side.SOURCE else sink_has_probe
        if side not in load_path.physical_sides or not has_probe:
            missing.append(UnavailableSide(side=side, code=_UNAVAILABLE[side]))
    return tuple(missing)


class AcceptanceMetricsRecorder:
    """Measures the sides of one load, on one thread.

    Call `validate` once before any mutation, then `capture` for each side, then `run_metrics`.
    """

    def __init__(
        self,
        *,
        policy: AcceptanceMetricPolicy,
        load_path: LoadPath,
        probes: SideProbes,
        evidence: AcceptanceEvidence,
    ) -> None:
        self._policy = policy
        self._load_path = load_path
        self._probes = probes
        self._evidence = evidence
        self._validated: dict[Side, tuple[SideDataset, SelectedColumns]] = {}
        self._snapshots: dict[Side, AcceptanceMetricSnapshot] = {}
        self._is_validated = False

    def validate(self, datasets: Iterable[SideDataset]) -> None:
        """Checks that every requested side can be measured and resolves its columns, before any target mutation.

        A requested side without dataset or probe is unavailable. In required mode it raises AcceptanceMetricError, as
        do unknown columns; in warn-only mode a snapshot with a warning is recorded for it.
        """
        if self._is_validated:
            raise AcceptanceSequenceError("`validate` of the acceptance recorder was called twice in one load")
        present = {dataset.side: dataset for dataset in datasets}
        known = unavailable_sides(
            self._policy, self._load_path, self._probes.source is not None, self._probes.sink is not None
        )
        codes = {missing.side: missing.code for missing in known}
        for side in self._policy.requested_sides:
            code = codes.get(side) or (None if side in present else _UNAVAILABLE[side])
            if code is not None and self._policy.is_required:
                raise AcceptanceMetricError(code=code, side=side, boundary=self._validation_boundary)
            if code is not None:
                codes[side] = code
        for side in self._policy.requested_sides:
            if side not in codes:
                selected = select_columns(
                    self._policy, side=side, schema=present[side].schema, boundary=self._validation_boundary
                )
                self._validated[side] = (present[side], selected)
        self._is_validated = True
        for side, code in codes.items():
            name = present[side].dataset if side in present else ""
            warning = AcceptanceMetricSnapshot(side=side, dataset=name, warnings=(code,))
            self._publish(warning, self._validation_boundary)

    def capture(self, side: Side) -> AcceptanceMetricSnapshot | None:
        """Measures one side now and records its snapshot; None when the side is not requested.

        An unavailable side keeps the warning snapshot that `validate` recorded. Required mode raises
        AcceptanceMetricError `<side>_acceptance_metric_probe_failed` (probe error in `__cause__`) or
        `<side>_acceptance_metric_snapshot_invalid`; warn-only mode records a warning snapshot for either.
        """
        if side not in self._policy.requested_sides:
            return None
        if not self._is_validated:
            raise AcceptanceSequenceError("`capture` of the acceptance recorder was called before `validate`")
        if side not in self._validated:
            return self._snapshots[side]
        if side in self._snapshots:
            raise AcceptanceSequenceError(
                f"`capture` of the acceptance recorder was called twice for side {side.value}"
            )
        dataset, selected = self._validated[side]
        return self._publish(self._measure(dataset, selected), self._capture_boundary(side))

    def run_metrics(self, load_result_rows: int | None) -> AcceptanceRunMetrics | None:
        """All snapshots of the load, None for a disabled policy.

        Raises AcceptanceSequenceError for a side without one.
        """
        if not self._policy.enabled:
            return None
        missing = [side.value for side in self._policy.requested_sides if side not in self._snapshots]
        if missing:
            raise AcceptanceSequenceError(
                f"`capture` of the acceptance recorder was not called for: {', '.join(missing)}"
            )
        return AcceptanceRunMetrics(
            mode=self._policy.mode,
            snapshots=tuple(self._snapshots[side] for side in self._policy.requested_sides),
            load_result_rows=count_or_none(load_result_rows),
        )

    @property
    def _validation_boundary(self) -> Boundary:
        return Boundary.RESUME_VALIDATION if self._load_path is LoadPath.RESUME else Boundary.PRE_COMMIT

    def _capture_boundary(self, side: Side) -> Boundary:
        if self._load_path is LoadPath.RESUME:
            return Boundary.RESUME_VALIDATION
        return Boundary.POST_COMMIT if side is Side.TARGET else Boundary.PRE_COMMIT

    def _measure(self, dataset: SideDataset, selected: SelectedColumns) -> AcceptanceMetricSnapshot:
        request = MetricRequest(
            side=dataset.side,
            extract=dataset.extract,
            table=dataset.table,
            row_count=self._policy.row_count,
            null_counts=selected.null_counts,
            distinct_counts=selected.distinct_counts,
        )
        if NOTHING_SELECTED in selected.warnings:
            return _warning_snapshot(dataset, selected.warnings)
        try:
            answer = _copy_answer(self._probe(dataset.side).collect(request))
        except Exception as error:  # noqa: BLE001 - a probe is foreign code; its error becomes a stable code
            return self._reject(dataset, selected, PROBE_FAILED, error)
        try:
            return canonical_snapshot(request, answer, dataset=dataset.dataset, warnings=selected.warnings)
        except MetricAnswerError as error:
            return self._reject(dataset, selected, SNAPSHOT_INVALID, error)

    def _reject(
        self, dataset: SideDataset, selected: SelectedColumns, code: str, error: Exception
    ) -> AcceptanceMetricSnapshot:
        if self._policy.is_required:
            raise AcceptanceMetricError(
                code=f"{dataset.side.value}_{code}",
                side=dataset.side,
                boundary=self._capture_boundary(dataset.side),
            ) from error
        return _warning_snapshot(dataset, (*selected.warnings, code))

    def _probe(self, side: Side) -> MetricProbe:
        probe = self._probes.of(side)
        if probe is None:
            raise AcceptanceSequenceError(f"side {side.value} was to be measured, but has no probe")
        return probe

    def _publish(self, snapshot: AcceptanceMetricSnapshot, boundary: Boundary) -> AcceptanceMetricSnapshot:
        self._evidence.record_snapshot(snapshot, boundary)
        self._snapshots[snapshot.side] = snapshot
        return snapshot


def _warning_snapshot(dataset: SideDataset, warnings: tuple[str, ...]) -> AcceptanceMetricSnapshot:
    return AcceptanceMetricSnapshot(side=dataset.side, dataset=dataset.dataset, warnings=warnings)


def _copy_answer(answer: object) -> object:
    """Copies two levels into plain dicts, so that the code of an unusual mapping runs here, where its errors are
    caught.
    """
    if not isinstance(answer, Mapping):
        return answer
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in answer.items()}
