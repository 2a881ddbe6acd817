"""The seal of a compiled document: its fingerprint, who wrote it, and the hash of every byte before.

A reader of the same version that finds the bytes as they were written needs not judge again what the writer could only
write valid. A changed byte is refused. A seal detects edits, not forgery: it holds no key. Contract: DAG-26.
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
    """`body` is the document without the seal; `holds` says whether its bytes are those that were sealed."""

    body: bytes
    dpone_version: str
    fingerprint: str
    holds: bool


def sealed(body: bytes, *, fingerprint: str, dpone_version: str) -> bytes:
    """`body`, indented JSON that ends in a line with `}`, with its seal as the last field."""
    seal = (
        f',\n  "seal": {{"dpone_version": "{dpone_version}", "fingerprint": "{fingerprint}", '
        f'"sha256": "{_hash_of(body, fingerprint, dpone_version)}"}}'
    )
    return body.removesuffix(_END) + seal.encode("ascii") + _END


def seal_of(document: bytes) -> Seal | None:
    """The seal of a document as `sealed` wrote it, None where there is none in that place and form."""
    found = _SEAL.search(document, max(0, len(document) - _LONGEST))
    if found is None:
        return None
    body = document[: found.start()] + _END
    version, fingerprint, stated = (part.decode("ascii") for part in found.groups())
    return Seal(
        body=body,
        dpone_version=version,
        fingerprint=fingerprint,
        holds=stated == _hash_of(body, fingerprint, version),
    )


def _hash_of(body: bytes, fingerprint: str, dpone_version: str) -> str:
    return sha256_bytes(f"{dpone_version}\n{fingerprint}\n".encode() + body)
