"""How staging of one load is laid out, and whether it may take the target's place or must be copied into it."""

from __future__ import annotations

from dataclasses import replace

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import ROW_ID, lineage_schema
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

from .catalog import TargetTable
from .types import StoredColumn, created, existing

_MISMATCH = "physical_design_mismatch"


def lineage_names(request: StageRequest) -> tuple[str, ...]:
    row_id = (ROW_ID,) if request.lineage.row_id_columns else ()
    return (*request.lineage.constants, *row_id)


def may_swap(request: StageRequest, target: TargetTable | None, attachments: tuple[str, ...]) -> bool:
    """A load's own table takes the target's place when nothing hangs on the target, or when there is none."""
    return target is None or (request.strategy is StrategyMode.FULL_REFRESH and not attachments)


def stored_columns(
    request: StageRequest, target: TargetTable | None, attachments: tuple[str, ...]
) -> tuple[StoredColumn, ...]:
    """Payload columns as staging holds them: those of the target, in its own types, where rows are copied into it."""
    if target is None:
        return tuple(created(column) for column in request.schema.columns)
    refuse_computed(request, target)
    if may_swap(request, target, attachments):
        return tuple(_followed(column, target) for column in request.schema.columns)
    if request.strategy is StrategyMode.FULL_REFRESH:
        refuse_different(request, target, attachments)
    return tuple(_copied(column, target) for column in request.schema.columns)


def refuse_computed(request: StageRequest, target: TargetTable) -> None:
    for name in target.computed:
        if request.schema.find(name) is not None:
            raise ConnectorError(
                f"the target computes column {name!r} itself", code=_MISMATCH, fix="leave it out in options.query"
            )


def refuse_different(request: StageRequest, target: TargetTable, attachments: tuple[str, ...]) -> None:
    """A full refresh of a table that has something attached keeps the table, so its columns must be the source's."""
    wanted = TableSchema(columns=(*request.schema.columns, *lineage_schema(lineage_names(request)).columns))
    found = [
        f"column {column.name!r} is not in the target"
        if (there := target.find(column.name)) is None
        else f"column {column.name!r} is {column.type} and {there.column.type} in the target"
        for column in wanted.columns
        if target.find(column.name) is None or not _holds(target, column)
    ]
    found += [f"column {name!r} is in the target only" for name in target.schema.names if wanted.find(name) is None]
    if found:
        raise ConnectorError(
            f"the target has {', '.join(attachments)}, which a new table would not have,"
            f" and other columns than the source: {'; '.join(found)}",
            code=_MISMATCH,
            fix="change the target's columns by hand, or remove what is attached to it",
        )


def _holds(target: TargetTable, column: Column) -> bool:
    there = target.find(column.name)
    return there is not None and there.column.type.same_values(_as_stored(column).type)


def _as_stored(column: Column) -> Column:
    """The kind PostgreSQL will describe for a kind that it has no own type for."""
    kinds = {
        ColumnKind.INT8: ColumnKind.INT16,
        ColumnKind.UINT8: ColumnKind.INT16,
        ColumnKind.UINT16: ColumnKind.INT32,
        ColumnKind.UINT32: ColumnKind.INT64,
    }
    if column.type.kind is ColumnKind.UINT64:
        return replace(column, type=replace(column.type, kind=ColumnKind.DECIMAL, precision=20, scale=0))
    return replace(column, type=replace(column.type, kind=kinds.get(column.type.kind, column.type.kind)))


def _followed(column: Column, target: TargetTable) -> StoredColumn:
    """The source's column, in the target's own type (jsonb, an enum, a domain) where that holds the same values."""
    there = target.find(column.name)
    if there is None or not there.column.type.same_values(column.type):
        return created(column)
    return existing(replace(there.column, nullable=column.nullable), there.declared)


def _copied(column: Column, target: TargetTable) -> StoredColumn:
    there = target.find(column.name)
    if there is None:
        raise ConnectorError(f"the target has no column {column.name!r}", code=_MISMATCH)
    if there.column.type.kind is ColumnKind.UNSUPPORTED:
        raise ConnectorError(
            f"column {column.name!r}: the target's type takes no rows exactly: {there.column.type.native}",
            code="sink_column_unsupported",
        )
    return existing(there.column, there.declared)
