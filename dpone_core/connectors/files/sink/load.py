"""The load of the files sink: hidden files first, then one rename per file.

Nothing is visible before all rows are written. There is no staging dataset: readers see the files of the load itself,
and the first rename is its commit.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows, refuse_kind_change
from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors.files.part_files import open_part, read_part, rows_of
from dpone_core.connectors.files.storage import create_directory, sync_directory, sync_file, translate_errors
from dpone_core.connectors.files.text_values import VALUE_REFUSED
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.lineage import LINEAGE_TYPES, ROW_ID, lineage_schema
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import ColumnKind, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LegacyLoadResult, StageRequest

from .row_id import row_ids
from .target import refuse_target
from .target_directory import TargetDescription, TargetDirectory, load_hash

MAX_FILE_ROWS: Final = 1_048_576


class FilesLoad:
    """LegacyLoadPort of one base directory."""

    def __init__(self, base: Path, *, max_file_rows: int = MAX_FILE_ROWS) -> None:
        self._base = base
        self._max_file_rows = max_file_rows

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        target = self._target(request.target)
        with closing(batches) if isinstance(batches, Generator) else nullcontext():
            refuse_target(request, target)
            try:
                schema = self._write(request, target, batches)
            except BaseException as error:
                with suppress(ConnectorError):  # what cannot be removed now shows up as a leftover
                    target.discard_unpublished(request.identity)
                if isinstance(error, OSError | pa.ArrowException):
                    raise foreign_error(error, "the file system refused a data file", "sink_unreachable") from error
                raise
        with translate_errors("the file system refused to publish", "sink_unreachable"):
            claimed = target.claim(request.identity)
        try:
            self._publish(request, target, schema, claimed)
        except Exception as error:
            raise CommitOutcomeUnknownError(
                "some files of this load are visible and publishing the others failed: the target holds a"
                " part of the load"
            ) from error
        return self._count_rows(request, target)

    def has_rows(self, ref: LoadRef) -> bool:
        with translate_errors("the target directory cannot be listed", "sink_unreachable"):
            return bool(self._target(ref.target).parts(ref.identity))

    def discard(self, ref: LoadRef) -> None:
        self._target(ref.target).discard_unpublished(ref.identity)

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, request: StageRequest) -> Iterator[pa.RecordBatch]:
        target = self._target(request.target)
        for part in target.parts(request.identity):
            yield from read_part(part, request.schema)

    def _target(self, table: TableName) -> TargetDirectory:
        return TargetDirectory(base=self._base, table=table)

    def _write(self, request: StageRequest, target: TargetDirectory, batches: Iterable[pa.RecordBatch]) -> TableSchema:
        """Writes and syncs every file of the load in the hidden directory; returns the columns of the files."""
        stored = _stored_schema(request, target)
        refuse_kind_change(request.schema, stored)
        rows = _LineagedRows(request, stored)
        _refuse_undescribed(rows.schema, request, target)
        hidden = target.unpublished_directory(request.identity)
        target.discard_unpublished(request.identity)
        create_directory(hidden)
        file_format = request.physical_design.file_format or ""
        number = 0
        for number, chunk in enumerate(_chunks(map(rows, limit_batch_rows(batches)), self._max_file_rows)):
            self._write_part(hidden / target.part_name(request.identity, number, file_format), chunk, rows.schema)
        sync_directory(hidden)
        return rows.schema

    def _write_part(self, path: Path, batches: Iterable[pa.RecordBatch], schema: TableSchema) -> None:
        with closing(open_part(path, path.suffix[1:], schema)) as part:
            for batch in batches:
                part.write(batch)
        sync_file(path)

    def _publish(self, request: StageRequest, target: TargetDirectory, schema: TableSchema, claimed: Path) -> None:
        """Writes the description first, so that every visible row has one, then renames the files, then removes old
        ones: those that are there before the first is renamed, never those of a load that comes after this one. Files
        of earlier loads lack an added column, which reads as NULL."""
        refreshes = request.strategy is StrategyMode.FULL_REFRESH
        known = target.describe()
        stale = target.parts() if refreshes else target.parts(request.identity)
        written = TargetDescription(
            format=request.physical_design.file_format or "",
            schema=schema if known is None or refreshes else known.schema.widened(request.added),
            refreshing=load_hash(target.table, request.identity) if refreshes else None,
        )
        if written != known:
            target.write_description(written)
        fresh = sorted(claimed.iterdir())
        names = {path.name for path in fresh}
        for path in fresh:
            path.rename(target.path / path.name)
        sync_directory(target.path)
        for path in stale:
            if path.name not in names:
                path.unlink(missing_ok=True)
        sync_directory(target.path)
        claimed.rmdir()  # fails when a later load has taken it: the description is that load's then
        if refreshes:
            target.write_description(replace(written, refreshing=None))
        target.discard_unpublished(request.identity)

    def _count_rows(self, request: StageRequest, target: TargetDirectory) -> LegacyLoadResult:
        """Counts the load's rows by reading them again, so that every value has been decoded once before it is
        reported."""
        written = sum(batch.num_rows for batch in self.read_back(request))
        if request.strategy is StrategyMode.FULL_REFRESH:
            return LegacyLoadResult(finaliser="write_then_remove", written_rows=written, total_rows=written)
        counts = [rows_of(part) for part in target.parts()]
        known = [count for count in counts if count is not None]
        return LegacyLoadResult(
            finaliser="add_files",
            written_rows=written,
            total_rows=sum(known) if len(known) == len(counts) else None,
        )


class _LineagedRows:
    """Turns payload batches into batches of the files: cast to the target's types, with the lineage
    columns after them."""

    def __init__(self, request: StageRequest, stored: TableSchema) -> None:
        self._stored = stored
        self._lineage = request.lineage
        self._cast = StrictCast(stored, code=VALUE_REFUSED)
        names = (*self._lineage.constants, *((ROW_ID,) if self._lineage.row_id_columns else ()))
        self.schema = TableSchema(columns=(*stored.columns, *lineage_schema(names).columns))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        cast = self._cast(batch)
        columns = [*cast.columns, *(self._constant(name, batch.num_rows) for name in self._lineage.constants)]
        if self._lineage.row_id_columns:
            columns.append(row_ids(cast, self._stored, self._lineage))
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.schema))

    def _constant(self, name: str, rows: int) -> pa.Array:
        value = pa.scalar(self._lineage.constants[name])
        if LINEAGE_TYPES[name].kind is ColumnKind.TIMESTAMP_TZ:
            value = value.cast(pa.timestamp("us", "UTC"))
        return pa.repeat(value, rows)


def _stored_schema(request: StageRequest, target: TargetDirectory) -> TableSchema:
    """The payload's columns as the files hold them: in the target's types when files are added to it."""
    known = target.describe()
    if known is None or request.strategy is StrategyMode.FULL_REFRESH:
        return request.schema
    return TableSchema(columns=tuple(known.schema.find(c.name) or c for c in request.schema.columns))


def _refuse_undescribed(schema: TableSchema, request: StageRequest, target: TargetDirectory) -> None:
    """Raises ConnectorError `physical_design_mismatch` for a column that the description lacks: readers of the target
    would never see it."""
    known = target.describe()
    if known is None or request.strategy is StrategyMode.FULL_REFRESH:
        return
    described = known.schema.widened(request.added)
    for name in schema.names:
        if described.find(name) is None:
            raise ConnectorError(f"the target has no column {name!r}", code="physical_design_mismatch")


def _chunks(batches: Iterator[pa.RecordBatch], limit_rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """Groups of batches, read lazily, of at least `limit_rows` rows each except the last; one empty group when there
    are no rows."""
    ended = False

    def group() -> Iterator[pa.RecordBatch]:
        nonlocal ended
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if rows >= limit_rows:
                return
        ended = True

    while not ended:
        yield group()
