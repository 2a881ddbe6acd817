"""What a load marker in the target says of a load whose process died, where it is written with what it marks."""

from __future__ import annotations

from dpone_core.model.artifacts import LoadRef, load_marker


def held_by_marker(ref: LoadRef, found: str | None, marker_before: str | None) -> bool | None:
    """Whether the load of `ref` is in the target. `found` is the marker there now (None = no target), `marker_before`
    the one before the load; None = unknown, since somebody else has published over it."""
    if found is None:
        return False
    if found == load_marker(ref.identity):
        return True
    return False if found == marker_before else None
