"""`check` and `plan` of a manifest: what can be said without a connection, on a light import path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpone_core.authoring.validate import Finding
from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest.check import CheckReport, invalid_report, report_of
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.planning.presentation import plan_json
from dpone_core.planning.route import RouteRefusedError
from dpone_core.use_cases.planned import plan_process


def check(path: Path, root: Path | None) -> CheckReport:
    """Every finding about one manifest; includes what planning would refuse: a route, a side, a finaliser."""
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


def _finding(error: ETLConfigurationError) -> Finding:
    if isinstance(error, RouteRefusedError):
        return Finding(code=error.code, message=error.reason, path=error.path, fix=error.fix)
    return Finding(code=error.code, message=error.message, fix=error.fix)


def plan(path: Path, selector: str | None, root: Path | None) -> list[dict[str, object]]:
    """One plan per process in authored order. Raises ETLConfigurationError."""
    manifest = load_manifest(path, project_root=root)
    planned = [plan_process(config) for config in manifest.select(selector)]
    return [plan_json(process.plan, process.snapshot) for process in planned]
