"""Builds and publishes the report of one native transfer, as Markdown and JSON, one pair of files per process and
run.

`passed: true` says that the transfer and its required acceptance succeeded; it says nothing about post-hooks. The
JSON of an earlier attempt is removed before the Markdown is written, and the new JSON is written last, so that a
publication that fails half-way leaves no report of success (NAT-14).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dpone_core.model.identity import safe_run_id
from dpone_core.model.outcome import LoadResult
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint
from dpone_core.model.special_values import ConvertedValues, counts_by_name, read_counts, sum_counts
from dpone_core.native_transfer.decision import ResumePlan
from dpone_core.native_transfer.ledger import CONVERTED_FIELD
from dpone_core.ports.runtime import EvidenceFiles

REPORT_SCHEMA: Final = "dpone.native_transfer.runtime_report.v1"
SUCCESS_SCOPE: Final = "native_transfer_acceptance"
COMMIT_UNKNOWN: Final = "COMMIT_UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUnknown:
    """The part of the report about a batch in doubt.

    `failure_boundary` is `target_invocation` when the sink did not confirm its commit, and `checkpoint_persistence`
    when it did but the committed checkpoints could not be written.
    """

    failure_boundary: str
    checkpoint_state: str

    def as_json(self) -> dict[str, object]:
        return {
            "status": COMMIT_UNKNOWN,
            "code": COMMIT_UNKNOWN,
            "failure_boundary": self.failure_boundary,
            "target_state": "unknown",
            "checkpoint_state": self.checkpoint_state,
            "source_state": "not_advanced",
            "safe_to_retry": False,
            "operator_verification_required": True,
            "recovery_action": "dpone transfer show, then dpone transfer reconcile",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """The facts of one transfer. With `unknown` set the transfer did not pass and an operator has to reconcile it.

    `consistency` is `exported_snapshot` when all rows come from one source snapshot, else `none`.
    """

    process: str
    run_id: str
    load_id: str
    source_type: str
    sink_type: str
    strategy: str
    created_at: datetime
    consistency: str
    checkpoints: tuple[PartitionCheckpoint, ...]
    resume: ResumePlan
    result: LoadResult
    quality_scope: Mapping[str, object] | None = None
    warnings: tuple[str, ...] = ()
    unknown: CommitUnknown | None = field(default=None)

    def as_json(self) -> dict[str, object]:
        result = self.result
        return {
            "schema_version": REPORT_SCHEMA,
            "created_at": self.created_at.isoformat(),
            "process": self.process,
            "run_id": self.run_id,
            "load_id": self.load_id,
            "source_type": self.source_type,
            "sink_type": self.sink_type,
            "strategy": self.strategy,
            "success_scope": SUCCESS_SCOPE,
            "consistency": self.consistency,
            "checkpoint_summary": checkpoint_summary(self.checkpoints),
            "resume_plan": self.resume.as_json(),
            "load_result": {
                "inserted_rows": result.inserted_rows,
                "updated_rows": result.updated_rows,
                "total_rows": result.final_rows,
                "staging_rows": result.staged_rows,
            },
            **_converted(result.converted_values, self.checkpoints),
            "passed": self.unknown is None,
            **({} if self.quality_scope is None else {"quality_scope": dict(self.quality_scope)}),
            **({} if not self.warnings else {"warnings": list(self.warnings)}),
            **({} if self.unknown is None else self.unknown.as_json()),
        }


def _converted(
    declared: Sequence[ConvertedValues], records: Iterable[PartitionCheckpoint]
) -> dict[str, dict[str, int | None]]:
    """Converted values of all partitions of the run, by rule; None when the checkpoint of a partition does not state
    it.
    """
    rules = tuple(each.rule for each in declared)
    parts = [read_counts(record.diagnostics.get(CONVERTED_FIELD), rules) or () for record in records]
    return {"converted_values": counts_by_name(sum_counts(rules, parts))} if rules else {}


def checkpoint_summary(records: Iterable[PartitionCheckpoint]) -> dict[str, int]:
    """The number of partitions in each of the six checkpoint statuses."""
    counts = Counter(record.status for record in records)
    return {status.value: counts[status] for status in CheckpointStatus}


def report_path(process: str, run_id: str) -> str:
    """The path of the report without suffix. Distinct run ids get distinct paths, also `a.b` and `a_b`."""
    return f"native_transfer/{process}/native_transfer_runtime_{safe_run_id(run_id)}"


def publish_report(files: EvidenceFiles, report: TransferReport) -> None:
    """Replaces the published report of this run. Raises EvidenceFilesError."""
    path, document = report_path(report.process, report.run_id), report.as_json()
    files.remove(f"{path}.json")
    files.publish(f"{path}.md", _markdown(document).encode())
    files.publish(f"{path}.json", (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def _markdown(document: Mapping[str, object]) -> str:
    title = "succeeded" if document["passed"] else f"did not succeed: {document['code']}"
    names = ("process", "run_id", "load_id", "source_type", "sink_type", "strategy", "consistency", "created_at")
    lines = [f"# Native transfer {title}", "", *(f"- {name}: `{document[name]}`" for name in names)]
    for section in ("checkpoint_summary", "load_result", "converted_values", "quality_scope"):
        values = document.get(section)
        if isinstance(values, Mapping):
            lines += ["", f"## {section}", "", *(f"- {name}: {value}" for name, value in values.items())]
    if not document["passed"]:
        lines += ["", f"Way out: {document['recovery_action']}."]
    return "\n".join(lines) + "\n"
