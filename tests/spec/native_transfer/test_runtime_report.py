"""The success report is the last thing written, and a failed publication leaves none (NAT-14)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dpone_core.errors import ETLExecutionError
from dpone_core.model.outcome import LoadResult
from dpone_core.native_transfer.decision import decide
from dpone_core.native_transfer.report import CommitUnknown, TransferReport, publish_report, report_path
from dpone_core.ports.runtime import EvidenceFiles
from dpone_core.state.evidence_files import EvidenceFilesError, LocalEvidenceFiles
from tests.spec.native_transfer.builders import APPEND, NOW, checkpoint, partitions

FIRST, SECOND, THIRD = partitions(APPEND)


def report(run_id: str = "r1") -> TransferReport:
    return TransferReport(
        process="orders",
        run_id=run_id,
        load_id="01KB6Q4X7D8M1T9N3VZ5C2R0AE",
        source_type="sqlite",
        sink_type="duckdb",
        strategy="incremental_append",
        created_at=NOW,
        consistency="none",
        checkpoints=(checkpoint(FIRST), checkpoint(SECOND)),
        resume=decide(partitions(APPEND), [checkpoint(FIRST)], APPEND.strategy),
        result=LoadResult(inserted_rows=4, updated_rows=0, final_rows=9, staged_rows=4),
        quality_scope={"planned_count": 3},
    )


def test_the_report_holds_the_documented_fields(tmp_path: Path) -> None:
    publish_report(LocalEvidenceFiles(root=tmp_path), report())
    (path,) = tmp_path.rglob("*.json")
    document = json.loads(path.read_text("utf-8"))
    assert path.name.startswith("native_transfer_runtime_r1-")
    assert document["schema_version"] == "dpone.native_transfer.runtime_report.v1"
    assert document["success_scope"] == "native_transfer_acceptance" and document["passed"] is True
    assert document["checkpoint_summary"] == {
        "planned": 0, "exported": 0, "loaded": 0, "finalized": 0, "committed": 2, "failed": 0,
    }  # fmt: skip
    assert document["resume_plan"]["summary"] == {"skip": 1, "retry": 2}
    assert document["load_result"] == {"inserted_rows": 4, "updated_rows": 0, "total_rows": 9, "staging_rows": 4}
    assert path.with_suffix(".md").is_file()


def test_a_terminal_report_never_says_passed(tmp_path: Path) -> None:
    unknown = CommitUnknown(failure_boundary="target_invocation", checkpoint_state="not_advanced")
    publish_report(LocalEvidenceFiles(root=tmp_path), replace(report(), unknown=unknown))
    (path,) = tmp_path.rglob("*.json")
    document = json.loads(path.read_text("utf-8"))
    assert document["passed"] is False and document["status"] == document["code"] == "COMMIT_UNKNOWN"
    assert document["safe_to_retry"] is False and document["operator_verification_required"] is True


@dataclass(slots=True)
class FailingFiles:
    """Real files whose `fails`-th operation is refused."""

    files: EvidenceFiles
    fails: int
    operations: list[str] = field(default_factory=list)

    def publish(self, relative_path: str, content: bytes) -> None:
        self._announce(f"publish {relative_path.rpartition('.')[2]}")
        self.files.publish(relative_path, content)

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        for path, content in contents.items():
            self.publish(path, content)

    def names(self, relative_path: str) -> tuple[str, ...]:
        return self.files.names(relative_path)

    def remove(self, relative_path: str) -> None:
        self._announce(f"remove {relative_path.rpartition('.')[2]}")
        self.files.remove(relative_path)

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        return self.files.read(relative_path, limit_bytes)

    def _announce(self, operation: str) -> None:
        self.operations.append(operation)
        if len(self.operations) == self.fails:
            raise EvidenceFilesError("refused")


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_publication_that_fails_leaves_no_new_success(tmp_path: Path, fails: int) -> None:
    files = LocalEvidenceFiles(root=tmp_path)
    publish_report(files, report())
    failing = FailingFiles(files, fails)
    with pytest.raises(ETLExecutionError):
        publish_report(failing, replace(report(), load_id="second"))
    assert failing.operations == ["remove json", "publish md", "publish json"][:fails]
    documents = [json.loads(path.read_text("utf-8")) for path in tmp_path.rglob("*.json")]
    assert [document["load_id"] for document in documents if document["passed"]] == (
        [report().load_id] if fails == 1 else []
    )
    assert not list(tmp_path.rglob("*.tmp"))


def test_run_ids_that_look_alike_have_reports_of_their_own() -> None:
    names = {report_path("orders", run_id).lower() for run_id in ("a.b", "a_b", "a/b", "A.b"[:1].lower() + ".b ")}
    assert len(names) == 4
