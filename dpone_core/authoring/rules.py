"""Rules between the fields of one process: which fields exclude, need or have no effect without each other.

They run on a process whose fields are valid. Not here: cycles and SQL (`planning`), what dpone cannot do yet
(`manifest.availability`), columns and sides (`acceptance`). Contract: MAN-12, MAN-13, MAN-15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpone_core.authoring.file_columns import FILE_FIELDS, file_findings
from dpone_core.authoring.hooks import NOTIFIERS, PROVIDER_ONLY, SQL_ONLY, HookSection, HooksSection
from dpone_core.authoring.process import ProcessSection
from dpone_core.authoring.quality import CustomSqlGate, TypedHashGate
from dpone_core.authoring.sink import SinkSection
from dpone_core.authoring.special_values import special_value_findings
from dpone_core.authoring.validate import (
    CONFLICT,
    MISSING_FIELD,
    UNKNOWN_VALUE,
    VALUE_INVALID,
    Finding,
    Path,
    PathPart,
    closest,
)
from dpone_core.declared.registry import (
    DEFAULTING_SINKS,
    DESIGNED_SINKS,
    FILE_SINKS,
    FILE_SOURCES,
    KEYED_SINKS,
    LEGACY_SINKS,
    ROW_SECURED_SOURCES,
    descriptor_of,
)
from dpone_core.model.hook import HookOption, HookScalar, HookTraits
from dpone_core.model.load_config import RowIdentityMode
from dpone_core.model.sql import GATE_TOKENS, INTERVAL_TOKENS, STAGED_TOKEN, SqlText
from dpone_core.model.vocabulary import (
    FinalizationPhase,
    HashMode,
    HookConnector,
    HookKind,
    HookPhase,
    LineagePreset,
    StateType,
    StrategyMode,
)

UNKNOWN_TOKEN = "DPONE_SQL_TOKEN_UNKNOWN"
TOKENS_WITH_CURSOR = "DPONE_SQL_TOKENS_WITH_CURSOR"
HOOK_OPTION_INVALID = "DPONE_HOOK_OPTION_INVALID"
_OPTIONS: Path = ("source", "options")
_QUERY: Path = (*_OPTIONS, "query")


def process_findings(process: ProcessSection) -> tuple[Finding, ...]:
    """Every broken rule of the process, in document order of its sections."""
    return (
        *_source_findings(process),
        *special_value_findings(process.source.options),
        *_hook_findings(process),
        *_strategy_findings(process),
        *_sink_findings(process),
        *_gate_findings(process),
    )


def token_findings(
    sql: SqlText, path: Path, *, with_cursor: bool, allowed: frozenset[str] = INTERVAL_TOKENS
) -> Iterator[Finding]:
    """Unknown tokens in a SQL text, and tokens beside a cursor. `with_cursor` is True for the source query of a
    process with a cursor.
    """
    tokens = sql.tokens
    for token in dict.fromkeys(tokens):
        if token not in allowed:
            guess = closest(token, sorted(allowed))
            known = ", ".join(sorted(allowed))
            yield Finding(
                code=UNKNOWN_TOKEN,
                message=f"the SQL holds an unknown token; known are {known}",
                path=path,
                fix=f"did you mean '{{{{ {guess} }}}}'?" if guess else "write the value as a literal",
            )
    if tokens and with_cursor:
        yield Finding(
            code=TOKENS_WITH_CURSOR,
            message="interval tokens and a cursor would both decide which rows are read",
            path=path,
            fix="remove the tokens, or source.options.incremental",
        )


def statement_findings(sql: SqlText, path: Path) -> Iterator[Finding]:
    """Unknown tokens in the statement of a gate, and a statement that does not look at the rows of the load."""
    yield from token_findings(sql, path, with_cursor=False, allowed=GATE_TOKENS)
    if STAGED_TOKEN not in sql.tokens:
        yield Finding(
            code=VALUE_INVALID,
            message="the statement does not read the rows of this load",
            path=path,
            fix="select FROM {{ staged }}",
        )


def statement_gates(process: ProcessSection) -> Iterator[tuple[Path, CustomSqlGate]]:
    """Path and section of every gate that has a statement, in authored order."""
    for index, gate in enumerate(process.quality.gates):
        if isinstance(gate, CustomSqlGate):
            yield ("quality", "gates", index), gate


def _gate_findings(process: ProcessSection) -> Iterator[Finding]:
    for path, gate in statement_gates(process):
        if gate.sql is not None:
            yield from statement_findings(SqlText(text=gate.sql), (*path, "sql"))


def keeps_cursor(process: ProcessSection) -> bool:
    """Whether a saved cursor decides which rows a run reads."""
    return process.source.options.incremental is not None


def hook_sections(hooks: HooksSection) -> Iterator[tuple[HookPhase, int, HookSection]]:
    """Phase, index in its phase and section of every hook, in authored order."""
    for phase, items in ((HookPhase.PRE, hooks.pre_hook), (HookPhase.POST, hooks.post_hook)):
        for index, hook in enumerate(items):
            yield phase, index, hook


def hook_path(phase: HookPhase, index: int) -> Path:
    """Path of a hook in its process."""
    return (*_OPTIONS, "hooks", phase.value, index)


def connection_refs(process: ProcessSection) -> Iterator[str]:
    """Every connection the process names: source, sink, hooks."""
    hooks = (hook.connection_ref for _, _, hook in hook_sections(process.source.options.hooks))
    yield from (ref for ref in (process.source.connection_ref, process.sink.connection_ref, *hooks) if ref is not None)


def _conflict(message: str, fix: str, *path: PathPart) -> Finding:
    return Finding(code=CONFLICT, message=message, path=path, fix=fix)


def _missing(name: str, why: str, *parent: PathPart) -> Finding:
    return Finding(
        code=MISSING_FIELD,
        message=f"required field '{name}' is missing: {why}",
        path=(*parent, name),
        fix=f"add '{name}'",
    )


def _source_findings(process: ProcessSection) -> Iterator[Finding]:
    source = process.source
    options = source.options
    if options.rows != "all" and source.type not in ROW_SECURED_SOURCES:
        yield _conflict(
            f"source type {source.type} does not know which rows are hidden", "remove it", *_OPTIONS, "rows"
        )
    if source.type in FILE_SOURCES:
        for name, given in (("path", options.path), ("format", options.format)):
            if given is None:
                yield _missing(name, f"source type {source.type} reads a path in a format", *_OPTIONS)
        if source.table is not None:
            yield _conflict(f"source type {source.type} has no table", "use options.path", "source", "table")
        if options.query is not None:
            yield _conflict(f"source type {source.type} has no query", "use options.path", *_QUERY)
        if options.path is not None and ("{{" in options.path or "}}" in options.path):
            yield Finding(
                code=VALUE_INVALID, message="tokens are bound in SQL only", path=(*_OPTIONS, "path"), fix="use a glob"
            )
        yield from file_findings(
            options.format,
            options.columns,
            options.not_null,
            options.csv,
            options.ndjson,
            options.schema_evolution,
            _OPTIONS,
        )
        return
    if source.connection_ref is None:
        yield _missing("connection_ref", "the source type needs a connection", "source")
    if source.table is None and options.query is None:
        yield _missing("table", "the source reads a table or options.query", "source")
    if source.table is not None and options.query is not None:
        yield _conflict("'table' and 'options.query' exclude each other", "keep one of the two", *_QUERY)
    belongs = f"it belongs to source type {', '.join(FILE_SOURCES)}"
    for name in FILE_FIELDS:
        if getattr(options, name) is not None:
            yield _conflict(f"'{name}' has no effect here", belongs, *_OPTIONS, name)
    if options.query is not None:
        yield from _sql_findings(options.query.sql, options.query.sql_file, _QUERY)
        if options.query.sql is not None:
            text = SqlText(text=options.query.sql)
            yield from token_findings(text, (*_QUERY, "sql"), with_cursor=keeps_cursor(process))


def _sql_findings(sql: str | None, sql_file: str | None, path: Path) -> Iterator[Finding]:
    if sql is not None and sql_file is not None:
        yield _conflict("'sql' and 'sql_file' exclude each other", "keep one of the two", *path, "sql_file")
    if sql is None and sql_file is None:
        yield _missing("sql", "give 'sql' or 'sql_file'", *path)


def _hook_findings(process: ProcessSection) -> Iterator[Finding]:
    hooks = process.source.options.hooks
    ids: dict[HookPhase, list[str]] = {HookPhase.PRE: [], HookPhase.POST: []}
    for phase, index, hook in hook_sections(hooks):
        path = hook_path(phase, index)
        if hook.id in ids[phase]:
            yield _conflict("this id is used by an earlier hook of the phase", "give each hook its own id", *path, "id")
        ids[phase].append(hook.id)
        yield from _hook_action_findings(process, hook, path)
    for phase, index, hook in hook_sections(hooks):
        for number, needed in enumerate(hook.depends_on):
            if needed not in ids[phase]:
                guess = closest(needed, ids[phase])
                yield Finding(
                    code=UNKNOWN_VALUE,
                    message="no hook of this phase has this id",
                    path=(*hook_path(phase, index), "depends_on", number),
                    fix=f"did you mean '{guess}'?" if guess else "name a hook of the same phase",
                )


def _hook_action_findings(process: ProcessSection, hook: HookSection, path: Path) -> Iterator[Finding]:
    if not hook.is_sql:
        yield from _provider_findings(hook, path)
        return
    yield from _sql_findings(hook.sql, hook.sql_file, path)
    for name in PROVIDER_ONLY:
        if name in hook.model_fields_set:
            yield _conflict(f"'{name}' has no effect on type sql", "remove it, or choose another type", *path, name)
    if hook.sql is not None:
        yield from token_findings(SqlText(text=hook.sql), (*path, "sql"), with_cursor=False)
    if hook.kind is HookKind.DATA_QUALITY_PROBE and hook.mutates_source:
        yield _conflict("a probe reads only", "remove it, or choose another kind", *path, "mutates_source")
    side = process.source.type if hook.connector is HookConnector.SOURCE else process.sink.type
    if descriptor_of(side).sql is None:
        yield _conflict(f"{side} cannot execute SQL", "choose the other connector", *path, "connector")


def _provider_findings(hook: HookSection, path: Path) -> Iterator[Finding]:
    for name in SQL_ONLY:
        if name in hook.model_fields_set:
            yield _conflict(f"'{name}' has no effect on this hook type", "use type sql", *path, name)
    traits = next((known for known in NOTIFIERS if known.type == hook.type), None)
    kind = HookKind.CUSTOM if traits is None else HookKind.NOTIFICATION
    if hook.kind is not kind:
        yield _conflict(f"type '{hook.type}' serves kind {kind}", f"write 'kind: {kind}'", *path, "kind")
    if traits is not None:
        yield from hook_findings(hook.options, hook.connection_ref, traits, path)
        if hook.mutates_source:
            yield _conflict("a notification changes no source", "remove it", *path, "mutates_source")


def hook_findings(
    options: Mapping[str, HookScalar], connection_ref: str | None, traits: HookTraits, path: Path
) -> Iterator[Finding]:
    """Checks a hook's options and connection against what its provider declares; `path` is the hook's."""
    declared = {option.name: option for option in traits.options}
    for name, value in options.items():
        option = declared.get(name)
        if option is None:
            guess = closest(name, declared)
            known = ", ".join(sorted(declared)) or "none"
            yield Finding(
                code=HOOK_OPTION_INVALID,
                message=f"type '{traits.type}' has no such option; it has: {known}",
                path=(*path, "options", name),
                fix=f"did you mean '{guess}'?" if guess else "remove the option",
            )
        elif (expected := _option_expectation(option, value)) is not None:
            yield Finding(
                code=HOOK_OPTION_INVALID, message=expected, path=(*path, "options", name), fix="correct the value"
            )
    for option in traits.options:
        if option.required and option.name not in options:
            yield _missing(option.name, f"type '{traits.type}' needs it", *path, "options")
    if traits.needs_connection and connection_ref is None:
        yield _missing("connection_ref", f"type '{traits.type}' needs a connection", *path)
    if not traits.needs_connection and connection_ref is not None:
        yield _conflict(f"type '{traits.type}' uses no connection", "remove it", *path, "connection_ref")


def _option_expectation(option: HookOption, value: HookScalar) -> str | None:
    """What the option accepts, when `value` is something else; None when the value is accepted."""
    if not option.kind.holds(value):
        return f"expected {option.kind}"
    below = option.minimum is not None and int(value) < option.minimum
    above = option.maximum is not None and int(value) > option.maximum
    return f"expected {option.minimum} to {option.maximum}" if below or above else None


def _strategy_findings(process: ProcessSection) -> Iterator[Finding]:
    mode = process.sink.strategy.mode
    incremental = process.source.options.incremental
    if mode.is_incremental:
        if incremental is None:
            yield _missing("incremental", f"{mode} reads by a cursor", *_OPTIONS)
        if process.state_type is StateType.DISABLED:
            yield from _state_needed(process, mode)
    else:
        fix = "remove it, or choose an incremental strategy"
        if incremental is not None:
            yield _conflict(f"'incremental' has no effect under {mode}", fix, *_OPTIONS, "incremental")
        if process.state_type is not StateType.DISABLED:
            yield _conflict(f"state has no effect under {mode}", fix, "state", "type")
    if mode is StrategyMode.INCREMENTAL_MERGE and process.sink.strategy.unique_key is None:
        yield _missing("unique_key", f"{mode} needs to know which row replaces which", "sink", "strategy")
    if process.sink.strategy.allow_empty and mode is not StrategyMode.PARTITION_REPLACE:
        yield _conflict(f"'allow_empty' has no effect under {mode}", "remove it", "sink", "strategy", "allow_empty")
    if _samples_hashes(process) and process.sink.strategy.unique_key is None:
        yield _missing("unique_key", "a typed hash of mode sample selects rows by it", "sink", "strategy")
    if process.sink.strategy.unique_key is not None and not _uses_unique_key(process):
        yield _conflict(
            f"'unique_key' has no effect under {mode}",
            "remove it, or enable lineage with row_identity.mode auto",
            *("sink", "strategy", "unique_key"),
        )


def _state_needed(process: ProcessSection, mode: StrategyMode) -> Iterator[Finding]:
    if process.state is None:
        yield _missing("state", f"{mode} keeps a cursor", *())
    else:
        yield _conflict(f"{mode} keeps a cursor and state is disabled", "use type sink", "state", "type")


def _uses_unique_key(process: ProcessSection) -> bool:
    if process.sink.strategy.mode is StrategyMode.INCREMENTAL_MERGE:
        return True
    lineage = process.sink.options.lineage
    if lineage is not None and lineage.enabled and lineage.preset is not LineagePreset.OFF:
        return lineage.row_identity.mode is RowIdentityMode.AUTO
    return _samples_hashes(process)


def _samples_hashes(process: ProcessSection) -> bool:
    return any(isinstance(gate, TypedHashGate) and gate.mode is HashMode.SAMPLE for gate in process.quality.gates)


def _sink_findings(process: ProcessSection) -> Iterator[Finding]:
    sink = process.sink
    options: Path = ("sink", "options")
    yield from _design_findings(sink)
    legacy = sink.type in LEGACY_SINKS
    if sink.options.target_defaults is not None and sink.type not in DEFAULTING_SINKS:
        yield _conflict(
            f"sink type {sink.type} leaves no column to its DEFAULT",
            "give the columns in options.query",
            *(*options, "target_defaults"),
        )
    if sink.options.target_defaults is not None and sink.strategy.mode is StrategyMode.FULL_REFRESH:
        yield _conflict(
            "'target_defaults' has no effect on full_refresh, which takes the source's columns",
            "remove it",
            *(*options, "target_defaults"),
        )
    if sink.options.files is not None and sink.type not in FILE_SINKS:
        yield _conflict(f"'files' has no effect on sink type {sink.type}", "remove it", *options, "files")
    if legacy and sink.staging is not None:
        yield _conflict(f"sink type {sink.type} has no staging", "remove it", "sink", "staging")
    phase = sink.options.load_governance.finalization_phase
    actual = FinalizationPhase.LEGACY_POST_FINALIZE if legacy else FinalizationPhase.PRE_FINALIZE
    if phase is not None and phase is not actual:
        yield _conflict(
            f"sink type {sink.type} publishes by {actual}",
            f"write {actual} or remove the field",
            *(*options, "load_governance", "finalization_phase"),
        )


def _design_findings(sink: SinkSection) -> Iterator[Finding]:
    """Some sinks take a whole design; sinks without partitions of their own take the key of partition_replace."""
    design, path = sink.options.physical_design, ("sink", "options", "physical_design")
    replaces = sink.strategy.mode is StrategyMode.PARTITION_REPLACE
    if replaces and design is None:
        yield _missing("physical_design", "partition_replace needs partition_by there", "sink", "options")
    elif replaces and design is not None and design.partition_by is None:
        yield _missing("partition_by", "partition_replace needs to know what a partition is", *path)
    if design is None or sink.type in DESIGNED_SINKS:
        return
    if not replaces or sink.type not in KEYED_SINKS:
        yield _conflict(
            f"physical_design has no effect on sink type {sink.type} under {sink.strategy.mode}", "remove it", *path
        )
        return
    for name, given in (("order_by", design.order_by), ("storage", design.storage.clickhouse)):
        if given is not None:
            yield _conflict(f"'{name}' has no effect on sink type {sink.type}", "remove it", *path, name)
