"""Writes the evidence of one attempt: report.md first, run.json last. A reader that finds run.json finds all of it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dpone_core.model.fingerprint import sha256_bytes
from dpone_core.model.identity import LoadIdentity, safe_run_id
from dpone_core.ports.evidence import EvidenceFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvidence:
    """`path` is relative to the evidence root; `sha256` covers run.json's bytes."""

    path: str
    sha256: str


def evidence_directory(process: str, identity: LoadIdentity) -> str:
    return f"runs/{process}/{safe_run_id(identity.run_id)}/{identity.load_id}"


def publish_evidence(
    files: EvidenceFiles, process: str, identity: LoadIdentity, report: object, markdown: str
) -> PublishedEvidence:
    directory = evidence_directory(process, identity)
    content = (json.dumps(report, indent=2, sort_keys=False, ensure_ascii=False, allow_nan=False) + "\n").encode()
    files.publish(f"{directory}/report.md", markdown.encode())
    path = f"{directory}/run.json"
    files.publish(path, content)
    return PublishedEvidence(path=path, sha256=sha256_bytes(content))
