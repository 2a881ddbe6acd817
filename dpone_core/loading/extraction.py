"""Decides what a load reads: the source request with its cursor window, and the schema in which rows are staged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpone_core.authoring.validate import closest
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.column_rules import misfit_of
from dpone_core.model.lineage import lineage_schema
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.partition import TransferPlan
from dpone_core.model.read_window import ReadWindow
from dpone_core.model.table_schema import ColumnKind, TableSchema, is_framework_column
from dpone_core.model.vocabulary import Side, StrategyMode
from dpone_core.planning.cursor_value import refuse_undated_lookback, subtract_lookback
from dpone_core.planning.target_schema import TargetSchemaDecision, decide_target_schema
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.ports.state import SavedCursor
from dpone_core.quality.policy import QualityGatePolicy


class SourceRefusedError(ETLExecutionError):
    """The source cannot be loaded as it is. No row was read and nothing was mutated; `code` names the reason."""

    code = "source_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What one load reads from the source, and how it arrives in staging.

    `saved_cursor` is the cursor state that this load started from, None for none. `next_cursor` is saved after success;
    None while no row has a cursor value. `repeatable`: the next load may read rows of this one again without harm.
    """

    request: ExtractRequest
    schema: TableSchema
    target: TargetSchemaDecision
    next_cursor: str | None
    saved_cursor: SavedCursor | None
    repeatable: bool = False

    @property
    def read_window(self) -> ReadWindow | None:
        """The window as the report shows it; None for a load without cursor."""
        window = self.request.window
        if window is None:
            return None
        return ReadWindow(column=window.column, lower=window.lower, upper=window.upper, next_lower=self.next_cursor)


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
    """Describes source and target, chooses the cursor window and decides the staging schema. Reads no rows.

    With `planned`, a stored transfer plan, the window is the one of that plan and the source is not asked for its
    newest cursor value. Raises SourceRefusedError for columns, keys or a cursor that cannot be loaded, and
    ConnectorError.
    """
    request = build_source_request(config, token_values)
    schema = apply_not_null(source.source.describe(request), request.reading.not_null)
    refuse_unloadable(schema, from_files=config.source.path is not None)
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
        newest = source.source.cursor_maximum(news, column)  # at or above the saved value, None for no row
        next_cursor = newest if newest is not None else lower
        request = replace(request, window=_choose_window(config, schema, lower, next_cursor))
    target = decide_target_schema(
        schema,
        lineage_schema(plan.target.lineage_columns),
        sink.target.describe_target(plan.target.table),
        plan.target.strategy,
        plan.target.schema_evolution,
        plan.target.unique_key,
        config.sink.target_defaults,
    )
    _refuse_unknown_keys(config, schema)
    return Extraction(
        request=request,
        schema=schema,
        target=target,
        next_cursor=next_cursor,
        saved_cursor=saved,
        repeatable=plan.target.strategy is StrategyMode.INCREMENTAL_MERGE,
    )


def _choose_window(config: LoadConfig, schema: TableSchema, saved: str | None, newest: str | None) -> CursorWindow:
    """The cursor values to read: from `saved` on, both ends as text, None for an open end.

    An append must read no row twice and miss none. Rows with the newest value may still be arriving, so it leaves that
    value to the next load. A merge may read a row twice: it includes the newest value, and starts earlier by the
    lookback.
    """
    assert config.source.incremental is not None
    column, lookback = config.source.incremental.cursor_column, config.source.incremental.lookback
    if config.sink.strategy.mode is not StrategyMode.INCREMENTAL_MERGE:
        return CursorWindow(column=column, lower=saved, upper=newest)
    found = schema.find(column)
    if not lookback or found is None:
        return CursorWindow(column=column, lower=saved)
    refuse_undated_lookback(column, found.type.kind)
    lower = subtract_lookback(saved, found.type.kind, lookback) if saved is not None else None
    return CursorWindow(column=column, lower=lower)


def build_source_request(config: LoadConfig, token_values: Mapping[str, str]) -> ExtractRequest:
    """The request for the whole source, without a cursor window."""
    return ExtractRequest(
        table=config.source.table,
        query=config.source.query,
        token_values=token_values,
        path=config.source.path,
        format=config.source.format,
        reading=config.source.reading,
        special_values=config.source.special_values,
        visible_rows=config.source.visible_rows,
    )


def refuse_misfit_rules(gates: QualityGatePolicy, payload: TableSchema) -> None:
    """Raises SourceRefusedError, naming gate and column, for a rule that these columns cannot be judged by."""
    for gate in gates.gates:
        misfit = None if gate.rule is None else misfit_of(gate.rule, payload)
        if misfit is None:
            continue
        name, why = misfit
        guess = closest(name, payload.names) if payload.find(name) is None else None
        raise SourceRefusedError(
            f"gate {gate.id!r}: column {name!r} {why}",
            code="gate_column_refused",
            fix=f"did you mean {guess!r}?" if guess else "name a column of the load that the rule has a meaning for",
        )


def apply_not_null(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    """The schema with the columns of `source.options.not_null` not nullable: reading stops at a NULL in one, and
    staging has no place for it. Raises SourceRefusedError `source_schema_inconsistent` for a name that the source
    lacks."""
    for name in names:
        if schema.find(name) is None:
            raise SourceRefusedError(
                f"not_null names column '{name}', which the source does not have",
                code="source_schema_inconsistent",
                fix="correct the name; it is compared exactly, including case",
            )
    return TableSchema(
        columns=tuple(
            replace(column, nullable=column.nullable and column.name not in names) for column in schema.columns
        )
    )


def refuse_unloadable(schema: TableSchema, *, from_files: bool = False) -> None:
    """Raises SourceRefusedError for a source without columns (`empty_projection`), with a column in the reserved
    namespace (`framework_column_in_source`), or of a type without exact form (`source_column_unsupported`)."""
    if not schema.columns:
        raise SourceRefusedError("the source result has no columns", code="empty_projection")
    reserved = [column.name for column in schema.columns if is_framework_column(column.name)]
    if reserved:
        raise SourceRefusedError(
            f"source column '{reserved[0]}' uses the reserved prefix __dpone__",
            code="framework_column_in_source",
            fix="rename it in the files" if from_files else "rename it in options.query",
        )
    unsupported = [column for column in schema.columns if column.type.kind is ColumnKind.UNSUPPORTED]
    if unsupported:
        listed = ", ".join(f"'{column.name}' ({column.type.native})" for column in unsupported)
        raise SourceRefusedError(
            f"source columns without an exact form: {listed}",
            code="source_column_unsupported",
            fix="write them as another type, or leave them out of the files"
            if from_files
            else "CAST them in options.query",
        )


def refuse_rows_without_window(extraction: Extraction, rows: int) -> None:
    """Raises SourceRefusedError when a load that found no cursor value nevertheless read `rows` rows.

    Such a load has no upper bound and saves no cursor: the next load would append the same rows again.
    """
    window = extraction.request.window
    if window is not None and window.upper is None and rows and not extraction.repeatable:
        raise SourceRefusedError(
            f"the source held no row with a cursor value when the load began, and {rows} rows arrived while it read",
            fix="run again: the next load reads these rows and saves their cursor",
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
    """Raises SourceRefusedError unless the cursor column exists, is the one of the saved state, and holds no NULL.

    A row whose cursor value is NULL lies in no window, so no load would ever read it.
    """
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
        raise SourceRefusedError(
            f"cursor column '{column}' may hold NULL, and this source cannot count NULL values", code="cursor_nullable"
        )
    counts = source.metrics.collect(_null_count_request(request, column)).get("null_counts")
    nulls = counts.get(column) if isinstance(counts, Mapping) else None
    if isinstance(nulls, bool) or not isinstance(nulls, int):
        raise ConnectorError(
            f"the source did not say how many NULL values cursor column '{column}' holds",
            code="cursor_null_count_unavailable",
        )
    if nulls > 0:
        raise SourceRefusedError(
            f"cursor column '{column}' holds {nulls} NULL values; such rows would never be loaded",
            code="cursor_has_nulls",
            fix="give them a value, or filter them in options.query",
        )


def _null_count_request(request: ExtractRequest, column: str) -> MetricRequest:
    return MetricRequest(side=Side.SOURCE, extract=request, row_count=False, null_counts=(column,))
