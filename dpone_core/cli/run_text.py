"""A run for a terminal: the verdict, the rows, and after a failure what is true and what to do."""

from __future__ import annotations

from dpone_core.cli.console import problem_lines
from dpone_core.evidence.audit import utc_text
from dpone_core.evidence.gate_words import gate_finding, gate_name
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.outcome import GateCounts, LoadOutcome, RunReport
from dpone_core.evidence.recovery import recovery_advice
from dpone_core.evidence.window import describe_window
from dpone_core.model.load_config import IncrementalConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.visible_text import visible
from dpone_core.model.vocabulary import GateStatus, StrategyMode


def run_text(report: RunReport, plan: LoadPlan | None, evidence_path: str | None) -> str:
    outcome = report.outcome
    if outcome is None:
        return _refused(report)
    counts = outcome.gate_counts
    lines = [
        f"{'succeeded' if outcome.passed else 'failed':9} {report.facts.process}  run {report.facts.run_id}",
        *_done_before(report),
        f"  rows      {_rows(outcome, plan is not None and plan.target.strategy is StrategyMode.INCREMENTAL_MERGE)}",
        *(f"  converted {line}" for line in _converted(outcome)),
        f"  gates     {counts.passed} passed, {counts.failed} failed, {counts.warned} warned{_skipped(counts)}",
        *(f"  gate      {line}" for line in _unpassed_gates(outcome)),
    ]
    if plan is not None and plan.source.incremental is not None:
        planned = _window(plan.target.strategy, plan.source.incremental)
        lines.append(f"  window    {describe_window(outcome.window) or planned}")
    if outcome.failure is not None:
        lines.append(f"  error     {outcome.failure.line}")
        lines += [f"  recovery  {sentence}" for sentence in recovery_advice(outcome)]
    lines += [f"  warning   {warning}" for warning in outcome.warnings]
    if evidence_path is not None:
        lines.append(f"  evidence  {evidence_path}")
    return "\n".join(visible(line) for line in lines)


def _done_before(report: RunReport) -> list[str]:
    """One line where nothing ran now, because the run had succeeded before."""
    if report.published is None or report.outcome is None:
        return []
    finished = utc_text(report.outcome.finished_at)
    return [f"  once      done before by load {report.outcome.identity.load_id}, finished {finished}; nothing ran now"]


def _refused(report: RunReport) -> str:
    """Every problem with its place, or the one sentence of a refusal that is not about the manifest."""
    assert report.refusal is not None  # neither refused nor executed cannot exist
    lines = [f"refused   {report.facts.manifest}"]
    if not report.problems:
        lines += [f"  {report.refusal.line}", *([f"    fix: {report.refusal.fix}"] if report.refusal.fix else [])]
    else:
        lines += [f"  {line}" for line in problem_lines(report.problems)]
    return "\n".join(visible(line) for line in lines)


def _window(strategy: StrategyMode, incremental: IncrementalConfig) -> str:
    cursor, lookback = incremental.cursor_column, incremental.lookback
    if strategy is not StrategyMode.INCREMENTAL_MERGE:
        return f"saved <= {cursor} < newest seen at the start; the newest value waits for the next run"
    return f"{cursor} >= saved{f' - {lookback}' if lookback else ''}; rows read again are updated by their key"


def _rows(outcome: LoadOutcome, merges: bool) -> str:
    """Counters that are known; what was never counted is not mentioned. Only a merge updates."""
    result = outcome.result
    known = (
        ("extracted", result.extracted_rows),
        ("staged", result.staged_rows),
        ("inserted", result.inserted_rows),
        ("updated", result.updated_rows if merges else None),
        ("target", result.final_rows),
    )
    return ", ".join(f"{name} {rows:,}" for name, rows in known if rows is not None) or "none counted"


def _skipped(counts: GateCounts) -> str:
    """Only where there is one: a gate that did not judge is worth a word."""
    return f", {counts.skipped} skipped" if counts.skipped else ""


def _converted(outcome: LoadOutcome) -> list[str]:
    """`valid_to: 250 infinity to NULL`, one line per declared rule whose values are all counted."""
    return [
        f"{each.rule.column}: {each.count:,} {each.rule.value} to {each.rule.becomes or 'NULL'}"
        for each in outcome.result.converted_values
        if each.count is not None
    ]


def _unpassed_gates(outcome: LoadOutcome) -> list[str]:
    """`unique(order_id) failed: 12 of 200,000 rows`, one line per gate that did not pass."""
    return [
        f"{gate_name(result)} {result.text('status')}: {gate_finding(result)}"
        for result in JsonView(outcome.quality_gates).items("results")
        if result.text("status") != GateStatus.PASSED
    ]
