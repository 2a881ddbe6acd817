"""Merges layers of authored mappings into one and records where each value was authored.

Later layers win; mappings merge deep, lists and scalars replace (MAN-07, MAN-17).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpone_core.authoring.validate import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One mapping and the path in the document at which it was authored."""

    origin: Path
    value: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged mapping, and for each of its paths the authored path. `value` shares no mapping with its layers."""

    value: dict[str, object] = field(default_factory=dict)
    origins: dict[Path, Path] = field(default_factory=dict)

    def authored_path(self, path: Path) -> Path:
        """Path in the document at which `path` of the merged value was authored; below the nearest authored parent
        otherwise.
        """
        for length in range(len(path), 0, -1):
            origin = self.origins.get(path[:length])
            if origin is not None:
                return (*origin, *path[length:])
        return (*self.origins.get((), ()), *path)


def merge(*layers: Layer) -> Merged:
    """Merges mappings key by key; lists and single values of a later layer replace those of an earlier one."""
    merged = Merged()
    if layers:
        merged.origins[()] = layers[-1].origin
    for layer in layers:
        _merge_into(merged.value, layer.value, (), layer.origin, merged.origins)
    return merged


def _merge_into(
    target: dict[str, object], value: Mapping[str, object], at: Path, origin: Path, origins: dict[Path, Path]
) -> None:
    for key, item in value.items():
        path, authored = (*at, key), (*origin, key)
        present = target.get(key)
        if isinstance(item, Mapping):
            if not isinstance(present, dict):
                if key in target:
                    _forget(path, origins)
                present = target[key] = {}
                origins[path] = authored
            _merge_into(present, item, path, authored, origins)
        else:
            if key in target:
                _forget(path, origins)
            target[key] = item
            origins[path] = authored


def _forget(path: Path, origins: dict[Path, Path]) -> None:
    for known in [known for known in origins if known[: len(path)] == path]:
        del origins[known]
