"""Renders report.html, the page about one run, from the JSON of the run alone.

The page is one file without scripts and external resources, which the content security policy in its head forbids. Its
bytes depend only on the JSON and on the secrets to hide, so the page of an old run.json can be rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpone_core.error_catalogue import catalogue
from dpone_core.evidence.gate_words import failed_gate_line
from dpone_core.evidence.html_identity import evidence_section, identity_section
from dpone_core.evidence.html_parts import Markup, Tone, duration
from dpone_core.evidence.html_sections import (
    acceptance_section,
    converted_section,
    gate_report,
    gates_section,
    hooks_section,
    timeline_section,
)
from dpone_core.evidence.html_style import STYLE, STYLE_HASH
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.redaction import Redactor
from dpone_core.evidence.run_verdict import Ending, RunVerdict, airflow_advice, next_commands, run_verdict
from dpone_core.evidence.window import describe_window
from dpone_core.model.vocabulary import TargetState

_POLICY: Final = f"default-src 'none'; style-src '{STYLE_HASH}'; base-uri 'none'; form-action 'none'"
_TONES: Final = {
    Ending.SUCCEEDED: Tone.OK,
    Ending.FAILED: Tone.BAD,
    Ending.REFUSED: Tone.BAD,
    Ending.UNCLEAR: Tone.OPEN,
}


def run_html(document: object, redactor: Redactor, *, evidence_sha256: str | None) -> str:
    """The HTML page for `document`: run.json, or the report alone as `dpone run --format json` prints it.

    A document of any shape is accepted; what it lacks is shown as unknown. `evidence_sha256` is the digest of the
    bytes of run.json, None for a report that was not published.
    """
    run = JsonView(document)
    report = run.at("report") or run
    page = _Page(
        markup=Markup(redactor=redactor),
        run=run,
        report=report,
        verdict=run_verdict(report, _target_of(run), run.text("plan", "strategy", "mode")),
    )
    return page.html(evidence_sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    markup: Markup
    run: JsonView
    report: JsonView
    verdict: RunVerdict

    def html(self, evidence_sha256: str | None) -> str:
        markup, details = self.markup, self.report.at("result", "details")
        sections = [
            ("recovery", "What to do", self._recovery()),
            ("rows", "Rows", self._rows()),
            ("converted", "Converted values", converted_section(markup, details)),
            ("gates", "Quality gates", gates_section(markup, self.report)),
            ("acceptance", "Acceptance", acceptance_section(markup, details, self._strategy)),
            ("hooks", "Hooks", hooks_section(markup, details)),
            ("timeline", "Timeline", timeline_section(markup, details, self.verdict)),
            ("identity", "Identity", identity_section(markup, self.run, self.report)),
            ("evidence", "Evidence", evidence_section(markup, details, evidence_sha256)),
        ]
        present = [(anchor, title, content) for anchor, title, content in sections if content]
        links = "".join(f'<li><a href="#{anchor}">{markup.text(title)}</a></li>' for anchor, title, _ in present)
        body = "\n".join(markup.section(anchor, title, content) for anchor, title, content in present)
        name = markup.text(self._name)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
            f"<title>{name}: {self.verdict.ending}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"<header>\n{self._head()}\n"
            f'<nav aria-label="Sections of this report"><ul>{links}</ul></nav>\n</header>\n'
            f"<main>\n{body}\n</main>\n"
            f"<footer><p>{self._origin()}</p></footer>\n</body>\n</html>\n"
        )

    @property
    def _name(self) -> str:
        return self.report.text("process") or self.report.text("manifest") or "dpone run"

    def _head(self) -> str:
        markup, verdict, result = self.markup, self.verdict, self.report.at("result")
        tone = _TONES[verdict.ending]
        found = failed_gate_line(gate_report(result))
        said = (*result.texts("errors"), *([] if found is None else [found]))
        failure = [f"<p>{markup.text(text)}</p>" for text in said]
        return "\n".join(
            (
                f'<p class="eyebrow">dpone load report, run {markup.code(self.report.text("run_id"))}</p>',
                f"<h1>{markup.text(self._name)} {markup.tag(tone, verdict.ending.value)}</h1>",
                f'<div class="verdict {tone}">',
                f"<p>{markup.text(verdict.target)} {markup.text(verdict.retry)}</p>",
                *failure,
                "</div>",
                markup.facts(self._summary(), "facts"),
            )
        )

    def _summary(self) -> list[tuple[str, str]]:
        markup, result = self.markup, self.report.at("result")
        attempts = f"attempt {markup.text(self.report.count('attempts'))} of {markup.text(self._allowed)}"
        first = next((step.text("started_at") for step in result.items("details", "load_steps")), None)
        started = result.text("details", "started_at") or first
        window = describe_window(result.at("details", "window").value)
        return [
            ("Target", f"{markup.text(_target_of(self.run))}<small>{markup.text(self._target_state)}</small>"),
            ("Rows in the target", markup.text(result.count("final_rows"))),
            ("Source state", markup.text(self.verdict.source_state)),
            *([("Window", markup.text(window))] if window else []),
            ("Started", f"{markup.text(_readable(started))}<small>{attempts}</small>"),
            ("Duration", markup.text(duration(result.seconds("duration_seconds")))),
        ]

    @property
    def _strategy(self) -> str | None:
        return self.report.text("result", "details", "strategy") or self.run.text("plan", "strategy", "mode")

    @property
    def _allowed(self) -> int | None:
        return self.report.count("max_attempts")

    @property
    def _target_state(self) -> str:
        match self.verdict.ending:
            case Ending.SUCCEEDED:
                return "holds this load"
            case Ending.REFUSED:
                return "not touched"
            case Ending.UNCLEAR:
                return "not known"
            case Ending.FAILED:
                state = self.verdict.recovery.target_state if self.verdict.recovery else TargetState.UNKNOWN
                return _STATES[state]

    def _recovery(self) -> str:
        markup, verdict, result = self.markup, self.verdict, self.report.at("result")
        if verdict.ending is Ending.SUCCEEDED:
            return ""
        fix = result.text("fix")
        entry = catalogue().entry_of(result.text("error_code") or "")
        in_airflow = airflow_advice(self.report, verdict) if self.run.text("invocation", "dag_id") else None
        recovery = verdict.recovery
        advice = [
            *((recovery.meaning, recovery.action) if recovery else (verdict.target, verdict.retry)),
            *([in_airflow] if in_airflow else []),
            *([f"Way out: {fix}."] if fix else []),
        ]
        parts = ['<ul class="steps">', *(f"<li>{markup.text(sentence)}</li>" for sentence in advice), "</ul>"]
        facts = self._failure_facts()
        if entry is not None:
            facts = [("Code", markup.code(entry.code)), ("Meaning", markup.text(entry.meaning)), *facts]
        if facts:
            parts.append(markup.facts(facts, "list"))
        commands = next_commands(self.report, verdict)
        if commands:
            parts.append("<h3>Commands</h3>")
            parts += [f"<p>{markup.text(purpose)}</p>\n<pre>{markup.code(line)}</pre>" for purpose, line in commands]
        return "\n".join(parts)

    def _failure_facts(self) -> list[tuple[str, str]]:
        names = {
            "failure_boundary": "Boundary",
            "target_state": "Target state",
            "checkpoint_state": "Checkpoint state",
            "source_state": "Source state",
            "retry_classification": "Retry",
        }
        context = self.report.at("result", "failure_context")
        return [(title, self.markup.code(context.text(key))) for key, title in names.items()] if context else []

    def _rows(self) -> str:
        result, markup = self.report.at("result"), self.markup
        if self.verdict.ending is Ending.REFUSED:
            return ""
        tiles = (
            ("Extracted from the source", result.count("extracted_rows")),
            ("Staged", result.count("details", "reconciliation_metrics", "staged_rows")),
            ("Inserted", result.count("inserted_rows")),
            ("Updated", result.count("updated_rows")),
            ("In the target afterwards", result.count("final_rows")),
        )
        staged = self.run.text("plan", "route", "load_path") != "legacy"
        shown = [(name, rows) for name, rows in tiles if staged or name != "Staged"]
        note = (
            ""
            if staged
            else '<p class="note">This sink has no staging: rows go to the target first and are judged there.</p>'
        )
        return markup.facts([(name, markup.text(rows)) for name, rows in shown], "facts") + note

    def _origin(self) -> str:
        version = self.run.text("dpone_version")
        return f"Made by dpone{' ' + self.markup.text(version) if version else ''} from the run's JSON."


_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z", re.ASCII)
_STATES: Final = {
    TargetState.NOT_MUTATED: "not changed by this run",
    TargetState.MUTATION_RETURNED_SUCCESS: "holds this load",
    TargetState.UNKNOWN: "not known",
}


def _target_of(run: JsonView) -> str:
    first: Sequence[JsonView] = run.items("plan", "targets")
    return (first[0].text("table") if first else None) or "of this process"


def _readable(moment: str | None) -> str | None:
    """`2026-11-29 18:47:59 UTC` for an ISO text as dpone writes it; any other text unchanged."""
    found = _MOMENT.fullmatch(moment or "")
    return f"{found[1]} {found[2]} UTC" if found else moment
