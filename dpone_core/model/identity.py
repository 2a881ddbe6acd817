"""Who a run and a load are. `run_id` is the operation and survives retries; `load_id` is one attempt (ULID)."""

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
    """Bound to every row, step, receipt and log line of one attempt; `attempt` counts from 1."""

    run_id: RunId
    load_id: LoadId
    attempt: int


def load_id_from(milliseconds: int, entropy: bytes) -> LoadId:
    """ULID text (26 Crockford characters): 48 bits of Unix milliseconds, then 80 bits of `entropy`."""
    if not 0 <= milliseconds < 1 << 48 or len(entropy) != 10:
        raise ValueError("a ULID takes 48 bits of milliseconds and 10 bytes of entropy")
    number = (milliseconds << 80) | int.from_bytes(entropy, "big")
    return LoadId("".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)))


def safe_run_id(run_id: str) -> str:
    """A file-system name that is readable and injective in practice: safe characters plus 12 hex of the hash.

    Distinct run ids stay distinct although `a.b` and `a_b` look alike to a file system that folds characters.
    """
    readable = _UNSAFE.sub("_", run_id)[:80].strip(".") or "run"
    return f"{readable}-{hashlib.sha256(run_id.encode('utf-8')).hexdigest()[:12]}"
