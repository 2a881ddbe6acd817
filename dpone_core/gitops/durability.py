"""Refuses a run-spec in which a process keeps files in a directory that no declared volume keeps.

A load into a directory of a pod that is deleted afterwards would be reported as committed and be gone.
Contract: DAG-22.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dpone_core.contracts.platform import PlatformSettings
from dpone_core.declared.registry import EMBEDDED_SCHEMES, descriptor_of
from dpone_core.errors import ETLConfigurationError
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import CheckpointsType, LoadConfig
from dpone_core.model.vocabulary import StateType

EVIDENCE_VARIABLE: Final = "DPONE_EVIDENCE_DIR"


class VolumeRequiredError(ETLConfigurationError):
    """Files the process must keep would be deleted with its pod; the message names them, with their path when known."""

    code = "DPONE_PLATFORM_VOLUME_REQUIRED"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Files of the process. `path` is None when only a secret holds it; `written` is False when they are only read."""

    what: str
    path: str | None
    written: bool = True


def require_durable(config: LoadConfig, settings: PlatformSettings, *, mapped: frozenset[str]) -> None:
    """Raises VolumeRequiredError. `mapped` names the connections whose URI comes from a Secret of the cluster."""
    for kept in _kept(config, settings, mapped):
        if kept.path is None:
            covered = settings.local_pod_runner or bool(settings.durable_paths) or _has_durable_volume(settings)
        else:
            covered = kept.path.startswith("/") or settings.local_pod_runner
            covered = covered and (
                settings.is_durable_path(kept.path) if kept.written else settings.is_readable_path(kept.path)
            )
        if not covered:
            where = f" at '{kept.path}'" if kept.path is not None else ""
            raise VolumeRequiredError(
                f"process '{config.process}': {kept.what}{where} lies on no declared volume of its pods",
                fix="give an absolute path and mount a persistent_volume_claim over it under 'volumes' of the platform "
                "file, name it under 'durable_paths' if the pod template mounts it, or set local_pod_runner where pods "
                "are local processes",
            )


def _kept(config: LoadConfig, settings: PlatformSettings, mapped: frozenset[str]) -> Iterator[_Kept]:
    evidence = settings.env.get(EVIDENCE_VARIABLE)
    if evidence is not None:
        yield _Kept(what="evidence", path=evidence)
    if config.state is StateType.FILE:
        yield _Kept(what="state of type file", path=evidence or ".dpone")
    partitioning = config.source.partitioning
    if partitioning is not None and partitioning.checkpoints is CheckpointsType.FILE:
        yield _Kept(what="checkpoints of type file", path=evidence or ".dpone")
    if config.sink.connection_ref is not None:
        yield from _side(config, "the target", config.sink.type, config.sink.connection_ref, mapped, written=True)
    if config.source.connection_ref is not None:
        yield from _side(config, "the source", config.source.type, config.source.connection_ref, mapped, written=False)


def _side(
    config: LoadConfig, what: str, type: ConnectorType, ref: str, mapped: frozenset[str], *, written: bool
) -> Iterator[_Kept]:
    uri = config.connections.get(ref) if ref not in mapped else None
    scheme, _, rest = uri.partition("://") if uri is not None else ("", "", "")
    if scheme.lower() in EMBEDDED_SCHEMES:
        yield _Kept(what=f"{what} '{scheme}://'", path=rest[1:], written=written)
    elif written and descriptor_of(type).is_always_embedded:
        yield _Kept(what=f"{what} of type {type.value}", path=None)


def _has_durable_volume(settings: PlatformSettings) -> bool:
    return any(volume.is_durable and any(not mount.read_only for mount in volume.mounts) for volume in settings.volumes)
