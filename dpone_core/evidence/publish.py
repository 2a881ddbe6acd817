"""Publishes the evidence files of one attempt: the files of its verdict together, or none of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dpone_core.evidence.html import run_html
from dpone_core.evidence.redacted_files import render_json
from dpone_core.evidence.redaction import Redactor
from dpone_core.model.fingerprint import sha256_bytes
from dpone_core.model.identity import LoadIdentity, safe_run_id
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.outcome import LoadResult
from dpone_core.ports.runtime import EvidenceFiles

LOAD_RECORD_KIND: Final = "dpone.load_record.v1"
RUN_RECORD: Final = "run.json"
HTML_REPORT: Final = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvidence:
    """Where run.json was published, relative to the evidence root, and the `sha256:` digest of its bytes."""

    path: str
    sha256: str


def attempts_directory(process: str, run_id: str) -> str:
    """The directory that holds one directory for each attempt of a run, relative to the evidence root."""
    return f"runs/{process}/{safe_run_id(run_id)}"


def evidence_directory(process: str, identity: LoadIdentity) -> str:
    """The directory of one attempt, relative to the evidence root."""
    return f"{attempts_directory(process, identity.run_id)}/{identity.load_id}"


def publish_load_record(
    files: EvidenceFiles,
    plan: LoadPlan,
    identity: LoadIdentity,
    result: LoadResult,
    quality: Mapping[str, object] | None,
) -> None:
    """Publishes `load.json`, the committed load with its accepted receipt, before source state may advance."""
    acceptance = result.acceptance_metrics
    document = {
        "kind": LOAD_RECORD_KIND,
        "process": plan.process,
        "run_id": identity.run_id,
        "load_id": identity.load_id,
        "target": str(plan.target.table),
        "finaliser": plan.target.finaliser.name,
        "extracted_rows": result.extracted_rows,
        "staged_rows": result.staged_rows,
        "inserted_rows": result.inserted_rows,
        "updated_rows": result.updated_rows,
        "final_rows": result.final_rows,
        "quality": None if quality is None else dict(quality),
        "acceptance": None if acceptance is None else acceptance.as_json(),
    }
    files.publish(f"{evidence_directory(plan.process, identity)}/load.json", render_json(document))


def publish_evidence(
    files: EvidenceFiles, process: str, identity: LoadIdentity, report: object, markdown: str, redactor: Redactor
) -> PublishedEvidence:
    """Publishes run.json, report.md and report.html: room is found for all three before one of them appears.

    Where that fails none of them stays, not even of an earlier publication of this attempt: what is there says what
    the caller knows. Raises EvidenceFilesError. `report` must be redacted already, because its digest is stated.
    """
    directory = evidence_directory(process, identity)
    content = render_json(report)
    sha256 = sha256_bytes(content)
    verdict = {
        f"{directory}/{RUN_RECORD}": content,
        f"{directory}/report.md": markdown.encode(),
        f"{directory}/{HTML_REPORT}": run_html(report, redactor, evidence_sha256=sha256).encode(),
    }
    try:
        files.publish_together(verdict)
    except BaseException:
        for path in verdict:
            with suppress(Exception):  # the failed publication is what the caller has to know
                files.remove(path)
        raise
    return PublishedEvidence(path=f"{directory}/{RUN_RECORD}", sha256=sha256)
