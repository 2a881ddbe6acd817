"""In-memory adapters for the ports, for tests of call order: every call appends one line to a shared journal.

They really stage, mark, publish and compare, and pass the same conformance suites as the shipped connectors. `failures`
maps a journal line to the exception that the call raises instead of doing its work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from dpone_core.errors import ConnectorError, LeaseLostError
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.lineage import LINEAGE_TYPES, ROW_ID, lineage_schema
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema, is_framework_column
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.control import ControlColumnKind, ControlRow, ControlTable
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.sink import FinalizeResult, Leftover, LineageProjection, StagedHandle, StageRequest
from dpone_core.ports.source import ExtractRequest
from dpone_core.ports.statements import StatementAnswer, StatementScript

from .builders import arrow_schema, batch_of
from .fake_keys import Row, publish_rows, refuse_keys, refuse_null_keys, refuse_repeated_keys
from .reference import row_id_of

MAX_BATCH_ROWS: Final = 65_536
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Journal:
    """Lines in call order. Writing a line that is named in `failures` raises its exception."""

    lines: list[str] = field(default_factory=list)
    failures: dict[str, BaseException] = field(default_factory=dict)

    def write(self, line: str) -> None:
        """Appends the line, then raises its exception if it has one."""
        self.lines.append(line)
        if line in self.failures:
            raise self.failures[line]


@dataclass(slots=True)
class FixedClock:
    """Starts at 2026-01-01 UTC; each reading is one second later, and each draw of entropy is a counter."""

    now: datetime = _EPOCH
    step: timedelta = timedelta(seconds=1)
    draws: int = 0

    def utc_now(self) -> datetime:
        self.now += self.step
        return self.now

    def entropy(self, size_bytes: int) -> bytes:
        self.draws += 1
        return self.draws.to_bytes(size_bytes, "big")


@dataclass(slots=True)
class MemoryTable:
    """A table of a MemoryWarehouse, with the marker of the load that published it."""

    schema: TableSchema
    rows: list[Row] = field(default_factory=list)
    marker: str | None = None
    updated_rows: int = 0


@dataclass(slots=True)
class MemoryWarehouse:
    """All tables of one fake sink, staging included."""

    journal: Journal = field(default_factory=Journal)
    tables: dict[TableName, MemoryTable] = field(default_factory=dict)
    control_rows: dict[tuple[str, str], list[ControlRow]] = field(default_factory=dict)
    control_kinds: dict[tuple[str, str], dict[str, ControlColumnKind]] = field(default_factory=dict)

    def rows(self, table: TableName) -> list[Row]:
        return [dict(row) for row in self.tables[table].rows]

    def ports(self) -> SinkPorts:
        return SinkPorts(
            staged=MemoryStaging(self),
            staged_rows=MemoryStagedRows(self),
            target=MemoryTarget(self),
            metrics=MemoryProbe(self),
            control=MemoryControlTables(self),
            statements=MemoryStatements(self.journal),
            publications=MemoryPublications(self),
        )


class MemoryPublications:
    """PublicationPort over a MemoryWarehouse."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def row_count(self, target: TableName) -> int | None:
        found = self._warehouse.tables.get(target)
        return 0 if found is None else len(found.rows)

    def last_marker(self, target: TableName) -> str | None:
        found = self._warehouse.tables.get(target)
        return None if found is None else found.marker or ""

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        found = self.last_marker(ref.target)
        if found is None or found == f"{ref.identity.run_id}|{ref.identity.load_id}":
            return found is not None
        return False if found == marker_before else None


class MemoryStaging:
    """StagedLoadPort over a MemoryWarehouse."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        self._warehouse.journal.write("sink.stage")
        refuse_payload(request)
        table = self.staging_name(request.ref)
        staged = MemoryTable(schema=written_schema(request))
        self._warehouse.tables[table] = staged
        try:
            for batch in batches:
                refuse_null_keys(request, batch)
                staged.rows.extend(convert_rows(self._warehouse, request, batch))
            refuse_repeated_keys(request, staged.rows)
        except BaseException:
            self._warehouse.tables.pop(table, None)
            raise
        return StagedHandle(request=request, table=table, payload_schema=request.schema, staged_rows=len(staged.rows))

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        self._warehouse.journal.write("sink.project_lineage")
        lineage = handle.request.lineage
        names = (*lineage.constants, *((ROW_ID,) if lineage.row_id_columns else ()))
        return LineageProjection(columns=names, rows=handle.staged_rows if names else 0)

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        self._warehouse.journal.write("sink.finalize")
        tables = self._warehouse.tables
        target = tables.get(handle.request.target)
        marker = f"{handle.request.identity.run_id}|{handle.request.identity.load_id}"
        if target is None or target.marker != marker:
            self._require_lease(handle.request)
            staged = tables[handle.table]
            if len(staged.rows) != handle.staged_rows:
                raise ConnectorError("staging holds other rows than were staged", code="finaliser_refused")
            rows, updated = publish_rows(handle.request, None if target is None else target.rows, staged.rows)
            replaced = target is None or handle.request.strategy is StrategyMode.FULL_REFRESH
            schema = staged.schema if target is None or replaced else target.schema.widened(handle.request.added)
            whole = [dict.fromkeys(schema.names) | row for row in rows]
            tables[handle.request.target] = MemoryTable(schema=schema, rows=whole, marker=marker, updated_rows=updated)
        found = tables[handle.request.target]
        return FinalizeResult(
            finaliser="memory",
            inserted_rows=handle.staged_rows - found.updated_rows,
            updated_rows=found.updated_rows,
            total_rows=len(found.rows),
        )

    def _require_lease(self, request: StageRequest) -> None:
        fence = request.fence
        if fence is None:
            return
        found = MemoryControlTables(self._warehouse).read(fence.table, fence.key)
        if not found or not _matches(found[0], fence.values):
            raise LeaseLostError

    def cleanup(self, ref: LoadRef) -> None:
        self._warehouse.journal.write("sink.cleanup")
        self._warehouse.tables.pop(self.staging_name(ref), None)

    def staging_name(self, ref: LoadRef) -> TableName:
        load = hashlib.sha256(f"{ref.identity.run_id}|{ref.identity.load_id}".encode()).hexdigest()[:16]
        return TableName(schema=ref.staging_schema or ref.target.schema, name=f"{_prefix(ref.target)}{load}")


class MemoryStagedRows:
    """StagedRowsPort over a MemoryWarehouse."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        self._warehouse.journal.write("sink.read_back")
        staged = self._warehouse.tables.get(handle.table)
        if staged is None or len(staged.rows) != handle.staged_rows:
            raise ConnectorError("staged rows are missing", code="staged_rows_unreadable")
        for start in range(0, len(staged.rows), MAX_BATCH_ROWS):
            yield batch_of(handle.payload_schema, staged.rows[start : start + MAX_BATCH_ROWS])


class MemoryTarget:
    """TargetPort over a MemoryWarehouse."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def describe_target(self, table: TableName) -> TableSchema | None:
        self._warehouse.journal.write("sink.describe_target")
        found = self._warehouse.tables.get(table)
        return found.schema if found is not None else None

    def preflight(self, request: StageRequest) -> None:
        self._warehouse.journal.write("sink.preflight")
        refuse_payload(request)

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        self._warehouse.journal.write("sink.leftovers")
        schema = staging_schema or table.schema
        return tuple(
            Leftover(table=name, role="stg")
            for name in self._warehouse.tables
            if name.schema == schema and name.name.startswith(_prefix(table))
        )


class MemoryProbe:
    """MetricProbe over staged and target tables."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        self._warehouse.journal.write(f"metrics.{request.side}")
        if request.table is None or request.table not in self._warehouse.tables:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        return count_metrics(self._warehouse.tables[request.table].rows, request)


class MemoryRevocation:
    """RevocationPort over a MemoryWarehouse: takes staging away for good."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def revoke(self, ref: LoadRef, keep: frozenset[str]) -> tuple[str, ...]:
        self._warehouse.journal.write("sink.revoke")
        own = MemoryStaging(self._warehouse).staging_name(ref)
        found = [left.table for left in MemoryTarget(self._warehouse).leftovers(ref.target, ref.staging_schema)]
        taken = [table for table in found if table != own and table.name not in keep]
        for table in taken:
            del self._warehouse.tables[table]
        return tuple(table.name for table in taken)


class MemoryStatements:
    """StatementPort that counts statements, which end with a semicolon, and executes nothing.

    Probes get `answers` one after another, then a single zero.
    """

    def __init__(self, journal: Journal, answers: Sequence[StatementAnswer] = ()) -> None:
        self._journal = journal
        self._answers = list(answers)

    def answer(self, script: StatementScript) -> StatementAnswer:
        self._journal.write("statements.answer")
        return self._answers.pop(0) if self._answers else StatementAnswer(columns=1, rows=((0,),))

    def execute(self, script: StatementScript) -> int:
        self._journal.write("statements.execute")
        return len([part for part in script.sql.text.split(";") if part.strip()])


class MemoryControlTables:
    """ControlTables over a MemoryWarehouse."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def ensure(self, table: ControlTable) -> None:
        self._warehouse.journal.write(f"control.ensure {table.name}")
        self._warehouse.control_rows.setdefault((table.schema, table.name), [])
        known = self._warehouse.control_kinds.setdefault((table.schema, table.name), {})
        for column in table.columns:
            if known.setdefault(column.name, column.kind) is not column.kind:
                raise ConnectorError(f"column {column.name!r} has another type", code="control_table_incompatible")

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        self._warehouse.journal.write(f"control.upsert {table.name}")
        self._warehouse.control_rows[(table.schema, table.name)].extend(dict(row) for row in rows)

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        latest: dict[tuple[str, ...], ControlRow] = {}
        for row in self._warehouse.control_rows.get((table.schema, table.name), []):
            key = tuple(str(row.get(name)) for name in table.key)
            if key not in latest or str(row[table.version_column]) >= str(latest[key][table.version_column]):
                latest[key] = {column.name: row.get(column.name) for column in table.columns}
        chosen = sorted((key, row) for key, row in latest.items() if _matches(row, where))
        return tuple(row for _, row in chosen)

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        self._warehouse.journal.write(f"control.compare_and_set {table.name}")
        found = self.read(table, key)
        if bool(found) != (expected is not None) or (found and expected and not _matches(found[0], expected)):
            return False
        rows = self._warehouse.control_rows[(table.schema, table.name)]
        rows[:] = [row for row in rows if not _matches(row, key)] + ([dict(new)] if new is not None else [])
        return True


class MemoryStream:
    """BatchStream over given batches."""

    def __init__(self, journal: Journal, schema: TableSchema, batches: Sequence[pa.RecordBatch]) -> None:
        self.schema = schema
        self._journal = journal
        self._batches = batches
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._closed:
                return
            yield batch

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._journal.write("source.close")


@dataclass(slots=True)
class MemorySource:
    """SourcePort and MetricProbe over the given batches; the table or query of a request is ignored."""

    journal: Journal
    schema: TableSchema
    data: Sequence[pa.RecordBatch]

    def describe(self, request: ExtractRequest) -> TableSchema:
        self.journal.write("source.describe")
        return self.schema

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> MemoryStream:
        self.journal.write("source.open_stream")
        return MemoryStream(self.journal, schema, self.data)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        self.journal.write("source.cursor_maximum")
        values = [value for batch in self.data for value in batch.column(column).to_pylist() if value is not None]
        return str(max(values)) if values else None

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        self.journal.write(f"metrics.{request.side}")
        return count_metrics([row for batch in self.data for row in batch.to_pylist()], request)

    def ports(self) -> SourcePorts:
        return SourcePorts(source=self, metrics=self, statements=MemoryStatements(self.journal))


def count_metrics(rows: Sequence[Row], request: MetricRequest) -> Mapping[str, object]:
    """The answer of a metric probe about these rows."""
    answer: dict[str, object] = {
        "null_counts": {name: sum(row[name] is None for row in rows) for name in request.null_counts},
        "distinct_counts": {
            name: len({row[name] for row in rows if row[name] is not None}) for name in request.distinct_counts
        },
    }
    if request.row_count:
        answer["row_count"] = len(rows)
    return answer


def refuse_payload(request: StageRequest) -> None:
    """Raises ConnectorError for no columns, reserved names, added columns that are not nullable, and unusable keys."""
    if not request.schema.columns:
        raise ConnectorError("the source has no columns to load", code="empty_projection")
    if any(is_framework_column(name) for name in request.schema.names):
        raise ConnectorError("a source column uses the reserved prefix", code="framework_column_in_source")
    if not all(column.nullable for column in request.added.columns):
        raise ConnectorError("an added column must be nullable", code="schema_evolution_refused")
    refuse_keys(request)


def convert_rows(warehouse: MemoryWarehouse, request: StageRequest, batch: pa.RecordBatch) -> Iterator[Row]:
    """Converts a batch to rows of the target: cast to the types of an existing target, lineage values added."""
    existing = warehouse.tables.get(request.target)
    columns: dict[str, list[object]] = {}
    for column in request.schema.columns:
        stored = existing.schema.find(column.name) if existing is not None else None
        adds = request.strategy is not StrategyMode.FULL_REFRESH
        wanted = stored if stored is not None and adds else column
        columns[column.name] = _cast_column(batch.column(column.name), wanted)
    for values in zip(*columns.values(), strict=True):
        yield _add_lineage(dict(zip(columns, values, strict=True)), request)


def written_schema(request: StageRequest) -> TableSchema:
    """The payload's columns, then the lineage columns of this load."""
    names = (*request.lineage.constants, *((ROW_ID,) if request.lineage.row_id_columns else ()))
    return TableSchema(columns=request.schema.columns + lineage_schema(names).columns)


def _add_lineage(row: Row, request: StageRequest) -> Row:
    lineage = request.lineage
    constants: Row = {
        name: datetime.fromisoformat(text) if LINEAGE_TYPES[name].kind is ColumnKind.TIMESTAMP_TZ else text
        for name, text in lineage.constants.items()
    }
    if lineage.row_id_columns:
        constants[ROW_ID] = row_id_of(lineage, {name: row[name] for name in lineage.row_id_columns})
    return row | constants


def _cast_column(values: pa.Array, column: Column) -> list[object]:
    wanted = arrow_schema(TableSchema(columns=(column,))).field(0).type
    try:
        cast = values.cast(wanted, safe=True)
    except pa.ArrowException as error:
        raise ConnectorError(f"column {column.name!r}: a value does not fit", code="staged_value_refused") from error
    if cast.null_count and not column.nullable:
        raise ConnectorError(
            f"column {column.name!r}: NULL in a column that is declared not nullable", code="staged_value_refused"
        )
    listed: list[object] = cast.to_pylist()
    return listed


def _prefix(target: TableName) -> str:
    return f"__dpone__stg_{hashlib.sha256(str(target).encode()).hexdigest()[:8]}_"


def _matches(row: ControlRow, where: ControlRow) -> bool:
    return all(row.get(name) == value for name, value in where.items())
