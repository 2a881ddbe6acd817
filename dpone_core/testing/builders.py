"""Builds valid values for tests, so that a test names only the field that matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LineageColumns, StageRequest

INT64: Final = ColumnType(kind=ColumnKind.INT64)
TEXT: Final = ColumnType(kind=ColumnKind.STRING)
ORDERS: Final = TableSchema(
    columns=(
        Column(name="id", type=INT64, nullable=False),
        Column(name="name", type=TEXT),
        Column(name="amount", type=ColumnType(kind=ColumnKind.DECIMAL, precision=18, scale=4)),
    )
)
_ARROW: Final = {
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.INT16: pa.int16(),
    ColumnKind.INT32: pa.int32(),
    ColumnKind.INT64: pa.int64(),
    ColumnKind.FLOAT64: pa.float64(),
    ColumnKind.STRING: pa.string(),
    ColumnKind.BINARY: pa.binary(),
    ColumnKind.DATE: pa.date32(),
    ColumnKind.TIMESTAMP: pa.timestamp("us"),
    ColumnKind.TIMESTAMP_TZ: pa.timestamp("us", "UTC"),
    ColumnKind.UUID: pa.binary(16),
}


def arrow_schema(schema: TableSchema) -> pa.Schema:
    """Arrow schema of the column kinds that tests use, with microsecond times. Raises KeyError for another kind."""
    return pa.schema(
        [
            pa.field(
                column.name,
                pa.decimal128(column.type.precision, column.type.scale)
                if column.type.kind is ColumnKind.DECIMAL
                else _ARROW[column.type.kind],
            )
            for column in schema.columns
        ]
    )


def batch_of(schema: TableSchema, rows: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
    """One record batch; a column that a row does not name is NULL."""
    wanted = arrow_schema(schema)
    arrays = [pa.array([row.get(field.name) for row in rows], type=field.type) for field in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def orders(*ids: int, name: str = "n") -> pa.RecordBatch:
    """Rows of ORDERS with these ids; all amounts are NULL."""
    return batch_of(ORDERS, [{"id": i, "name": name} for i in ids])


def load_identity(load: str = "L1", *, run_id: str = "run-1", attempt: int = 1) -> LoadIdentity:
    """Identity of load `load`; run `run-1` and attempt 1 unless given."""
    return LoadIdentity(run_id=RunId(run_id), load_id=LoadId(load), attempt=attempt)


def stage_request(
    target: TableName,
    load: str = "L1",
    *,
    strategy: StrategyMode = StrategyMode.FULL_REFRESH,
    schema: TableSchema = ORDERS,
    staging_schema: str | None = None,
    order_by: Iterable[str] = (),
    lineage: LineageColumns | None = None,
    unique_key: Iterable[str] = (),
    target_only: Iterable[str] = (),
    partition_by: PartitionBy | None = None,
) -> StageRequest:
    """A request to stage ORDERS for `target` by full_refresh, with the given fields replaced."""
    return StageRequest(
        identity=load_identity(load),
        target=target,
        staging_schema=staging_schema,
        schema=schema,
        strategy=strategy,
        physical_design=PhysicalDesign(order_by=tuple(order_by), partition_by=partition_by),
        lineage=lineage if lineage is not None else LineageColumns(),
        unique_key=tuple(unique_key),
        target_only=tuple(target_only),
    )


def with_column(schema: TableSchema, column: Column) -> TableSchema:
    """The schema with one column added, or replaced under the same name."""
    kept = tuple(existing for existing in schema.columns if existing.name != column.name)
    return replace(schema, columns=(*kept, column))
