"""Finds the published evidence of a run below the evidence directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.identity import safe_run_id

_MAX_EVIDENCE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvidence:
    document: str
    markdown: str


class EvidenceNotFoundError(ETLConfigurationError):
    code = "DPONE_EVIDENCE_NOT_FOUND"


def newest_evidence(root: Path, process: str | None, run_id: str | None) -> FoundEvidence:
    """The newest attempt that published run.json (load ids sort by time). Raises EvidenceNotFoundError."""
    runs = root / "runs"
    pattern = f"{process or '*'}/{safe_run_id(run_id) if run_id else '*'}/*/run.json"
    found = sorted(runs.glob(pattern), key=lambda path: path.parent.name)
    if not found:
        raise EvidenceNotFoundError(
            "no run was published there", fix="check --process, --run-id and DPONE_EVIDENCE_DIR"
        )
    newest = found[-1]
    report = newest.with_name("report.md")
    if newest.stat().st_size > _MAX_EVIDENCE_BYTES or not report.is_file():
        raise EvidenceNotFoundError("the evidence of that run is incomplete")
    return FoundEvidence(document=newest.read_text("utf-8"), markdown=report.read_text("utf-8"))
