"""From configuration and saved cursor to the request a source answers, and from its schema to what staging gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.lineage import lineage_schema
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.partition import TransferPlan
from dpone_core.model.table_schema import ColumnKind, TableSchema, is_framework_column
from dpone_core.model.vocabulary import Side, StrategyMode
from dpone_core.planning.cursor_value import earlier, refuse_undated_lookback
from dpone_core.planning.target_schema import TargetSchemaDecision, decide_target_schema
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.ports.state import SavedCursor


class SourceRefusedError(ETLExecutionError):
    """The source cannot be loaded as it is; nothing was read and nothing mutated."""

    code = "source_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """`next_cursor` becomes the saved cursor after success; None while no row has a cursor value. `seen` is the one
    that this load read. `repeatable`: a row that the next load reads again does no harm."""

    request: ExtractRequest
    schema: TableSchema
    target: TargetSchemaDecision
    next_cursor: str | None
    seen: SavedCursor | None
    repeatable: bool = False


def prepare_extraction(
    config: LoadConfig,
    plan: LoadPlan,
    source: SourcePorts,
    sink: SinkPorts,
    saved: SavedCursor | None,
    token_values: Mapping[str, str],
    *,
    planned: TransferPlan | None = None,
) -> Extraction:
    """Describes source and target, fixes the cursor window, decides the staging schema. Reads no rows.

    With a stored plan the window is that of the plan, and the source is not asked for its cursor again.
    """
    request = whole_source(config, token_values)
    schema = source.source.describe(request)
    refuse_unloadable(schema)
    next_cursor = None
    incremental = config.source.incremental if config.sink.strategy.mode.is_incremental else None
    if incremental is not None and planned is not None:
        next_cursor = planned.next_cursor
        window = CursorWindow(column=incremental.cursor_column, lower=planned.window_lower, upper=planned.window_upper)
        request = replace(request, window=window)
    elif incremental is not None:
        column = incremental.cursor_column
        _refuse_bad_cursor(column, schema, request, source, saved)
        lower = saved.value if saved is not None else None
        news = replace(request, window=CursorWindow(column=column, lower=lower))
        newest = source.source.cursor_maximum(news, column)  # never below what is saved
        next_cursor = newest if newest is not None else lower
        request = replace(request, window=_window(config, schema, lower, next_cursor))
    target = decide_target_schema(
        schema,
        lineage_schema(plan.target.lineage_columns),
        sink.target.describe_target(plan.target.table),
        plan.target.strategy,
        plan.target.schema_evolution,
        plan.target.unique_key,
    )
    _refuse_unknown_keys(config, schema)
    return Extraction(
        request=request,
        schema=schema,
        target=target,
        next_cursor=next_cursor,
        seen=saved,
        repeatable=plan.target.strategy is StrategyMode.INCREMENTAL_MERGE,
    )


def _window(config: LoadConfig, schema: TableSchema, saved: str | None, newest: str | None) -> CursorWindow:
    """What to read: an append must read every row once, so the newest value waits; a merge reads a row again without
    harm, so it takes the newest rows and those that came late within the lookback."""
    assert config.source.incremental is not None
    column, lookback = config.source.incremental.cursor_column, config.source.incremental.lookback
    if config.sink.strategy.mode is not StrategyMode.INCREMENTAL_MERGE:
        return CursorWindow(column=column, lower=saved, upper=newest)
    found = schema.find(column)
    if not lookback or found is None:
        return CursorWindow(column=column, lower=saved)
    refuse_undated_lookback(column, found.type.kind)
    lower = earlier(saved, found.type.kind, lookback) if saved is not None else None
    return CursorWindow(column=column, lower=lower)


def whole_source(config: LoadConfig, token_values: Mapping[str, str]) -> ExtractRequest:
    """The source without any window."""
    return ExtractRequest(
        table=config.source.table,
        query=config.source.query,
        token_values=token_values,
        path=config.source.path,
        format=config.source.format,
        reading=config.source.reading,
        special_values=config.source.special_values,
    )


def refuse_unloadable(schema: TableSchema) -> None:
    """A result without columns, with a reserved name, or with a type that has no exact form is refused by name."""
    if not schema.columns:
        raise SourceRefusedError("the source result has no columns", code="empty_projection")
    reserved = [column.name for column in schema.columns if is_framework_column(column.name)]
    if reserved:
        raise SourceRefusedError(
            f"source column '{reserved[0]}' uses the reserved prefix __dpone__",
            code="framework_column_in_source",
            fix="rename it in options.query",
        )
    unsupported = [column for column in schema.columns if column.type.kind is ColumnKind.UNSUPPORTED]
    if unsupported:
        listed = ", ".join(f"'{column.name}' ({column.type.native})" for column in unsupported)
        raise SourceRefusedError(
            f"source columns without an exact form: {listed}",
            code="source_column_unsupported",
            fix="CAST them in options.query",
        )


def refuse_unwindowed_rows(extraction: Extraction, rows: int) -> None:
    """A source seen empty has no window to read; rows that came since would be appended now and again next time."""
    window = extraction.request.window
    if window is not None and window.upper is None and rows and not extraction.repeatable:
        raise SourceRefusedError(
            f"the source was empty when the load began and {rows} rows have come since",
            fix="run again",
        )


def _refuse_unknown_keys(config: LoadConfig, schema: TableSchema) -> None:
    partition = config.sink.physical_design.partition_by
    parts = (partition.column,) if partition is not None else ()
    for name in (*config.sink.strategy.unique_key, *config.sink.physical_design.order_by, *parts):
        if schema.find(name) is None:
            raise SourceRefusedError(f"key column '{name}' is not in the source", code="key_column_unknown")


def _refuse_bad_cursor(
    column: str, schema: TableSchema, request: ExtractRequest, source: SourcePorts, saved: SavedCursor | None
) -> None:
    """The cursor must exist, be the saved one, and hold no NULL: a NULL lies in no window and would vanish."""
    found = schema.find(column)
    if found is None:
        raise SourceRefusedError(f"cursor column '{column}' is not in the source", code="cursor_column_unknown")
    if saved is not None and saved.column != column:
        raise SourceRefusedError(
            f"the saved state belongs to cursor column '{saved.column}', not '{column}'",
            code="cursor_column_changed",
            fix="load once with full_refresh, or restore the column",
        )
    if not found.nullable:
        return
    if source.metrics is None:
        raise SourceRefusedError(f"cursor column '{column}' is nullable and cannot be checked", code="cursor_nullable")
    counts = source.metrics.collect(_null_request(request, column)).get("null_counts")
    nulls = counts.get(column) if isinstance(counts, Mapping) else None
    if isinstance(nulls, bool) or not isinstance(nulls, int):
        raise ConnectorError("the source did not count NULL cursor values", code="cursor_null_count_unavailable")
    if nulls > 0:
        raise SourceRefusedError(
            f"cursor column '{column}' holds {nulls} NULL values; such rows would never be loaded",
            code="cursor_has_nulls",
            fix="give them a value, or filter them in options.query",
        )


def _null_request(request: ExtractRequest, column: str) -> MetricRequest:
    return MetricRequest(side=Side.SOURCE, extract=request, row_count=False, null_counts=(column,))
