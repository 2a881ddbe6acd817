"""Describes a target of the files sink, checks it before a load, and lists directories that interrupted loads have
left."""

from __future__ import annotations

import os
from pathlib import Path

from dpone_core.connectors._sql.schema_rules import check_payload
from dpone_core.connectors.files.storage import translate_errors
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import ROLES, LoadRef, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import Leftover, StageRequest

from .target_directory import FORMATS, TargetDirectory


class FilesTarget:
    """TargetPort and RevocationPort of one base directory; preflight only looks."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def describe_target(self, table: TableName) -> TableSchema | None:
        known = self._directory(table).describe()
        return None if known is None else known.schema

    def preflight(self, request: StageRequest) -> None:
        refuse_target(request, self._directory(request.target))

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        """Hidden directories of loads that have neither published nor discarded their files."""
        with translate_errors("the target directory cannot be listed", "sink_unreachable"):
            directory = self._directory(table)
            names = [(role, name) for role in ROLES for name in directory.unpublished_names(role)]
        return tuple(Leftover(table=TableName(schema=table.schema, name=name), role=role) for role, name in names)

    def revoke(self, ref: LoadRef, keep: frozenset[str]) -> tuple[str, ...]:
        directory = self._directory(ref.target)
        with translate_errors("the target directory cannot be written", "sink_unreachable"):
            return directory.revoke(keep | {artifact_name(ref.target, ref.identity, role) for role in ROLES})

    def _directory(self, table: TableName) -> TargetDirectory:
        return TargetDirectory(base=self._base, table=table)


def refuse_target(request: StageRequest, target: TargetDirectory) -> None:
    """Raises ConnectorError for a payload or format that cannot be written, and for a directory that dpone did not
    write or that is incomplete."""
    check_payload(request)
    design = request.physical_design
    if design.file_format not in FORMATS:
        raise ConnectorError("the files sink writes parquet, csv or ndjson", code="physical_design_mismatch")
    if design.order_by or design.partition_by is not None or design.cluster is not None:
        raise ConnectorError("files have neither keys nor partitions nor a cluster", code="physical_design_mismatch")
    with translate_errors("the target directory cannot be listed", "sink_unreachable"):
        foreign, parts, known = target.has_foreign_files(), target.parts(), target.describe()
        nearest = next(path for path in (target.path, *target.path.parents) if path.exists())
        writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    if foreign or (known is None and parts):
        raise ConnectorError(
            "the target directory holds files that dpone did not write",
            code="target_not_managed",
            fix="move them away, or choose another table name",
        )
    if not writable:
        raise ConnectorError("the target directory cannot be written", code="sink_unreachable")
    if known is None or request.strategy is StrategyMode.FULL_REFRESH:
        return
    if known.refreshing is not None:
        raise ConnectorError(
            "an earlier full refresh was interrupted; the target holds old and new rows",
            code="target_refresh_incomplete",
            fix="run a full_refresh, which replaces both",
        )
    if known.format != design.file_format:
        raise ConnectorError(
            f"the target holds {known.format} files, and the manifest asks for {design.file_format}",
            code="physical_design_mismatch",
        )
