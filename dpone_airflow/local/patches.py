"""Patches of a stored object: strategic merge and JSON merge (RFC 7386).

Strategic merge is reduced to what pods need: a list whose items carry a `name` merges by that name, any other list is
replaced. JSON patch is not spoken.
"""

from __future__ import annotations

from typing import Any

from dpone_airflow.local.wire import ApiError, JsonObject, invalid

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
JSON_MERGE = "application/merge-patch+json"

_IDENTITY_FIELDS = ("name", "namespace", "uid")


def apply_patch(document: JsonObject, patch: Any, content_type: str) -> None:
    """Changes `document` in place. Status is not reachable through a pod patch, identity cannot change (422)."""
    if content_type not in (STRATEGIC_MERGE, JSON_MERGE) or not isinstance(patch, dict):
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")
    metadata = patch.get("metadata") or {}
    for name in _IDENTITY_FIELDS:
        if name in metadata and metadata[name] != document["metadata"].get(name):
            raise invalid(f"metadata.{name}: field is immutable")
    _merge(document, {key: value for key, value in patch.items() if key != "status"}, content_type == STRATEGIC_MERGE)


def _merge(target: JsonObject, patch: JsonObject, strategic: bool) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            _merge(target[key], value, strategic)
        elif strategic and _is_named(value) and _is_named(target.get(key)):
            _merge_named(target[key], value)
        else:
            target[key] = value


def _is_named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)


def _merge_named(target: list[JsonObject], patch: list[JsonObject]) -> None:
    by_name = {item["name"]: item for item in target}
    for item in patch:
        if item["name"] in by_name:
            _merge(by_name[item["name"]], item, True)
        else:
            target.append(item)
