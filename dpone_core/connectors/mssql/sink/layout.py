"""How staging of one load is laid out, and whether it may take the target's place or must be copied into it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dpone_core.connectors.mssql.types import column_type
from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import ROW_ID, lineage_schema
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

from .catalog import TargetTable
from .types import StoredColumn, created, type_text

_MISMATCH: Final = "physical_design_mismatch"


def may_swap(request: StageRequest, target: TargetTable | None, attachments: tuple[str, ...]) -> bool:
    """A load's own table takes the target's place when nothing hangs on the target, or when there is none."""
    return target is None or (request.strategy is StrategyMode.FULL_REFRESH and not attachments)


def stored_columns(
    request: StageRequest, target: TargetTable | None, attachments: tuple[str, ...]
) -> tuple[StoredColumn, ...]:
    """Payload columns as staging holds them: those of the target, in its own types, where rows are copied into it."""
    if target is None:
        return tuple(created(column, request.unique_key) for column in request.schema.columns)
    for name in target.computed:
        if request.schema.find(name) is not None:
            raise ConnectorError(
                f"the target computes column {name!r} itself", code=_MISMATCH, fix="leave it out in options.query"
            )
    if may_swap(request, target, attachments):
        return tuple(_followed(column, request, target) for column in request.schema.columns)
    if request.strategy is StrategyMode.FULL_REFRESH:
        refuse_different(request, target, attachments)
    return tuple(_copied(column, target) for column in request.schema.columns)


def refuse_different(request: StageRequest, target: TargetTable, attachments: tuple[str, ...]) -> None:
    """A full refresh of a table that has something attached keeps the table, so its columns must be the source's."""
    names = (*request.lineage.constants, *((ROW_ID,) if request.lineage.row_id_columns else ()))
    wanted = TableSchema(columns=(*request.schema.columns, *lineage_schema(names).columns))
    found = [f"column {name!r} is in the target only" for name in target.schema.names if wanted.find(name) is None]
    for column in wanted.columns:
        there = target.find(column.name)
        if there is None:
            found.append(f"column {column.name!r} is not in the target")
        elif not there.type.same_values(column_type(type_text(column))):
            found.append(f"column {column.name!r} is {column.type} and {there.type} in the target")
    if found:
        raise ConnectorError(
            f"the target has {', '.join(attachments)}, which a new table would not have,"
            f" and other columns than the source: {'; '.join(found)}",
            code=_MISMATCH,
            fix="change the target's columns by hand, or remove what is attached to it",
        )


def _followed(column: Column, request: StageRequest, target: TargetTable) -> StoredColumn:
    """The source's column, in the target's own type (nvarchar(50), money) where that holds the same values."""
    there = target.find(column.name)
    if there is None or not there.type.same_values(column.type):
        return created(column, request.unique_key)
    return StoredColumn(column=replace(there, nullable=column.nullable), declared=there.type.native)


def _copied(column: Column, target: TargetTable) -> StoredColumn:
    there = target.find(column.name)
    if there is None:
        raise ConnectorError(f"the target has no column {column.name!r}", code=_MISMATCH)
    if there.type.kind is ColumnKind.UNSUPPORTED:
        raise ConnectorError(
            f"column {column.name!r}: the target's type takes no rows exactly: {there.type.native}",
            code="sink_column_unsupported",
        )
    return StoredColumn(column=there, declared=there.type.native)
