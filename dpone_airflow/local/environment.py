"""The environment of a container, resolved as the kubelet does.

Rules: `envFrom` first, then `env` in order, later wins; `$(NAME)` refers to earlier `env` entries, `$$` is a literal
`$`, an unknown reference stays unchanged; references are expanded in `value`, command and args, never in text from a
secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from dpone_airflow.local.fixtures import FixtureKind, Fixtures
from dpone_airflow.local.wire import JsonObject, field_at

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_KEY_SOURCES = {"secretKeyRef": FixtureKind.SECRET, "configMapKeyRef": FixtureKind.CONFIG_MAP}
_FROM_SOURCES = {"secretRef": FixtureKind.SECRET, "configMapRef": FixtureKind.CONFIG_MAP}


class ContainerConfigError(Exception):
    """A reference that cannot be resolved: the container waits with CreateContainerConfigError and this message."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` references."""
    return _REFERENCE.sub(lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]), text)


def resolve_env(container: JsonObject, pod: JsonObject, fixtures: Fixtures) -> dict[str, str]:
    """The variables of `envFrom` and `env` of a container. Raises ContainerConfigError for a reference that does not
    exist."""
    resolver = _Resolver(pod, fixtures)
    result: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        result |= resolver.all_of(source)
    referable: dict[str, str] = {}
    for entry in container.get("env") or []:
        value = resolver.value_of(entry, referable)
        if value is not None:
            referable[entry["name"]] = value
    return result | referable


def image_env(inherited: Mapping[str, str], *, hostname: str) -> dict[str, str]:
    """The variables that the image and the container runtime set, before those that the pod declares."""
    return {**inherited, "HOSTNAME": hostname}


def with_search_path(env: Mapping[str, str], search_path: tuple[Path, ...]) -> dict[str, str]:
    """The environment with `search_path` in front of its PATH."""
    parts = [*map(str, search_path), env.get("PATH", "")]
    return {**env, "PATH": ":".join(part for part in parts if part)}


class _Resolver:
    def __init__(self, pod: JsonObject, fixtures: Fixtures) -> None:
        self._pod = pod
        self._fixtures = fixtures

    def all_of(self, source: JsonObject) -> dict[str, str]:
        result: dict[str, str] = {}
        for field, kind in _FROM_SOURCES.items():
            if reference := source.get(field):
                entries = self._entries(kind, reference)
                result |= {(source.get("prefix") or "") + key: value for key, value in entries.items()}
        return result

    def value_of(self, entry: JsonObject, referable: Mapping[str, str]) -> str | None:
        source = entry.get("valueFrom") or {}
        if not source:
            return expand(entry.get("value") or "", referable)
        if field_reference := source.get("fieldRef"):
            return self._field(field_reference["fieldPath"])
        for field, kind in _KEY_SOURCES.items():
            if reference := source.get(field):
                return self._key(kind, reference)
        raise ContainerConfigError(f"env {entry['name']}: valueFrom {', '.join(source)} is not modelled by this runner")

    def _entries(self, kind: FixtureKind, reference: JsonObject) -> Mapping[str, str]:
        entries = self._fixtures.entries(kind, reference["name"])
        if entries is None and not reference.get("optional"):
            raise ContainerConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        return entries or {}

    def _key(self, kind: FixtureKind, reference: JsonObject) -> str | None:
        entries, key = self._entries(kind, reference), reference["key"]
        if key not in entries and not reference.get("optional"):
            namespace = self._pod["metadata"]["namespace"]
            raise ContainerConfigError(f"couldn't find key {key} in {kind} {namespace}/{reference['name']}")
        return entries.get(key)

    def _field(self, path: str) -> str:
        if match := _MAP_FIELD.fullmatch(path):
            return str((self._pod["metadata"].get(match[1]) or {}).get(match[2], ""))
        value = field_at(self._pod, path)
        return "" if value is None else str(value)
