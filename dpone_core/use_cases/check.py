"""`check`: every finding about a manifest that can be made without a connection. Imports no driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpone_core.authoring.validate import Finding
from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest.check import CheckReport, invalid_report, report_of
from dpone_core.manifest.discovery import find_manifests
from dpone_core.manifest.resolve import display_name, load_manifest
from dpone_core.model.problem import ManifestInvalidError, Position, Problem
from dpone_core.planning.route import RouteRefusedError
from dpone_core.use_cases.plan import plan_process, route_finding

__all__ = ["CheckReport", "check", "manifests_at"]


def check(path: Path, root: Path | None) -> CheckReport:
    """Returns all findings about one manifest, with positions; never raises for what a manifest may hold.

    Includes what planning refuses: a route, an acceptance side or a finaliser that the connectors do not declare.
    `root` bounds every file that is read; None = found from the manifest.
    """
    if path.is_dir():
        return invalid_report(path, (_no_manifest(display_name(path)),))
    try:
        manifest = load_manifest(path, project_root=root)
    except ManifestInvalidError as error:
        return invalid_report(path, error.problems)
    problems = []
    for config in manifest.processes:
        try:
            plan_process(config)
        except ETLConfigurationError as error:
            problems.append(manifest.problem_of(config.process, _finding(error)))
    return replace(report_of(manifest), errors=tuple(problems))


def manifests_at(path: Path) -> tuple[Path, ...]:
    """The manifests below a directory; the path itself for a file, and for a directory without any (it is refused)."""
    return (path.is_dir() and find_manifests(path)) or (path,)


def _no_manifest(name: str) -> Problem:
    return Problem(
        code="DPONE_MANIFEST_NOT_FOUND",
        message="no manifest lies below this directory",
        position=Position(file=name, line=1, column=1),
        fix="name a manifest, or a directory with YAML files of kind dpone.flow.v1 or dpone.batch.v1",
    )


def _finding(error: ETLConfigurationError) -> Finding:
    if isinstance(error, RouteRefusedError):
        return route_finding(error)
    return Finding(code=error.code, message=error.message, fix=error.fix)
