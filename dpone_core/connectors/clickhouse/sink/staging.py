"""The staging table of one load on ClickHouse: create, fill and count, check lineage, publish, clean up."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, nullcontext

import pyarrow as pa

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, limit_batch_rows
from dpone_core.connectors._sql.keys import refuse_null_keys, refuse_repeated_keys
from dpone_core.connectors._sql.schema_rules import check_payload
from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.connectors.clickhouse.catalog import artifact_of, count_of, schema_of
from dpone_core.connectors.clickhouse.ddl import Ddl, qualify
from dpone_core.connectors.clickhouse.moments import shown_seconds
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.stored_cast import StoredCast
from dpone_core.errors import ConnectorError, DponeError
from dpone_core.model.artifacts import ROLES, SHADOW, STAGING, LoadRef
from dpone_core.model.lineage import ROW_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import FinalizeResult, LineageProjection, StagedHandle, StageRequest

from .layout import layout_of, merge_key_of
from .lineage import constant_expression, lineage_defaults, lineage_names
from .publish import publish


class ClickHouseStaging:
    """StagedLoadPort. Staging is a MergeTree table like the target; every inserted block has its own token."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        with closing(batches) if isinstance(batches, Generator) else nullcontext():
            check_payload(request)
            target = self._session.resolve(request.target)
            staged = artifact_of(self._session, request.ref, STAGING)
            ddl = Ddl(request.physical_design.cluster)
            try:
                stored = self._create(request, ddl, target, staged)
                rows = self._fill(request, staged, stored, batches)
                counted_rows = count_of(self._session, staged)
                if counted_rows != rows:
                    raise ConnectorError(
                        f"{rows} rows were sent to staging and {counted_rows} arrived", code="staged_row_count_mismatch"
                    )
                self._refuse_repeated_keys(request, staged)
            except BaseException:
                self._drop_quietly(ddl, staged)
                raise
        return StagedHandle(request=request, table=staged, payload_schema=request.schema, staged_rows=counted_rows)

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        lineage = handle.request.lineage
        names = lineage_names(lineage)
        conditions = [
            f"{quote_backtick(name)} = {constant_expression(name, text)}" for name, text in lineage.constants.items()
        ]
        if lineage.row_id_columns:
            conditions.append(f"match({quote_backtick(ROW_ID)}, '^[0-9a-f]{{64}}$')")
        if not conditions:
            return LineageProjection(columns=(), rows=0)
        counts = [f"countIf({condition})" for condition in conditions]
        whole = f"countIf({' AND '.join(conditions)})"
        row = self._session.rows(f"SELECT count(), {whole}, {', '.join(counts)} FROM {qualify(handle.table)}")[0]
        held = tuple(name for name, count in zip(names, row[2:], strict=True) if count == row[0])
        return LineageProjection(columns=held, rows=int(row[1]))

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        shadow = artifact_of(self._session, handle.ref, SHADOW)
        return publish(self._session, handle, self._session.resolve(handle.request.target), shadow)

    def cleanup(self, ref: LoadRef) -> None:
        """Drops every table of the load, even if one fails: ConnectorError `staged_cleanup_failed` then."""
        ddl = Ddl(ref.cluster)
        with ExitStack() as drops:
            for role in ROLES:
                table = artifact_of(self._session, ref, role)
                drops.callback(
                    self._session.command,
                    ddl.drop(table),
                    code="staged_cleanup_failed",
                    message="a table of this load was not dropped",
                )

    def _create(self, request: StageRequest, ddl: Ddl, target: TableName, staged: TableName) -> TableSchema:
        """Creates databases and staging; returns the payload's columns as they are stored."""
        layout = layout_of(self._session, request, target, staged)
        for database in dict.fromkeys((target.schema or "", staged.schema or "")):
            self._session.command(ddl.create_database(database), message="ClickHouse refused to create a database")
        statements = [ddl.drop(staged), *layout.create, ddl.set_window(staged)]
        defaults = lineage_defaults(request.schema, request.lineage)
        if defaults:
            statements.append(ddl.set_defaults(staged, defaults))
        for statement in statements:
            self._session.command(
                statement, code="staging_refused", message="ClickHouse refused to create the staging table"
            )
        counted_rows = schema_of(self._session, staged)
        columns = [column for name in request.schema.names if counted_rows and (column := counted_rows.find(name))]
        return TableSchema(columns=tuple(columns))

    def _fill(
        self, request: StageRequest, staged: TableName, stored: TableSchema, batches: Iterable[pa.RecordBatch]
    ) -> int:
        cast = StoredCast(request.schema, stored, shown_seconds(self._session, stored))
        rows = 0
        identity = request.identity
        for number, block in enumerate(blocks(map(cast, limit_batch_rows(refuse_null_keys(request, batches))))):
            self._session.insert(
                qualify(staged),
                block,
                token=f"{identity.load_id}/{identity.attempt}/{number}",
                message="ClickHouse did not take a block of staged rows",
            )
            rows += sum(batch.num_rows for batch in block)
        return rows

    def _refuse_repeated_keys(self, request: StageRequest, staged: TableName) -> None:
        keys = ", ".join(map(quote_backtick, merge_key_of(request)))
        if keys:
            repeated = f"SELECT 1 FROM {qualify(staged)} GROUP BY {keys} HAVING count() > 1"
            refuse_repeated_keys(request, int(self._session.rows(f"SELECT count() FROM ({repeated})")[0][0]))

    def _drop_quietly(self, ddl: Ddl, staged: TableName) -> None:
        """Drops staging after an error, which is the one to report; a failure leaves a leftover."""
        try:
            self._session.command(ddl.drop(staged))
        except DponeError:
            return


def blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Small batches are joined until one insert is worth it."""
    block: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        block.append(batch)
        if sum(part.num_rows for part in block) >= MAX_BATCH_ROWS:
            yield block
            block = []
    if block:
        yield block
