"""Turns a document into its processes: recognises the kind, checks shared fragments, merges layers and validates each
process.

Pure: no SQL file is read here. Every problem is reported at the line that authored the value, in whichever layer that
is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dpone_core.authoring.kinds import BatchDocument, FlowProcess, FlowProcesses, ManifestKind, TableItem
from dpone_core.authoring.process import ProcessSection
from dpone_core.authoring.quality import QualitySection
from dpone_core.authoring.rules import connection_refs, process_findings
from dpone_core.authoring.section import Section
from dpone_core.authoring.validate import (
    CONFLICT,
    MAX_PROBLEMS,
    MISSING_FIELD,
    UNKNOWN_FIELD,
    UNKNOWN_VALUE,
    WRONG_TYPE,
    Finding,
    Path,
    closest,
    findings_of,
    more_problems,
    null_findings,
    path_text,
)
from dpone_core.declared.registry import descriptor_of
from dpone_core.manifest.document import Document
from dpone_core.manifest.merge import Layer, Merged, merge
from dpone_core.model.connector import ConnectorType
from dpone_core.model.problem import ManifestInvalidError, Position, Problem
from dpone_core.model.vocabulary import StrategyMode

_KEYS_WITH_NULLS = frozenset({"quality", "becomes"})
"""Keys below which a null may be valid; their models decide."""
_PLACED_AT_NAME = frozenset({UNKNOWN_FIELD, CONFLICT})
_FRAGMENT_QUALITY_CODES = frozenset({UNKNOWN_FIELD, WRONG_TYPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredProcess:
    """One valid process: its model, its merged mapping, and the document that gives positions. Of a process with a data
    contract `places` are the positions of its gates in that file, and `not_judged` is what it says besides.
    """

    section: ProcessSection
    merged: Merged
    document: Document
    places: Mapping[Path, Position] = field(default_factory=dict)
    not_judged: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the process."""
        return self.section.name

    def problem(self, finding: Finding) -> Problem:
        """The finding as a problem at the line that authored the value."""
        found = problem_at(self.document, finding, self.merged.authored_path(finding.path))
        elsewhere = (self.places.get(finding.path[:length]) for length in range(len(finding.path), 0, -1))
        place = next((position for position in elsewhere if position is not None), None)
        return found if place is None else replace(found, path=path_text(finding.path), position=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredManifest:
    """A valid manifest. `connections` holds URIs of embedded engines without credentials, by name."""

    kind: ManifestKind
    processes: tuple[AuthoredProcess, ...]
    connections: Mapping[str, str]


def problem_at(document: Document, finding: Finding, path: Path) -> Problem:
    """The finding as a problem; an unknown or conflicting field is placed at its name, anything else at its value."""
    position = document.position_of(path, of_value=finding.code not in _PLACED_AT_NAME)
    return Problem(
        code=finding.code,
        message=finding.message,
        path=path_text(path),
        position=position,
        fix=finding.fix,
        unlisted=finding.unlisted,
    )


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sorts problems by position and keeps one per code and place: a wrong line in `defaults` is reported once,
    however many tables inherit it. The first MAX_PROBLEMS are kept; the last one then counts the others.
    """

    def place(problem: Problem) -> tuple[int, int]:
        return (problem.position.line, problem.position.column) if problem.position else (0, 0)

    first: dict[tuple[object, ...], Problem] = {}
    hidden = 0
    for problem in problems:
        if problem.unlisted:
            hidden = max(hidden, problem.unlisted)
        else:
            first.setdefault((problem.code, problem.path, problem.position), problem)
    listed = sorted(first.values(), key=place)
    hidden += max(len(listed) - MAX_PROBLEMS, 0)
    if not hidden:
        return tuple(listed)
    rest = more_problems(hidden)
    counted = Problem(code=rest.code, message=rest.message, fix=rest.fix, unlisted=hidden)
    return (*listed[:MAX_PROBLEMS], counted)


def validate_document(document: Document) -> AuthoredManifest:
    """Validates a document. Raises ManifestInvalidError with every problem of schema, models and rules."""
    root = {key: item for key, item in document.value.items() if not key.startswith("x-")}
    kind = _kind(document, root)
    shell = _shell(kind, root)
    findings = shell if isinstance(shell, tuple) else _fragment_findings(root)
    nulls = null_findings(root, skip=_KEYS_WITH_NULLS)
    problems = [problem_at(document, found, found.path) for found in (*nulls, *findings)]
    if isinstance(shell, tuple):
        raise ManifestInvalidError(sort_problems(problems))
    merged = tuple(_merged_processes(shell, root))
    processes, more = _validate_processes(document, shell is None, merged)
    problems += more
    connections = _connection_uris(root)
    if not problems:
        problems += _document_findings(document, processes, connections)
    if problems:
        raise ManifestInvalidError(sort_problems(problems))
    return AuthoredManifest(kind=kind, processes=processes, connections=connections)


def _kind(document: Document, root: Mapping[str, object]) -> ManifestKind:
    given = root.get("kind")
    kinds = [kind.value for kind in ManifestKind]
    if isinstance(given, str) and given in kinds:
        return ManifestKind(given)
    code = MISSING_FIELD if "kind" not in root else UNKNOWN_VALUE if isinstance(given, str) else WRONG_TYPE
    guess = closest(given, kinds) if isinstance(given, str) else None
    finding = Finding(
        code=code,
        message=f"the manifest must say its kind: {' or '.join(kinds)}",
        path=("kind",),
        fix=f"did you mean '{guess}'?" if guess else "add 'kind: dpone.flow.v1'",
    )
    raise ManifestInvalidError((problem_at(document, finding, ("kind",)),))


def _shell(
    kind: ManifestKind, root: Mapping[str, object]
) -> BatchDocument | FlowProcesses | tuple[Finding, ...] | None:
    """The part of the document around the processes, or its findings; None when the root itself is the process."""
    if kind is ManifestKind.BATCH:
        return findings_of(BatchDocument, root)
    return findings_of(FlowProcesses, root) if "processes" in root else None


def _fragments(root: Mapping[str, object]) -> Iterator[tuple[Path, object, type[Section]]]:
    if "quality" in root:
        yield ("quality",), root["quality"], QualitySection
    if "defaults" in root:
        yield ("defaults",), root["defaults"], ProcessSection
    schemas = root.get("schemas")
    for schema, item in schemas.items() if isinstance(schemas, Mapping) else ():
        yield ("schemas", schema, "defaults"), item.get("defaults", {}), ProcessSection
        for index, entry in enumerate(item["tables"]):
            if isinstance(entry, Mapping):
                yield ("schemas", schema, "tables", index, "overrides"), entry.get("overrides", {}), ProcessSection


def _fragment_findings(root: Mapping[str, object]) -> tuple[Finding, ...]:
    """Findings in single fields of fragments. Missing fields and rules between fields are checked after merging."""
    findings: list[Finding] = []
    for origin, value, model in _fragments(root):
        result = findings_of(model, value)
        for found in result if isinstance(result, tuple) else ():
            quality = model is QualitySection or found.path[:1] == ("quality",)
            judged = found.code in _FRAGMENT_QUALITY_CODES if quality else found.code != MISSING_FIELD
            if judged:
                findings.append(
                    Finding(code=found.code, message=found.message, path=(*origin, *found.path), fix=found.fix)
                )
        if model is ProcessSection and isinstance(value, Mapping):
            findings += _table_name_findings(origin, value)
    return tuple(findings)


def _table_name_findings(origin: Path, value: Mapping[str, object]) -> Iterator[Finding]:
    """Findings for fields that only an entry of `tables` may decide."""
    source = value.get("source")
    if isinstance(source, Mapping) and "table" in source:
        yield Finding(
            code=CONFLICT,
            message="the source table of a batch process comes from its entry in 'tables'",
            path=(*origin, "source", "table"),
            fix="remove it",
        )
    if "name" in value:
        yield Finding(
            code=CONFLICT,
            message="a batch process takes its name from its entry in 'tables'",
            path=(*origin, "name"),
            fix="write 'name' beside 'table'",
        )


def _merged_processes(shell: BatchDocument | FlowProcesses | None, root: Mapping[str, object]) -> Iterator[Merged]:
    shared = Layer(origin=(), value={"quality": root["quality"]} if "quality" in root else {})
    if isinstance(shell, BatchDocument):
        authored = root["schemas"]
        order = tuple(authored) if isinstance(authored, Mapping) else ()
        yield from _batch_processes(shell, order, shared)
    elif shell is not None:
        for index, item in enumerate(shell.processes):
            yield merge(shared, Layer(origin=("processes", index), value=item))
    else:
        yield merge(Layer(origin=(), value=root))


def _batch_processes(batch: BatchDocument, order: tuple[str, ...], shared: Layer) -> Iterator[Merged]:
    """Merged processes in the `order` of the document; validation passes through canonical JSON, which sorts keys."""
    for schema in order:
        item = batch.schemas[schema]
        below: Path = ("schemas", schema)
        for index, entry in enumerate(item.tables):
            origin: Path = (*below, "tables", index)
            given = entry if isinstance(entry, TableItem) else TableItem(table=entry)
            fragments = (
                shared,
                Layer(origin=("defaults",), value=batch.defaults),
                Layer(origin=(*below, "defaults"), value=item.defaults),
                Layer(origin=(*origin, "overrides"), value=given.overrides),
            )
            sink_table = Layer(origin=origin, value={"sink": {"table": {"name": given.table}}})
            yield merge(sink_table, *fragments, _table_layer(origin, schema, given))


def _table_layer(origin: Path, schema: str, item: TableItem) -> Layer:
    name = item.name or f"{schema}_{item.table}".lower()
    return Layer(origin=origin, value={"name": name, "source": {"table": {"schema": schema, "name": item.table}}})


def _validate_processes(
    document: Document, at_root: bool, merged: tuple[Merged, ...]
) -> tuple[tuple[AuthoredProcess, ...], list[Problem]]:
    model = FlowProcess if at_root else ProcessSection
    processes: list[AuthoredProcess] = []
    problems: list[Problem] = []
    for item in merged:
        section = findings_of(model, item.value)
        if isinstance(section, tuple):
            problems += [problem_at(document, found, item.authored_path(found.path)) for found in section]
            continue
        process = AuthoredProcess(section=section, merged=item, document=document)
        problems += [process.problem(found) for found in process_findings(section)]
        processes.append(process)
    return tuple(processes), problems


def _connection_uris(root: Mapping[str, object]) -> dict[str, str]:
    authored = root.get("connections")
    if not isinstance(authored, Mapping):
        return {}
    return {
        str(ref): uri
        for ref, item in authored.items()
        if isinstance(item, Mapping) and isinstance(uri := item.get("uri"), str)
    }


def _document_findings(
    document: Document, processes: tuple[AuthoredProcess, ...], connections: Mapping[str, str]
) -> Iterator[Problem]:
    names: set[str] = set()
    used: set[str] = set()
    for process in processes:
        if process.name in names:
            finding = Finding(
                code=CONFLICT,
                message="another process of this manifest has this name",
                path=("name",),
                fix="give each process its own name",
            )
            yield process.problem(finding)
        names.add(process.name)
        used |= set(connection_refs(process.section))
    yield from _replaced_targets(processes)
    for ref in connections:
        if ref not in used:
            finding = Finding(
                code=CONFLICT,
                message="no process uses this connection",
                path=("connections", ref),
                fix="remove it, or name it in a connection_ref",
            )
            yield problem_at(document, finding, finding.path)


def _replaced_targets(processes: tuple[AuthoredProcess, ...]) -> Iterator[Problem]:
    """A full refresh of a table that another process writes too: the later of them would remove the other's rows."""
    writers: dict[tuple[object, ...], list[AuthoredProcess]] = {}
    for process in processes:
        sink = process.section.sink
        traits = descriptor_of(ConnectorType(sink.type)).sink
        schema = sink.table.schema_name or (traits.default_schema if traits is not None else None)
        writers.setdefault((sink.connection_ref, schema, sink.table.name), []).append(process)
    for same in writers.values():
        replacing = [item for item in same if item.section.sink.strategy.mode is StrategyMode.FULL_REFRESH]
        if len(same) > 1 and replacing:
            other = next(item for item in same if item is not replacing[-1])
            yield replacing[-1].problem(
                Finding(
                    code=CONFLICT,
                    message=f"full_refresh replaces the rows that process '{other.name}' loads into this table",
                    path=("sink", "strategy", "mode"),
                    fix="give each process a table of its own, or another strategy",
                )
            )
