"""The SQL guard and the hook graph applied to one authored process, as findings with paths.

A source query and the statement of a gate must be read-only. A hook whose SQL is not provably read-only must say
`mutates_source: true`; known maintenance statements need no flag on a maintenance kind (HOOK-04, HOOK-05).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpone_core.authoring.hooks import HookSection
from dpone_core.authoring.process import ProcessSection
from dpone_core.authoring.rules import hook_path, hook_sections, statement_gates
from dpone_core.authoring.validate import Finding, Path
from dpone_core.declared.registry import FILE_SINKS
from dpone_core.manifest.build import QUERY_PATH
from dpone_core.model.connector import ConnectorType
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import HookConnector, HookPhase
from dpone_core.planning.hooks import HOOK_CYCLE, first_cycle

QUERY_NOT_READ_ONLY = "DPONE_QUERY_NOT_READ_ONLY"
GATE_NOT_READ_ONLY = "DPONE_GATE_NOT_READ_ONLY"


def sql_findings(process: ProcessSection, sql: Mapping[Path, SqlText]) -> Iterator[Finding]:
    """Findings of the SQL guard. `sql` holds the texts by the path of their section."""
    if not sql:
        return
    query = sql.get(QUERY_PATH)
    if query is not None:
        yield from _query_findings(query, process.source.type)
    for phase, index, hook in hook_sections(process.source.options.hooks):
        where = hook_path(phase, index)
        if where in sql:
            side = process.source.type if hook.connector is HookConnector.SOURCE else process.sink.type
            yield from _hook_findings(hook, sql[where], side, where)
    for where, _ in statement_gates(process):
        if where in sql and process.sink.type not in FILE_SINKS:
            yield from _gate_findings(sql[where], process.sink.type, where)


def _gate_findings(text: SqlText, side: ConnectorType, where: Path) -> Iterator[Finding]:
    from dpone_core.sql_guard.verdict import SqlEffect, classify

    path = (*where, "sql" if text.file is None else "sql_file")
    verdict = classify(text.text, side)
    if verdict.refusal is not None:
        yield Finding(code=verdict.refusal.code, message=verdict.refusal.message, path=path, fix=verdict.refusal.fix)
    elif verdict.effect is not SqlEffect.READ_ONLY:
        yield Finding(
            code=GATE_NOT_READ_ONLY,
            message=f"the statement of a gate must be one read-only SELECT, which cannot be proven: {verdict.reason}",
            path=path,
            fix="write one SELECT over {{ staged }} and what it is compared with",
        )


def _query_findings(query: SqlText, side: ConnectorType) -> Iterator[Finding]:
    from dpone_core.sql_guard.verdict import SqlEffect, classify

    where = (*QUERY_PATH, "sql_file" if query.file is not None else "sql")
    verdict = classify(query.text, side)
    if verdict.refusal is not None:
        yield Finding(code=verdict.refusal.code, message=verdict.refusal.message, path=where, fix=verdict.refusal.fix)
    elif verdict.effect is not SqlEffect.READ_ONLY:
        yield Finding(
            code=QUERY_NOT_READ_ONLY,
            message=f"the source query must be one read-only SELECT, which cannot be proven: {verdict.reason}",
            path=where,
            fix="move other statements into a hook, and calls of your own functions into a view",
        )


def _hook_findings(hook: HookSection, text: SqlText, side: ConnectorType, where: Path) -> Iterator[Finding]:
    from dpone_core.sql_guard.verdict import hook_refusal

    refusal = hook_refusal(text.text, side, hook.kind, mutates_source=hook.mutates_source)
    if refusal is not None:
        path = (*where, "sql_file" if text.file is not None else "sql")
        yield Finding(code=refusal.code, message=refusal.message, path=path, fix=refusal.fix)


def graph_findings(process: ProcessSection) -> Iterator[Finding]:
    """One finding for each phase whose hooks depend on each other in a cycle."""
    for phase in HookPhase:
        hooks = [(index, hook) for of, index, hook in hook_sections(process.source.options.hooks) if of is phase]
        cycle = first_cycle({hook.id: hook.depends_on for _, hook in hooks})
        if cycle:
            index = next(index for index, hook in hooks if hook.id == cycle[0])
            yield Finding(
                code=HOOK_CYCLE,
                message=f"hooks depend on each other: {' -> '.join(cycle)}",
                path=(*hook_path(phase, index), "depends_on"),
                fix="remove one of these dependencies",
            )
