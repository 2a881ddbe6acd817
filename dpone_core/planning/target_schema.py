"""Decides what an existing target means for arriving rows: create it, keep it, add columns, follow the source, or
refuse.

Rules (LIFE-48, VAL-07): no column is narrowed or silently dropped; `add_columns` adds nullable columns; full_refresh
takes the source's types, except that a column that is already wider stays as wide as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.model.table_schema import NO_COLUMNS, Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import SchemaEvolution, StrategyMode

_INTEGER_WIDTH: Final = {
    ColumnKind.INT8: (True, 8),
    ColumnKind.INT16: (True, 16),
    ColumnKind.INT32: (True, 32),
    ColumnKind.INT64: (True, 64),
    ColumnKind.UINT8: (False, 8),
    ColumnKind.UINT16: (False, 16),
    ColumnKind.UINT32: (False, 32),
    ColumnKind.UINT64: (False, 64),
}
_SCALED: Final = frozenset({ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


class TargetSchemaDiffersError(ETLExecutionError):
    """The target exists and does not fit; nothing was changed. `differences` names columns and types, never values."""

    code = "target_schema_differs"

    def __init__(self, differences: tuple[str, ...]) -> None:
        self.differences = differences
        super().__init__(
            "the existing target cannot take the source's rows: " + "; ".join(differences),
            fix="align the tables, or declare: sink.options.schema_evolution: add_columns for new columns,"
            " source.options.not_null for columns without NULL, sink.options.target_defaults for those with a DEFAULT",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSchemaDecision:
    """`payload` is the schema of the staged columns without lineage: the source's columns in the target's types, then
    the nullable columns that only the target has (`target_only`, staged as NULL).

    `added` lists the columns that the publication adds to the target; `created` is True when the target does not exist.
    """

    payload: TableSchema
    added: TableSchema
    created: bool
    target_only: tuple[str, ...] = ()


def accepts(target: ColumnType, arriving: ColumnType) -> bool:
    """Whether `target` can store every value of `arriving` exactly."""
    if target.same_values(arriving):
        return True
    if target.kind in _INTEGER_WIDTH and arriving.kind in _INTEGER_WIDTH:
        target_signed, target_bits = _INTEGER_WIDTH[target.kind]
        signed, bits = _INTEGER_WIDTH[arriving.kind]
        return target_bits >= bits if target_signed == signed else target_signed and target_bits > bits
    if target.kind is ColumnKind.DECIMAL and arriving.kind is ColumnKind.DECIMAL:
        whole = (target.precision or 0) - (target.scale or 0)
        return (target.scale or 0) >= (arriving.scale or 0) and whole >= (arriving.precision or 0) - (
            arriving.scale or 0
        )
    if target.kind is ColumnKind.DECIMAL and arriving.kind in _INTEGER_WIDTH:
        return (target.precision or 0) - (target.scale or 0) >= _digits(arriving.kind)
    if target.kind is arriving.kind and target.kind in _SCALED:
        return (target.fraction if target.fraction is not None else 9) >= (arriving.fraction or 0)
    return (target.kind, arriving.kind) in (
        (ColumnKind.FLOAT64, ColumnKind.FLOAT32),
        (ColumnKind.STRING, ColumnKind.BINARY),
    )


def _digits(kind: ColumnKind) -> int:
    """Decimal digits of the greatest value of an integer kind."""
    signed, bits = _INTEGER_WIDTH[kind]
    return len(str(2 ** (bits - signed) - 1))


def decide_target_schema(
    arriving: TableSchema,
    lineage: TableSchema,
    existing: TableSchema | None,
    strategy: StrategyMode,
    evolution: SchemaEvolution,
    unique_key: tuple[str, ...] = (),
    defaults: tuple[str, ...] = (),
) -> TargetSchemaDecision:
    """Decides the staged schema and the columns to add. `arriving` is the source's schema; columns of `defaults` are
    left to the target.

    Raises TargetSchemaDiffersError before anything is changed. In a merge the key columns are treated as not nullable,
    because a merge refuses NULL in its key (LIFE-32).
    """
    if strategy is StrategyMode.INCREMENTAL_MERGE:
        arriving = _without_nulls(arriving, unique_key)
    if existing is None:
        return TargetSchemaDecision(payload=arriving, added=NO_COLUMNS, created=True)
    if strategy is StrategyMode.FULL_REFRESH:
        followed = tuple(_follow_source(column, existing.find(column.name)) for column in arriving.columns)
        return TargetSchemaDecision(payload=TableSchema(columns=followed), added=NO_COLUMNS, created=False)
    whole = TableSchema(columns=(*arriving.columns, *lineage.columns))
    missing = tuple(column for column in whole.columns if existing.find(column.name) is None)
    differences = (*_differences(whole, existing, defaults), *_misnamed(defaults, arriving, existing))
    if evolution is SchemaEvolution.REFUSE:
        differences += tuple(f"column '{c.name}' {c.type} is missing in the target, or computed by it" for c in missing)
    if differences:
        raise TargetSchemaDiffersError(differences)
    absent = tuple(c for c in existing.business_columns if whole.find(c.name) is None)
    target_only = tuple(column for column in absent if column.name not in defaults)
    return TargetSchemaDecision(
        payload=TableSchema(
            columns=(
                *(existing.find(c.name) or Column(name=c.name, type=c.type) for c in arriving.columns),
                *target_only,
            )
        ),
        added=TableSchema(columns=tuple(Column(name=c.name, type=c.type, nullable=True) for c in missing)),
        created=False,
        target_only=tuple(column.name for column in target_only),
    )


def _without_nulls(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    return TableSchema(
        columns=tuple(replace(column, nullable=False) if column.name in names else column for column in schema.columns)
    )


def _follow_source(arriving: Column, existing: Column | None) -> Column:
    """Full refresh: the source's column, unless the target's is wider already; it never narrows."""
    if existing is None or not accepts(existing.type, arriving.type):
        return arriving
    return Column(name=arriving.name, type=existing.type, nullable=arriving.nullable or existing.nullable)


def _misnamed(defaults: tuple[str, ...], arriving: TableSchema, existing: TableSchema) -> tuple[str, ...]:
    return tuple(
        f"target_defaults names column '{name}', which the {side}"
        for name in defaults
        for side, wrong in (("source has", arriving.find(name)), ("target lacks", not existing.find(name)))
        if wrong
    )


def _differences(arriving: TableSchema, existing: TableSchema, defaults: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for column in existing.columns:
        if arriving.find(column.name) is None and not column.nullable and column.name not in defaults:
            found.append(f"target column '{column.name}' {column.type} is not nullable and the source does not have it")
    for column in arriving.columns:
        target = existing.find(column.name)
        if target is None:
            continue
        if not accepts(target.type, column.type):
            found.append(f"column '{column.name}' is {column.type} in the source and {target.type} in the target")
        elif column.nullable and not target.nullable:
            found.append(f"column '{column.name}' may be NULL in the source and is not nullable in the target")
    return tuple(found)
