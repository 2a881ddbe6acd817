"""Valid acceptance values with defaults, and real in-memory parts that keep an ordered journal."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.acceptance.policy import AcceptanceMetricPolicy
from dpone_core.acceptance.recorder import AcceptanceMetricsRecorder, SideDataset, SideProbes
from dpone_core.authoring.acceptance import AcceptanceSection
from dpone_core.model.load_config import TableName
from dpone_core.model.outcome import AcceptanceMetricSnapshot
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import Boundary, LoadPath, Side
from dpone_core.ports.metrics import MetricProbe, MetricRequest
from dpone_core.ports.source import ExtractRequest


def acceptance_policy(**fields: object) -> AcceptanceMetricPolicy:
    authored = {"enabled": True, "mode": "required", **fields}
    return AcceptanceMetricPolicy.from_section(AcceptanceSection.model_validate(authored, strict=False))


def table_schema(*names: str, unsupported: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema(
        columns=tuple(
            Column(
                name=name,
                type=ColumnType(kind=ColumnKind.UNSUPPORTED if name in unsupported else ColumnKind.INT64),
            )
            for name in (*names, *unsupported)
        )
    )


def side_dataset(side: Side, schema: TableSchema | None = None) -> SideDataset:
    return SideDataset(
        side=side,
        dataset=f"db.{side.value}",
        schema=schema or table_schema("id", "name"),
        extract=ExtractRequest(table=TableName(schema="db", name="orders")) if side is Side.SOURCE else None,
        table=None if side is Side.SOURCE else TableName(schema="db", name=side.value),
    )


class ScriptedProbe:
    """Answers every request with `answer`, or with exact counts of three rows when there is none."""

    def __init__(self, journal: list[str] | None = None, answer: object = None, error: Exception | None = None) -> None:
        self.journal = journal if journal is not None else []
        self.answer = answer
        self.error = error
        self.requests: list[MetricRequest] = []

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        self.requests.append(request)
        self.journal.append(f"probe {request.side.value}")
        if self.error is not None:
            raise self.error
        return exact_answer(request) if self.answer is None else self.answer  # type: ignore[return-value]


def exact_answer(request: MetricRequest) -> dict[str, object]:
    answer: dict[str, object] = {}
    if request.row_count:
        answer["row_count"] = 3
    answer["null_counts"] = dict.fromkeys(request.null_counts, 0)
    answer["distinct_counts"] = dict.fromkeys(request.distinct_counts, 3)
    return answer


class JournalEvidence:
    """Keeps every recorded snapshot in order."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.journal = journal if journal is not None else []
        self.snapshots: list[tuple[AcceptanceMetricSnapshot, Boundary]] = []

    def record_snapshot(self, snapshot: AcceptanceMetricSnapshot, boundary: Boundary) -> None:
        self.journal.append(f"evidence {snapshot.side.value}")
        self.snapshots.append((snapshot, boundary))


def recorder(
    policy: AcceptanceMetricPolicy,
    *,
    path: LoadPath = LoadPath.STAGED,
    source: MetricProbe | None = None,
    sink: MetricProbe | None = None,
    evidence: JournalEvidence | None = None,
) -> AcceptanceMetricsRecorder:
    return AcceptanceMetricsRecorder(
        policy=policy,
        load_path=path,
        probes=SideProbes(source=source, sink=sink),
        evidence=evidence or JournalEvidence(),
    )
