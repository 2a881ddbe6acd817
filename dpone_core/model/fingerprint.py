"""Canonical JSON and the sha256 fingerprints made of it. Contract: RCPT-01.

Canonical form: sorted text keys, separators "," and ":", UTF-8 (no ASCII escapes), finite numbers only.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

FINGERPRINT_PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}")


class CanonicalizationError(ValueError):
    """A value has no canonical JSON form: a non-text key, a non-finite number or a foreign type."""


def canonical_json(value: object) -> str:
    """One text per value; raises CanonicalizationError instead of coercing anything."""
    return json.dumps(_closed(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(value: object) -> str:
    """`sha256:` + hex over the canonical JSON of `value`."""
    return sha256_text(canonical_json(value))


def sha256_text(text: str) -> str:
    return sha256_bytes(text.encode("utf-8"))


def sha256_bytes(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def is_fingerprint(text: object) -> bool:
    return isinstance(text, str) and FINGERPRINT_PATTERN.fullmatch(text) is not None


def _closed(value: object) -> object:
    if type(value) is str:  # most values, and no StrEnum
        return value
    if isinstance(value, StrEnum):
        return value.value
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CanonicalizationError("non-finite number")
        return value
    if isinstance(value, (dict, Mapping)):
        closed: dict[str, object] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise CanonicalizationError("mapping key is not text")
            closed[str(key)] = _closed(item)
        return closed
    if isinstance(value, (list, tuple, Sequence)) and not isinstance(value, (bytes, bytearray)):
        return [_closed(item) for item in value]
    raise CanonicalizationError(f"foreign type {type(value).__name__}")
