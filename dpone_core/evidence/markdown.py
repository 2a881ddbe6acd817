"""Renders report.md, the report of one run for a person to read in a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dpone_core.evidence.gate_words import failed_gate_line
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.outcome import EarlierAttempt, LoadOutcome, RunReport
from dpone_core.evidence.recovery import recovery_advice
from dpone_core.evidence.window import describe_window
from dpone_core.model.load_plan import LoadPlan


def run_markdown(report: RunReport, plan: LoadPlan | None) -> str:
    """The report as Markdown. It shows identifiers, counts, codes and hashes. `plan` None leaves out the route."""
    facts = report.facts
    lines = [
        f"# Load of `{facts.process or facts.manifest}`: {'succeeded' if report.passed else 'failed'}",
        "",
        f"- manifest: `{facts.manifest}`",
        f"- run id: `{facts.run_id}`",
        f"- attempts: {report.attempts} of {facts.max_attempts}",
        *(_describe_earlier(attempt) for attempt in report.earlier),
    ]
    if report.refusal is not None:
        return "\n".join([*lines, "", f"Refused before execution: {report.refusal.line}", ""])
    assert report.outcome is not None  # a report without refusal has an outcome
    outcome = report.outcome
    lines += [
        f"- load id: `{outcome.identity.load_id}`",
        *(["- done before by this load: nothing ran now"] if report.published is not None else []),
        f"- started: {outcome.started_at:%Y-%m-%d %H:%M:%S} UTC, {outcome.duration_seconds:.2f} s",
        *([f"- route: {plan.source.dataset} -> {plan.target.table} ({plan.target.finaliser.name})"] if plan else []),
    ]
    window = describe_window(outcome.window)
    lines += [f"- window: {window}"] if window else []
    if outcome.failure is not None:
        lines += ["", "## What happened", "", f"`{outcome.failure.code}`: {outcome.failure.message}"]
        found = failed_gate_line(JsonView(outcome.quality_gates))
        lines += [f"{found}."] if found is not None else []
        lines += ["", *(f"- {sentence}" for sentence in recovery_advice(outcome))]
        context = outcome.failure_context()
        if context:
            lines += ["", *_table(("fact", "value"), context.items())]
    lines += ["", "## Rows", "", *_table(("where", "rows"), _rows(outcome))]
    lines += _converted(outcome) + _gates(outcome) + _acceptance(outcome)
    lines += ["", "## Steps", "", *_table(("step", "status", "seconds", "rows/s"), _steps(outcome)), ""]
    return "\n".join(lines)


def _describe_earlier(attempt: EarlierAttempt) -> str:
    facts = attempt.as_json()
    return (
        f"  - attempt {facts['attempt']}: `{facts['error_code']}` ({facts['failure_boundary']}), "
        f"evidence `{facts['evidence_path']}`"
    )


def _rows(outcome: LoadOutcome) -> list[tuple[str, str]]:
    result = outcome.result
    return [
        ("extracted from the source", _count(result.extracted_rows)),
        ("staged", _count(result.staged_rows)),
        ("inserted", _count(result.inserted_rows)),
        ("updated", _count(result.updated_rows)),
        ("in the target after the load", _count(result.final_rows)),
    ]


def _converted(outcome: LoadOutcome) -> list[str]:
    """The section on converted values; empty without declared ones. A count that is missing is unknown, not zero."""
    rows = [
        (
            each.rule.column,
            each.rule.value.value,
            each.rule.becomes or "NULL",
            _count(each.count),
        )
        for each in outcome.result.converted_values
    ]
    header = ("column", "value", "became", "values")
    return ["", "## Converted values", "", *_table(header, rows)] if rows else []


def _gates(outcome: LoadOutcome) -> list[str]:
    report = outcome.quality_gates
    results = report.get("results") if report is not None else None
    if not isinstance(results, Sequence) or not results:
        return ["", "## Gates", "", "No gate is declared."]
    rows = [
        (result["gate_id"], result["type"], result["severity"], result["status"], _metrics(result["metrics"]))
        for result in results
    ]
    return ["", "## Gates", "", *_table(("gate", "type", "severity", "status", "metrics"), rows)]


def _acceptance(outcome: LoadOutcome) -> list[str]:
    metrics = outcome.result.acceptance_metrics
    if metrics is None:
        return []
    rows = [
        (
            snapshot.side.value,
            _count(snapshot.row_count),
            _metrics(snapshot.null_counts),
            _metrics(snapshot.distinct_counts),
            ", ".join(snapshot.warnings) or "-",
        )
        for snapshot in metrics.snapshots
    ]
    header = ("side", "rows", "nulls", "distinct", "warnings")
    return ["", f"## Acceptance ({metrics.mode.value})", "", *_table(header, rows)]


def _steps(outcome: LoadOutcome) -> list[tuple[str, str, str, str]]:
    rows = []
    for step in outcome.steps:
        if step.kind == "runtime_decision":
            continue
        rates = step.published_details.get("throughput")
        rate = rates.get("rows_per_second") if isinstance(rates, Mapping) else None
        rows.append(
            (
                step.step_id,
                step.status.value if step.error_code is None else f"{step.status.value} ({step.error_code})",
                f"{step.duration_seconds:.3f}",
                f"{rate:,.0f}" if isinstance(rate, float) else "-",
            )
        )
    return rows


def _metrics(metrics: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_count(value)}" for name, value in metrics.items()) or "-"


def _count(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    def line(cells: Sequence[object]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(header), "| " + " | ".join("---" for _ in header) + " |", *(line(row) for row in rows)]
