"""The row id in plain Python, which every sink's SQL must reproduce. Shares no code with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from dpone_core.ports.sink import LineageColumns


def row_id_of(lineage: LineageColumns, key: Mapping[str, object]) -> str:
    """64 hex digits: sha256 of the canonical JSON of the key and its origin, followed by the types of values that
    JSON does not have.
    """
    document = {
        "source_type": lineage.source_type,
        "source_schema": lineage.source_schema,
        "source_table": lineage.source_table,
        "key": dict(key),
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    foreign = sorted(
        (f"key.{name}", f"{type(value).__module__}.{type(value).__qualname__}")
        for name, value in key.items()
        if not isinstance(value, (str, bool, int, type(None)))
    )
    if foreign:
        entries = [{"path": path, "python_type": kind} for path, kind in foreign]
        text += "\x1e" + json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
