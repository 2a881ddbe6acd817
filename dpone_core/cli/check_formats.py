"""Renders check reports as text, JSON, GitHub annotations or SARIF 2.1.0. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dpone_core.model.problem import Problem
from dpone_core.model.visible_text import visible
from dpone_core.use_cases.check import CheckReport


def as_text(reports: Sequence[CheckReport]) -> str:
    """`file:line:col: CODE path: message` with the fix below, then one line per manifest."""
    lines: list[str] = []
    for report in reports:
        for problem in report.errors:
            lines.append(str(problem))
            if problem.fix:
                lines.append(visible(f"    fix: {problem.fix}"))
        lines += [visible(f"{report.manifest}: note: deprecated input at {alias}") for alias in report.deprecated]
        lines.append(visible(f"{report.manifest}: {_verdict(report)}"))
    return "\n".join(lines) + "\n"


def _verdict(report: CheckReport) -> str:
    if report.passed:
        count = len(report.processes)
        return f"ok, {count} process{'es' if count != 1 else ''}"
    return f"{len(report.errors)} error{'s' if len(report.errors) != 1 else ''}"


def as_json(reports: Sequence[CheckReport]) -> str:
    """One object: the report itself, or `{passed, reports}` for any other number than one."""
    whole: dict[str, object]
    if len(reports) == 1:
        whole = reports[0].as_json()
    else:
        whole = {
            "passed": all(report.passed for report in reports),
            "reports": [report.as_json() for report in reports],
        }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def as_github(reports: Sequence[CheckReport]) -> str:
    """One workflow command per error; nothing for a manifest that passes."""
    return "".join(_annotation(problem) for report in reports for problem in report.errors)


def _annotation(problem: Problem) -> str:
    place = problem.position
    properties = f"title={_github_property(problem.code)}"
    if place is not None:
        properties = f"file={_github_property(place.file)},line={place.line},col={place.column},{properties}"
    path = f"{problem.path}: " if problem.path else ""
    fix = f" ({problem.fix})" if problem.fix else ""
    return f"::error {properties}::{_github_data(f'{path}{problem.message}{fix}')}\n"


def _github_data(text: str) -> str:
    """A line break stays one in an annotation; whatever else is not seen is made visible."""
    shown = "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))
    return shown.replace("%", "%25").replace("\n", "%0A")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(reports: Sequence[CheckReport]) -> str:
    """One run of one tool; places are relative to where `check` was called."""
    problems = [problem for report in reports for problem in report.errors]
    codes = list(dict.fromkeys(problem.code for problem in problems))
    driver = {
        "name": "dpone",
        "rules": [{"id": code, "shortDescription": {"text": code}} for code in codes],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_sarif_result(problem, codes) for problem in problems]}],
    }
    return json.dumps(log, ensure_ascii=False, indent=2) + "\n"


def _sarif_result(problem: Problem, codes: Sequence[str]) -> dict[str, object]:
    path = f"{problem.path}: " if problem.path else ""
    fix = f" Fix: {problem.fix}." if problem.fix else ""
    result: dict[str, object] = {
        "ruleId": problem.code,
        "ruleIndex": codes.index(problem.code),
        "level": "error",
        "message": {"text": f"{path}{problem.message}.{fix}"},
    }
    if problem.position is not None:
        region = {"startLine": problem.position.line, "startColumn": problem.position.column}
        location = {"artifactLocation": {"uri": problem.position.file}, "region": region}
        result["locations"] = [{"physicalLocation": location}]
    return result


RENDERERS: Final[Mapping[str, Callable[[Sequence[CheckReport]], str]]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}
