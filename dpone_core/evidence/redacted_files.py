"""The one way by which evidence files leave a process: everything that is written is redacted first (EVID-22)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dpone_core.evidence.redaction import Redactor
from dpone_core.ports.runtime import EvidenceFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedEvidenceFiles:
    """EvidenceFiles that redact what is published to `files`; what holds no secret keeps its bytes.

    An HTML page is left as it is: its builder redacts each text before it escapes it.
    """

    files: EvidenceFiles
    redactor: Redactor

    def publish(self, relative_path: str, content: bytes) -> None:
        self.files.publish(relative_path, self._redacted(relative_path, content))

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        self.files.publish_together({path: self._redacted(path, content) for path, content in contents.items()})

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        return self.files.read(relative_path, limit_bytes)

    def names(self, relative_path: str) -> tuple[str, ...]:
        return self.files.names(relative_path)

    def remove(self, relative_path: str) -> None:
        self.files.remove(relative_path)

    def _redacted(self, relative_path: str, content: bytes) -> bytes:
        if relative_path.endswith(".html"):
            return content
        if not relative_path.endswith(".json"):
            return self.redactor.text(content.decode()).encode()
        document = json.loads(content)
        redacted = self.redactor.value(document)
        return content if redacted == document else render_json(redacted)


def render_json(document: object) -> bytes:
    """A document as the bytes of an evidence file. Raises ValueError for numbers that are not finite."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
