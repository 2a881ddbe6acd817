"""`report`: finds the published evidence of a run below the evidence directory, or where a person points to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.html import run_html
from dpone_core.evidence.redaction import Redactor
from dpone_core.model.fingerprint import sha256_bytes
from dpone_core.model.identity import safe_run_id
from dpone_core.resources import DocumentTooLargeError, read_file_bounded
from dpone_core.use_cases.project import find_evidence_root, snapshot_env

_MAX_EVIDENCE_BYTES: Final = 16 << 20
_RECORD: Final = "run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvidence:
    """run.json as published, and the Markdown report beside it, None where it is gone."""

    content: bytes
    markdown: str | None

    @property
    def document(self) -> str:
        return self.content.decode("utf-8", "replace")

    def html(self, redactor: Redactor) -> str:
        """Renders report.html from run.json. Raises EvidenceNotFoundError for a file that is no record of a run."""
        try:
            document = json.loads(self.content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("report"), dict):
            raise EvidenceNotFoundError("that file is not the evidence of a run", fix="name a run.json")
        return run_html(document, redactor, evidence_sha256=sha256_bytes(self.content))


class EvidenceNotFoundError(ETLConfigurationError):
    """No such evidence was published, or it cannot be read."""

    code = "DPONE_EVIDENCE_NOT_FOUND"


def find_evidence(
    *, process: str | None, run_id: str | None, run: str | None = None, env: Mapping[str, str] | None = None
) -> FoundEvidence:
    """Returns the newest published run of a process or of one run id, or the one at `run`.

    Raises EvidenceNotFoundError.
    """
    root = find_evidence_root(snapshot_env(env))
    return _find_newest(root, process, run_id) if run is None else _read_at(root, run)


def _find_newest(root: Path, process: str | None, run_id: str | None) -> FoundEvidence:
    """The newest attempt that published run.json (load ids sort by time). Raises EvidenceNotFoundError."""
    pattern = f"{process or '*'}/{safe_run_id(run_id) if run_id else '*'}/*/{_RECORD}"
    found = sorted((root / "runs").glob(pattern), key=lambda path: path.parent.name)
    if not found:
        raise EvidenceNotFoundError(
            "no run was published there", fix="check --process, --run-id and DPONE_EVIDENCE_DIR"
        )
    return _read(found[-1])


def _read_at(root: Path, run: str) -> FoundEvidence:
    """`run` is a run.json, its directory, or either as a receipt's `evidence_path`. Raises EvidenceNotFoundError."""
    for place in (Path(run), root / run):
        record = place / _RECORD if place.is_dir() else place
        if record.is_file():
            return _read(record)
    raise EvidenceNotFoundError(
        "there is no run.json at that place",
        fix="name a run.json or the evidence_path of a receipt, and check DPONE_EVIDENCE_DIR",
    )


def _read(record: Path) -> FoundEvidence:
    markdown = record.with_name("report.md")
    try:
        content = read_file_bounded(record, _MAX_EVIDENCE_BYTES)
        text = read_file_bounded(markdown, _MAX_EVIDENCE_BYTES).decode("utf-8") if markdown.is_file() else None
    except (OSError, UnicodeDecodeError, DocumentTooLargeError):
        raise EvidenceNotFoundError("the evidence of that run cannot be read") from None
    return FoundEvidence(content=content, markdown=text)
