"""Loads a manifest file as frozen LoadConfigs. Check, plan and run all use it, so they cannot disagree.

Order: document, models and rules, data contracts, SQL files, tokens, availability, SQL guard, hook graph, LoadConfigs.
It uses neither network nor secrets; sqlglot is imported only when the manifest holds SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final

from dpone_core.authoring.kinds import ManifestKind
from dpone_core.authoring.rules import (
    hook_path,
    hook_sections,
    keeps_cursor,
    statement_findings,
    statement_gates,
    token_findings,
)
from dpone_core.authoring.validate import VALUE_INVALID, Finding, Path, closest
from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest.availability import availability_findings
from dpone_core.manifest.build import QUERY_PATH, load_config
from dpone_core.manifest.data_contract import ContractFiles
from dpone_core.manifest.document import MAX_DOCUMENT_BYTES, read_document
from dpone_core.manifest.processes import AuthoredManifest, AuthoredProcess, sort_problems, validate_document
from dpone_core.manifest.project_files import (
    Dependency,
    DependencyKind,
    ProjectFileError,
    project_root_of,
    read_project_file,
    real_path,
)
from dpone_core.manifest.semantics import semantic_fingerprint
from dpone_core.manifest.sql_checks import graph_findings, sql_findings
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.problem import ManifestInvalidError, Position, Problem
from dpone_core.model.sql import SqlText
from dpone_core.model.visible_text import REORDERING

_REORDERING: Final = re.compile(f"[{REORDERING}]")


class SelectorUnknownError(ETLConfigurationError):
    """`--selector` does not name a process of the manifest."""

    code = "DPONE_SELECTOR_UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A loaded manifest. `name` is shown in reports; `processes` are in authored order; `dependencies` begins with the
    manifest.

    `source_fingerprint` changes with any byte of the manifest, `semantic_fingerprint` only with its meaning, SQL
    included.
    """

    name: str
    kind: ManifestKind
    processes: tuple[LoadConfig, ...]
    dependencies: tuple[Dependency, ...]
    source_fingerprint: str
    semantic_fingerprint: str
    project_root: FilePath
    directory: FilePath
    authored: tuple[AuthoredProcess, ...] = field(default=(), repr=False, compare=False)

    def problem_of(self, process: str, finding: Finding) -> Problem:
        """A finding of a later stage about one process, as a problem with its position."""
        return next(item.problem(finding) for item in self.authored if item.name == process)

    def select(self, selector: str | None = None) -> tuple[LoadConfig, ...]:
        """Every process, or the one named `selector`. Raises SelectorUnknownError listing the names."""
        if selector is None:
            return self.processes
        chosen = tuple(process for process in self.processes if process.process == selector)
        if chosen:
            return chosen
        names = [process.process for process in self.processes]
        guess = closest(selector, names)
        raise SelectorUnknownError(
            f"no process has this name; the manifest has {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}",
            fix=f"did you mean '{guess}'?" if guess else "name one of its processes",
        )


def load_manifest(path: FilePath | str, *, project_root: FilePath | None = None) -> Manifest:
    """Loads a manifest. Raises ManifestInvalidError with every problem and its position. Creates nothing, connects to
    nothing.

    No file outside `project_root` is read; by default that is the nearest parent with .git, dpone.yaml or
    pyproject.toml.
    """
    path = FilePath(path)
    name = display_name(path)
    root, directory, content, manifest_file = _manifest_file(path, project_root, name)
    contracts = ContractFiles(root=root, directory=directory)
    authored = contracts.applied(validate_document(read_document(content, file=name)))
    files = _SqlFiles(root=root, directory=directory)
    texts = [files.texts_of(process) for process in authored.processes]
    problems = files.problems + _findings(authored, texts)
    if problems:
        raise ManifestInvalidError(sort_problems(problems))
    configs = tuple(
        load_config(process, manifest=name, sql=sql, connections=authored.connections)
        for process, sql in zip(authored.processes, texts, strict=True)
    )
    return Manifest(
        name=name,
        kind=authored.kind,
        processes=configs,
        dependencies=(manifest_file, *contracts.dependencies.values(), *files.dependencies.values()),
        source_fingerprint=manifest_file.sha256,
        semantic_fingerprint=semantic_fingerprint(authored, configs),
        project_root=root,
        directory=directory,
        authored=authored.processes,
    )


def display_name(path: FilePath) -> str:
    """Name for messages: the path as given when it is relative, otherwise its last part."""
    return path.name if path.is_absolute() else path.as_posix()


def _manifest_file(
    path: FilePath, project_root: FilePath | None, name: str
) -> tuple[FilePath, FilePath, bytes, Dependency]:
    """The project root, the manifest's real directory, its bytes and their hash."""
    try:
        root = project_root if project_root is not None else project_root_of(path.parent)
        real = real_path(path)
        content, found = read_project_file(
            root, real.parent, real.name, DependencyKind.MANIFEST, limit_bytes=MAX_DOCUMENT_BYTES
        )
        return root, real.parent, content, found
    except ProjectFileError as error:
        code = error.code.replace("_SQL_FILE_", "_MANIFEST_").replace("_PROJECT_FILE_", "_MANIFEST_")
        code = "DPONE_YAML_TOO_LARGE" if code.endswith("TOO_LARGE") else code
        place = Position(file=name, line=1, column=1)
        problem = Problem(code=code, message=f"manifest: {error.message}", position=place, fix="check the path")
        raise ManifestInvalidError((problem,)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _SqlFiles:
    """Reads each SQL file once, so that all processes that name it see the same bytes."""

    root: FilePath
    directory: FilePath
    dependencies: dict[tuple[DependencyKind, str], Dependency] = field(default_factory=dict)
    contents: dict[tuple[DependencyKind, str], tuple[bytes, Dependency]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def texts_of(self, process: AuthoredProcess) -> dict[Path, SqlText]:
        """SQL of the query, of every SQL hook and of every gate with a statement, by the path of its section."""
        options = process.section.source.options
        texts: dict[Path, SqlText | None] = {}
        if options.query is not None:
            query = options.query
            texts[QUERY_PATH] = self._text(
                process, QUERY_PATH, query.sql, query.sql_file, DependencyKind.QUERY_SQL_FILE
            )
        for phase, index, hook in hook_sections(options.hooks):
            if hook.is_sql:
                where = hook_path(phase, index)
                texts[where] = self._text(process, where, hook.sql, hook.sql_file, DependencyKind.HOOK_SQL_FILE)
        for where, gate in statement_gates(process.section):
            texts[where] = self._text(process, where, gate.sql, gate.sql_file, DependencyKind.GATE_SQL_FILE)
        return {where: text for where, text in texts.items() if text is not None}

    def _text(
        self, process: AuthoredProcess, where: Path, sql: str | None, sql_file: str | None, kind: DependencyKind
    ) -> SqlText | None:
        if sql_file is None:
            return SqlText(text=sql or "")
        path = (*where, "sql_file")
        try:
            content, dependency = self._content(sql_file, kind)
            text = content.decode("utf-8-sig")
        except ProjectFileError as error:
            self.problems.append(
                process.problem(Finding(code=error.code, message=error.message, path=path, fix=error.fix))
            )
            return None
        except UnicodeDecodeError:
            finding = Finding(code=VALUE_INVALID, message="the file is not UTF-8", path=path, fix="save it as UTF-8")
            self.problems.append(process.problem(finding))
            return None
        self.dependencies[kind, dependency.path] = dependency
        if not text.strip() or "\x00" in text:
            finding = Finding(code=VALUE_INVALID, message="the file holds no SQL text", path=path, fix="fill the file")
            self.problems.append(process.problem(finding))
            return None
        reordering = _REORDERING.search(text)
        if reordering is not None:
            line = text.count("\n", 0, reordering.start()) + 1
            finding = Finding(
                code=VALUE_INVALID,
                message=f"line {line} holds U+{ord(reordering.group()):04X}, which hides the order of the text",
                path=path,
                fix="remove the character",
            )
            self.problems.append(process.problem(finding))
            return None
        return SqlText(text=text, file=sql_file)

    def _content(self, name: str, kind: DependencyKind) -> tuple[bytes, Dependency]:
        if (kind, name) not in self.contents:
            self.contents[kind, name] = read_project_file(self.root, self.directory, name, kind)
        return self.contents[kind, name]


def _findings(authored: AuthoredManifest, texts: list[dict[Path, SqlText]]) -> list[Problem]:
    problems: list[Problem] = []
    for process, sql in zip(authored.processes, texts, strict=True):
        section = process.section
        findings = [*availability_findings(section)]
        gates = {where for where, _ in statement_gates(section)}
        for where, text in sql.items():
            if text.file is not None and where in gates:
                findings += statement_findings(text, (*where, "sql_file"))
            elif text.file is not None:
                cursor = where == QUERY_PATH and keeps_cursor(section)
                findings += token_findings(text, (*where, "sql_file"), with_cursor=cursor)
        findings += sql_findings(section, sql)
        findings += graph_findings(section)
        problems += [process.problem(found) for found in findings]
    return problems
