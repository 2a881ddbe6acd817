"""Volumes of a pod as directories and files of this machine.

emptyDir lives and dies with the pod; hostPath is the host's own; secret and configMap come from the fixtures and are
read-only; a persistent volume claim is a directory below the runner's root that outlives pods. Other kinds are refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dpone_airflow.local.fixtures import FixtureKind, Fixtures
from dpone_airflow.local.wire import JsonObject

_FILE_SOURCES = {
    "secret": (FixtureKind.SECRET, "secretName"),
    "configMap": (FixtureKind.CONFIG_MAP, "name"),
}
_KINDS = frozenset({"emptyDir", "hostPath", "persistentVolumeClaim", *_FILE_SOURCES})


class VolumeError(Exception):
    """A volume that cannot be set up; the kubelet leaves such a pod in ContainerCreating with a FailedMount event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """`source`, a path of the host, appears at `target` in a container."""

    source: Path
    target: str
    read_only: bool = False


def unsupported_volume(spec: JsonObject) -> str | None:
    """The path of the first volume in a pod spec whose kind is not modelled."""
    for index, volume in enumerate(spec.get("volumes") or []):
        kinds = volume.keys() - {"name"}
        if not kinds <= _KINDS or len(kinds) > 1:
            return f"spec.volumes[{index}]"
    return None


class VolumeSet:
    """The volumes of one pod; `home` is the pod's own directory, `claims` the one of all claims."""

    def __init__(self, spec: JsonObject, *, home: Path, claims: Path, fixtures: Fixtures) -> None:
        self._volumes: Mapping[str, JsonObject] = {volume["name"]: volume for volume in spec.get("volumes") or []}
        self._home = home
        self._claims = claims
        self._fixtures = fixtures

    def mounts(self, container: JsonObject) -> tuple[Mount, ...]:
        """The mounts of a container, set up and ready; raises VolumeError."""
        return tuple(self._mount(mount) for mount in container.get("volumeMounts") or [])

    def _mount(self, mount: JsonObject) -> Mount:
        name = mount["name"]
        if name not in self._volumes:
            raise VolumeError(f'volumeMount names a volume "{name}" that the pod does not declare')
        if not mount["mountPath"].startswith("/") or not mount["mountPath"].strip("/"):
            raise VolumeError(f'volume "{name}" must be mounted at an absolute path below /')
        volume = self._volumes[name]
        source = self._source(name, volume)
        if sub_path := mount.get("subPath"):
            source = _sub_path(source, sub_path)
        read_only = bool(mount.get("readOnly")) or any(kind in volume for kind in _FILE_SOURCES)
        return Mount(source=source, target=mount["mountPath"], read_only=read_only)

    def _source(self, name: str, volume: JsonObject) -> Path:
        if host_path := volume.get("hostPath"):
            return _host_path(name, host_path)
        if claim := volume.get("persistentVolumeClaim"):
            return _directory(self._claims / claim["claimName"])
        directory = _directory(self._home / "volumes" / name)
        for source_kind, (kind, name_field) in _FILE_SOURCES.items():
            if source := volume.get(source_kind):
                self._write_entries(directory, name, kind, source[name_field], source)
        return directory

    def _write_entries(self, directory: Path, volume: str, kind: FixtureKind, name: str, source: JsonObject) -> None:
        entries = self._fixtures.entries(kind, name)
        if entries is None:
            if not source.get("optional"):
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume}" : {kind.lower()} "{name}" not found')
            return
        items: list[dict[str, Any]] = source.get("items") or [{"key": key, "path": key} for key in entries]
        for item in items:
            if item["key"] not in entries:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume}" : references non-existent key')
            path = _sub_path(directory, item["path"], directories=False)
            path.unlink(missing_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(entries[item["key"]])


def remove_home(home: Path) -> None:
    """Deletes a pod's directory and with it every secret written there."""
    shutil.rmtree(home, ignore_errors=True)


def _directory(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _host_path(volume: str, host_path: JsonObject) -> Path:
    path, kind = Path(host_path["path"]), host_path.get("type") or ""
    if path.exists():
        return path
    if kind in ("", "DirectoryOrCreate"):
        return _directory(path)
    if kind == "FileOrCreate":
        path.touch()
        return path
    raise VolumeError(
        f'MountVolume.SetUp failed for volume "{volume}" : hostPath type check failed: {path} is not there'
    )


def _sub_path(root: Path, relative: str, *, directories: bool = True) -> Path:
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts:
        raise VolumeError(f"subPath must stay inside its volume: {relative}")
    path = root / pure
    if directories and not path.exists():
        path.mkdir(parents=True)
    elif not directories:
        path.parent.mkdir(parents=True, exist_ok=True)
    return path
