"""The seal of a compiled document: its fingerprint, the dpone version that wrote it, and a hash of all bytes before it.

A reader of the same version that finds the hash unchanged can skip the rules that the writer has already checked; a
document whose hash differs is refused. The seal detects edits. It does not detect forgery, because it holds no key.
Contract: DAG-26.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dpone_core.model.fingerprint import sha256_bytes

_END: Final = b"\n}\n"
_SEAL: Final = re.compile(
    rb',\n  "seal": \{"dpone_version": "([0-9A-Za-z.+-]{1,40})", "fingerprint": "(sha256:[0-9a-f]{64})", '
    rb'"sha256": "(sha256:[0-9a-f]{64})"\}\n\}\n\Z'
)
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """`body` is the document without its seal; `is_intact` is True when the bytes are the ones that were sealed."""

    body: bytes
    dpone_version: str
    fingerprint: str
    is_intact: bool


def add_seal(body: bytes, *, fingerprint: str, dpone_version: str) -> bytes:
    """Returns `body` with its seal as the last field. `body` is indented JSON whose last line is `}`."""
    seal = (
        f',\n  "seal": {{"dpone_version": "{dpone_version}", "fingerprint": "{fingerprint}", '
        f'"sha256": "{_hash_of(body, fingerprint, dpone_version)}"}}'
    )
    return body.removesuffix(_END) + seal.encode("ascii") + _END


def read_seal(document: bytes) -> Seal | None:
    """Reads the seal at the end of a document that `add_seal` wrote; None when there is no seal of that form."""
    found = _SEAL.search(document, max(0, len(document) - _LONGEST))
    if found is None:
        return None
    body = document[: found.start()] + _END
    version, fingerprint, stated = (part.decode("ascii") for part in found.groups())
    return Seal(
        body=body,
        dpone_version=version,
        fingerprint=fingerprint,
        is_intact=stated == _hash_of(body, fingerprint, version),
    )


def _hash_of(body: bytes, fingerprint: str, dpone_version: str) -> str:
    return sha256_bytes(f"{dpone_version}\n{fingerprint}\n".encode() + body)
