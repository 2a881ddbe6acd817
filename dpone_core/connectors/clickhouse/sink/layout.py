"""The definition of a load's staging table on ClickHouse, and which existing targets are refused."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from dpone_core.connectors.clickhouse.catalog import TableFacts, facts_of, schema_of
from dpone_core.connectors.clickhouse.ddl import Ddl, order_by_text, partition_by_text
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.types import stored_type
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import NO_COLUMNS, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

from .lineage import staged_schema

REPLICATED_ENGINES = frozenset({"ReplicatedMergeTree", "SharedMergeTree"})
PUBLISHABLE_ENGINES = REPLICATED_ENGINES | {"MergeTree"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`create` creates the empty staging table; `target` is the existing target, None when absent."""

    create: tuple[str, ...]
    target: TableFacts | None


def layout_of(session: Session, request: StageRequest, target: TableName, staged: TableName) -> Layout:
    """The layout of staging: a copy of the existing target where staging must or can be like it, otherwise a table for
    the payload. Raises ConnectorError `physical_design_mismatch`."""
    facts = facts_of(session, target)
    refuse_nullable_keys(request, target_exists=facts is not None)
    ddl = Ddl(request.physical_design.cluster)
    schema = staged_schema(request.schema, request.lineage)
    if facts is None:
        return Layout(create=(_create_new(ddl, request, schema, staged, None),), target=None)
    if facts.engine not in PUBLISHABLE_ENGINES:
        raise ConnectorError(
            f"the target's engine {facts.engine} rewrites or does not store rows; dpone publishes to MergeTree",
            code="physical_design_mismatch",
        )
    if request.physical_design.cluster and facts.engine not in REPLICATED_ENGINES:
        raise ConnectorError(
            f"the target's engine {facts.engine} keeps different rows on each node of the cluster",
            code="physical_design_mismatch",
            fix="make it a ReplicatedMergeTree, or remove physical_design.storage.clickhouse.cluster",
        )
    existing = schema_of(session, target) or NO_COLUMNS
    if request.strategy is StrategyMode.FULL_REFRESH:
        if _same_columns(existing, schema):
            return Layout(create=(ddl.create_like(staged, target),), target=facts)
        return Layout(create=(_create_new(ddl, request, schema, staged, facts),), target=facts)
    added = request.added.without(existing)
    _refuse_missing_columns(existing.widened(added), schema)
    widened = (ddl.add_columns(staged, added),) if added.columns else ()
    return Layout(create=(ddl.create_like(staged, target), *widened), target=facts)


def refuse_nullable_keys(request: StageRequest, *, target_exists: bool) -> None:
    """ConnectorError `order_by_column_nullable`; ClickHouse's own message does not say what to do (LIFE-32)."""
    design = request.physical_design
    order_by = design.order_by or (() if target_exists else merge_key_of(request))
    keys = (*order_by, *((design.partition_by.column,) if design.partition_by else ()))
    for name in keys:
        column = request.schema.find(name)
        if column is None:
            raise ConnectorError(f"key column {name!r} is not a column of the source", code="physical_design_mismatch")
        if column.nullable:
            raise ConnectorError(
                f"column {name!r} is nullable and cannot be part of ORDER BY or PARTITION BY",
                code="order_by_column_nullable",
                fix="declare it NOT NULL at the source, or choose another key",
            )


def refuse_other_design(session: Session, request: StageRequest, target: TableName, scratch: TableName) -> None:
    """Raises ConnectorError `physical_design_mismatch` when the target has other keys than the request. Both are
    compared as ClickHouse normalises them; `scratch` is a table created from the request."""
    existing, asked = facts_of(session, target), facts_of(session, scratch)
    if existing is None or asked is None:
        return
    design = request.physical_design
    keys = (
        ("ordered", design.order_by, existing.sorting_key, asked.sorting_key),
        ("partitioned", design.partition_by, existing.partition_key, asked.partition_key),
    )
    for how, wanted, held, normal in keys:
        if wanted and _bare(held) != _bare(normal):
            raise ConnectorError(
                f"the target is {how} by ({_bare(held)}), the manifest asks for ({_bare(normal)})",
                code="physical_design_mismatch",
            )


def _bare(key: str) -> str:
    """A key without the parentheses around it: `(id)` and `id` are the same key."""
    depths = list(accumulate((character == "(") - (character == ")") for character in key))
    whole = key.startswith("(") and depths[-1] == 0 and 0 not in depths[:-1]
    return _bare(key[1:-1]) if whole else key


def _create_new(
    ddl: Ddl, request: StageRequest, schema: TableSchema, staged: TableName, facts: TableFacts | None
) -> str:
    design = request.physical_design
    order_by = order_by_text(design.order_by or merge_key_of(request))
    if facts is not None and not design.order_by and facts.sorting_key:
        order_by = f"({_bare(facts.sorting_key)})"
    partition_by = partition_by_text(design.partition_by) if design.partition_by else None
    if facts is not None and partition_by is None and facts.partition_key:
        partition_by = facts.partition_key
    return ddl.create_table(staged, schema, order_by=order_by, partition_by=partition_by)


def merge_key_of(request: StageRequest) -> tuple[str, ...]:
    """The columns by which a merge finds rows; a target created for a merge is ordered by them."""
    return request.unique_key if request.strategy is StrategyMode.INCREMENTAL_MERGE else ()


def create_as_requested(request: StageRequest, scratch: TableName) -> str:
    """The statement that creates a table from the request alone, whatever the target looks like."""
    schema = staged_schema(request.schema, request.lineage)
    return _create_new(Ddl(request.physical_design.cluster), request, schema, scratch, None)


def _same_columns(existing: TableSchema, wanted: TableSchema) -> bool:
    return existing.names == wanted.names and all(
        ours.nullable == theirs.nullable and ours.type.same_values(stored_type(theirs.type))
        for ours, theirs in zip(existing.columns, wanted.columns, strict=True)
    )


def _refuse_missing_columns(existing: TableSchema, wanted: TableSchema) -> None:
    for column in wanted.columns:
        if existing.find(column.name) is None:
            raise ConnectorError(f"the target has no column {column.name!r}", code="physical_design_mismatch")
    for column in existing.columns:
        if wanted.find(column.name) is None and not column.nullable:
            raise ConnectorError(
                f"the target's column {column.name!r} is not nullable, and the source has no such column",
                code="physical_design_mismatch",
            )
