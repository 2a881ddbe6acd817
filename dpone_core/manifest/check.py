"""`check`: reports everything that can be found in a manifest without network, secrets or queries.

Not a second validator: it calls `load_manifest`, as plan and run do, and reports the problems instead of raising them.
Contract: MAN-09, MAN-22.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpone_core.manifest.availability import NOT_AVAILABLE_YET
from dpone_core.manifest.project_files import Dependency
from dpone_core.manifest.resolve import Manifest, display_name, load_manifest
from dpone_core.model.problem import ManifestInvalidError, Problem

ERROR_SCHEMA = "dpone.error.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Result of checking one manifest. `kind` and the fingerprints are None when the manifest is invalid;
    `processes` lists names in authored order.
    """

    manifest: str
    errors: tuple[Problem, ...] = ()
    kind: str | None = None
    processes: tuple[str, ...] = ()
    source_fingerprint: str | None = None
    semantic_fingerprint: str | None = None
    source_files: tuple[Dependency, ...] = ()
    deprecated: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def as_json(self) -> dict[str, object]:
        """The report in its published shape."""
        return {
            "manifest": self.manifest,
            "passed": self.passed,
            "changes": [],
            "errors": [error_object(problem) for problem in self.errors],
            "mode": "static",
            "network": False,
            "secrets": False,
            "source_queries": False,
            "source_kind": self.kind,
            "canonical_kind": self.kind,
            "processes": list(self.processes),
            "source_fingerprint": self.source_fingerprint,
            "semantic_fingerprint": self.semantic_fingerprint,
            "deprecated_aliases": list(self.deprecated),
            "source_files": [
                {"kind": file.kind.value, "path": file.path, "fingerprint": file.sha256} for file in self.source_files
            ],
        }


def check_manifest(path: Path | str, *, project_root: Path | None = None) -> CheckReport:
    """Checks one manifest; reads it and the SQL files it names, nothing else. Never raises, whatever the manifest
    holds.
    """
    try:
        manifest = load_manifest(path, project_root=project_root)
    except ManifestInvalidError as error:
        return invalid_report(path, error.problems)
    return report_of(manifest)


def invalid_report(path: Path | str, problems: tuple[Problem, ...]) -> CheckReport:
    """The report of a manifest that could not be loaded."""
    return CheckReport(manifest=display_name(Path(path)), errors=problems)


def report_of(manifest: Manifest) -> CheckReport:
    """The report of a loaded manifest; later stages may add errors to it."""
    return CheckReport(
        manifest=manifest.name,
        kind=manifest.kind.value,
        processes=tuple(process.process for process in manifest.processes),
        source_fingerprint=manifest.source_fingerprint,
        semantic_fingerprint=manifest.semantic_fingerprint,
        source_files=manifest.dependencies,
        deprecated=tuple(
            f"{process.process}: quality.checks" for process in manifest.processes if "checks" in process.quality
        ),
    )


def error_object(problem: Problem) -> dict[str, object]:
    """One problem in the published shape dpone.error.v1; `related` lists further positions of the same problem."""
    place = problem.position
    return {
        "schema": ERROR_SCHEMA,
        "code": problem.code,
        "stage": _stage(problem.code),
        "severity": "error",
        "message": problem.message,
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
        "path": problem.path,
        "entity": {"kind": "field", "id": problem.path} if problem.path else None,
        "fixes": [{"id": "edit", "safety": "manual", "command": None, "description": problem.fix}]
        if problem.fix
        else [],
        "related": [{"file": other.file, "line": other.line, "column": other.column} for other in problem.related],
        "docs_url": None,
        "trace_id": None,
    }


def _stage(code: str) -> str:
    if code.startswith("DPONE_YAML_"):
        return "document"
    if code == NOT_AVAILABLE_YET:
        return "availability"
    return "sql" if code.startswith(("DPONE_SQL_", "DPONE_HOOK_", "DPONE_QUERY_")) else "manifest"
