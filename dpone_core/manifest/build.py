"""Converts one valid authored process into the frozen LoadConfig that the planner takes. It checks nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.authoring.file_columns import CsvSection, NdjsonSection
from dpone_core.authoring.hooks import HookSection
from dpone_core.authoring.rules import connection_refs, hook_path, hook_sections, statement_gates
from dpone_core.authoring.sink import DEFAULT_FILE_FORMAT, SinkSection
from dpone_core.authoring.source import PartitioningSection, SourceOptionsSection, TableSection, duration_of
from dpone_core.authoring.validate import Path
from dpone_core.declared.registry import FILE_SINKS
from dpone_core.manifest.processes import AuthoredProcess
from dpone_core.model.file_reading import CsvDialect, FileReading, declared_type
from dpone_core.model.hook import HookDefinition, HookLineage
from dpone_core.model.load_config import (
    GovernanceConfig,
    IncrementalConfig,
    LineageConfig,
    LoadConfig,
    PartitionBy,
    PartitioningConfig,
    PhysicalDesign,
    SinkConfig,
    SourceConfig,
    StrategyConfig,
    TableName,
)
from dpone_core.model.special_values import SpecialValueRule
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import Column
from dpone_core.model.vocabulary import HookPhase

QUERY_PATH: Path = ("source", "options", "query")


def load_config(
    process: AuthoredProcess, *, manifest: str, sql: Mapping[Path, SqlText], connections: Mapping[str, str]
) -> LoadConfig:
    """Builds the LoadConfig. `sql` holds the text of the query, of every SQL hook and of every gate with a statement,
    by the path of its section.
    """
    section = process.section
    refs = set(connection_refs(section))
    quality = process.merged.value.get("quality", {})
    return LoadConfig(
        process=section.name,
        manifest=manifest,
        source=_source(process, sql.get(QUERY_PATH)),
        sink=_sink(section.sink),
        hooks=tuple(
            _hook(phase, hook, sql.get(hook_path(phase, index)))
            for phase, index, hook in hook_sections(section.source.options.hooks)
        ),
        quality=_with_statements(quality, process, sql) if isinstance(quality, dict) else {},
        state=section.state_type,
        connections={ref: uri for ref, uri in connections.items() if ref in refs},
    )


def _with_statements(
    quality: dict[str, object], process: AuthoredProcess, sql: Mapping[Path, SqlText]
) -> dict[str, object]:
    """The quality section with the text of a file in place of its name, so that the policy is about what is judged."""
    authored = quality.get("gates")
    gates = list(authored) if isinstance(authored, list) else []
    for where, gate in statement_gates(process.section):
        if gate.sql_file is not None:
            index = int(where[-1])
            kept = {name: value for name, value in gates[index].items() if name != "sql_file"}
            gates[index] = kept | {"sql": sql[where].text}
    return quality | {"gates": gates} if gates else quality


def _table(table: TableSection) -> TableName:
    return TableName(schema=table.schema_name, name=table.name)


def _source(process: AuthoredProcess, query: SqlText | None) -> SourceConfig:
    source = process.section.source
    cursor = source.options.incremental
    return SourceConfig(
        type=source.type,
        connection_ref=source.connection_ref,
        table=_table(source.table) if source.table is not None else None,
        query=query,
        path=source.options.path,
        format=source.options.format,
        reading=_reading(source.options),
        incremental=None
        if cursor is None
        else IncrementalConfig(cursor_column=cursor.cursor_column, lookback=duration_of(cursor.lookback)),
        partitioning=_partitioning(source.options.partitioning),
        special_values=tuple(
            SpecialValueRule(column=column, value=rule.value, becomes=rule.becomes)
            for rule in source.options.special_values or ()
            for column in rule.columns
        ),
        visible_rows=source.options.rows == "visible",
    )


def _reading(options: SourceOptionsSection) -> FileReading:
    csv = options.csv or CsvSection()
    return FileReading(
        columns=tuple(
            Column(name=column.name, type=typed, nullable=column.nullable)
            for column in options.columns or ()
            if (typed := declared_type(column.type)) is not None
        ),
        not_null=options.not_null or (),
        widen=options.schema_evolution == "widen",
        csv=CsvDialect(delimiter=csv.delimiter, header=csv.header, null=csv.null_token),
        missing=(options.ndjson or NdjsonSection()).missing,
    )


def _partitioning(section: PartitioningSection | None) -> PartitioningConfig | None:
    if section is None:
        return None
    bounds = section.bounds
    return PartitioningConfig(
        column=section.column,
        num_partitions=section.num_partitions,
        workers=section.workers,
        lower=None if bounds is None else str(bounds.lower),
        upper=None if bounds is None else str(bounds.upper),
        checkpoints=section.checkpoints,
        mapped=section.airflow == "mapped",
    )


def _hook(phase: HookPhase, hook: HookSection, sql: SqlText | None) -> HookDefinition:
    return HookDefinition(
        id=hook.id,
        phase=phase,
        kind=hook.kind,
        connector=hook.connector,
        sql=sql,
        type=hook.type,
        options=hook.options,
        connection_ref=hook.connection_ref,
        autocommit=hook.autocommit,
        mutates_source=hook.mutates_source,
        retry_policy=hook.effective_retry_policy,
        depends_on=hook.depends_on,
        lineage=HookLineage(inputs=hook.lineage.inputs, outputs=hook.lineage.outputs),
        airflow=hook.execution.airflow,
    )


def _sink(sink: SinkSection) -> SinkConfig:
    governance = sink.options.load_governance
    lineage = sink.options.lineage
    return SinkConfig(
        type=sink.type,
        table=_table(sink.table),
        strategy=StrategyConfig(
            mode=sink.strategy.mode,
            unique_key=sink.strategy.unique_key or (),
            allow_empty=sink.strategy.allow_empty,
        ),
        connection_ref=sink.connection_ref,
        staging_schema=sink.staging.schema_name if sink.staging is not None else None,
        lineage=LineageConfig()
        if lineage is None
        else LineageConfig(
            enabled=lineage.enabled,
            preset=lineage.preset,
            row_identity=lineage.row_identity.mode,
            unsupported_policy=lineage.row_identity.unsupported_policy,
        ),
        governance=GovernanceConfig(
            audit=governance.audits,
            state_schema=governance.audit.state_schema,
            finalization_phase=governance.finalization_phase,
            persist_decisions=governance.decision_audit.persist,
            window_values=governance.window_values,
        ),
        physical_design=_physical_design(sink),
        schema_evolution=sink.options.schema_evolution,
        target_defaults=sink.options.target_defaults or (),
    )


def _physical_design(sink: SinkSection) -> PhysicalDesign:
    design = sink.options.physical_design
    if sink.type in FILE_SINKS:
        files = sink.options.files
        return PhysicalDesign(file_format=files.format if files is not None else DEFAULT_FILE_FORMAT)
    if design is None:
        return PhysicalDesign()
    partition = design.partition_by
    storage = design.storage.clickhouse
    return PhysicalDesign(
        order_by=design.order_by or (),
        partition_by=None
        if partition is None
        else PartitionBy(column=partition.column, granularity=partition.granularity),
        cluster=storage.cluster if storage is not None else None,
    )
