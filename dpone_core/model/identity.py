"""Ids of a run and of a load. A `run_id` names the operation and survives retries; a `load_id` names one attempt
(ULID).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final, NewType

RunId = NewType("RunId", str)
LoadId = NewType("LoadId", str)

MAX_RUN_ID_CHARACTERS: Final = 256
_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadIdentity:
    """The ids written with every row, step, receipt and log line of one attempt; `attempt` counts from 1."""

    run_id: RunId
    load_id: LoadId
    attempt: int


def load_id_from(milliseconds: int, entropy: bytes) -> LoadId:
    """Builds a ULID text (26 Crockford characters) from 48 bits of Unix milliseconds and 80 bits of `entropy`.

    Raises ValueError when a value does not fit.
    """
    if not 0 <= milliseconds < 1 << 48 or len(entropy) != 10:
        raise ValueError("expected milliseconds of at most 48 bits and exactly 10 bytes of entropy for a ULID")
    number = (milliseconds << 80) | int.from_bytes(entropy, "big")
    return LoadId("".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)))


def is_load_id(text: str) -> bool:
    """Whether a text has the form of a load id."""
    return len(text) == 26 and set(text) <= set(_CROCKFORD)


def safe_run_id(run_id: str) -> str:
    """A file name for a run id: its safe characters, at most 80, and 12 hex digits of its sha256.

    The hash keeps different run ids apart even where the file system treats their readable parts as equal.
    """
    readable = _UNSAFE.sub("_", run_id)[:80].strip(".") or "run"
    return f"{readable}-{hashlib.sha256(run_id.encode('utf-8')).hexdigest()[:12]}"
