"""Canonical JSON and the sha256 fingerprints computed from it. Contract: RCPT-01.

Equal values give equal text: sorted text keys, separators "," and ":", UTF-8 (no ASCII escapes), finite numbers only.
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
    """The value has no canonical JSON form: it holds a key that is not text, a non-finite number, or a type JSON
    does not have.
    """


def canonical_json(value: object) -> str:
    """The canonical JSON text of `value`. Raises CanonicalizationError; nothing is converted silently."""
    return json.dumps(_to_json_value(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(value: object) -> str:
    """Returns `sha256:` and 64 hex digits, computed over the canonical JSON of `value`."""
    return sha256_text(canonical_json(value))


def sha256_text(text: str) -> str:
    """Returns `sha256:` and 64 hex digits, computed over the UTF-8 bytes of `text`."""
    return sha256_bytes(text.encode("utf-8"))


def sha256_bytes(content: bytes) -> str:
    """Returns `sha256:` and 64 hex digits, computed over `content`."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def is_fingerprint(text: object) -> bool:
    """Whether `text` has the form `sha256:` and 64 lower-case hex digits."""
    return isinstance(text, str) and FINGERPRINT_PATTERN.fullmatch(text) is not None


def _to_json_value(value: object) -> object:
    if type(value) is str:  # most values, and no StrEnum
        return value
    if isinstance(value, StrEnum):
        return value.value
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CanonicalizationError("expected a finite number, found NaN or infinity")
        return value
    if isinstance(value, (dict, Mapping)):
        converted: dict[str, object] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise CanonicalizationError(f"a key of a JSON object must be text, found {type(key).__name__}")
            converted[str(key)] = _to_json_value(item)
        return converted
    if isinstance(value, (list, tuple, Sequence)) and not isinstance(value, (bytes, bytearray)):
        return [_to_json_value(item) for item in value]
    raise CanonicalizationError(f"expected a JSON value, found Python type {type(value).__name__}")
