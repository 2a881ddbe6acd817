"""Renders the tables of report.html: gates, converted values, acceptance, hooks and timeline."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from dpone_core.evidence.gate_words import expectation, gate_finding
from dpone_core.evidence.html_parts import Cell, Markup, Tone, bar, duration
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.run_verdict import RunVerdict
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.outcome import count_or_none
from dpone_core.model.vocabulary import GateType, HookPhase, Side, StrategyMode, TargetState

_TONES: Final = {
    "passed": Tone.OK,
    "succeeded": Tone.OK,
    "failed": Tone.BAD,
    "warning": Tone.WARN,
    "skipped": Tone.FLAT,
    "running": Tone.OPEN,
}
_STEPS: Final = {
    "leftovers_found": ("Staging of a dead run found", "prepare"),
    "source_described": ("Describe the source", "extract"),
    "source_exported": ("Read the source", "extract"),
    "staged": ("Extract and stage", "stage"),
    "lineage_projected": ("Check lineage columns", "stage"),
    "quality_checked": ("Judge the gates", "gate"),
    "source_metrics_captured": ("Measure the source", "accept"),
    "staged_metrics_captured": ("Measure staging", "accept"),
    "finalized": ("Publish to the target", "publish"),
    "target_metrics_captured": ("Measure the target", "accept"),
    "cleanup": ("Remove staging", "clean up"),
    "load_governance_failed": ("Failure recorded", "failure"),
}
_BETWEEN: Final = {
    "before_first_step": ("Open sessions, lease and audit", "prepare"),
    "between_steps": ("Between two steps", "dpone"),
    "after_last_step": ("Save the state, close lease and sessions", "finish"),
}
_WORTH_A_ROW_SECONDS: Final = 0.05
_HASH_CHARACTERS: Final = 19


def gates_section(markup: Markup, report: JsonView) -> str:
    """One row per gate with what was observed and expected, or a sentence why there is none."""
    gates = gate_report(report.at("result"))
    if not gates:
        return "<p>The run ended before the gates were judged.</p>" if report.at("result", "failure_context") else ""
    results = gates.items("results")
    if not results:
        return "<p>No gate is declared.</p>"
    rows = [
        (
            Cell(html=f"{markup.text(gate.text('gate_id'))}<small>{markup.text(_rule(gate))}</small>"),
            Cell(html=_status(markup, gate)),
            Cell(html=markup.text(gate.text("severity"))),
            Cell(html=_observed_cell(markup, gate)),
            Cell(html=_expected_cell(markup, gate)),
        )
        for gate in results
    ]
    return markup.table(
        "A gate of severity error that does not pass blocks the load; a warning does not.",
        ("Gate", "Result", "Severity", "Observed", "Expected"),
        rows,
    )


def _rule(gate: JsonView) -> str | None:
    columns = ", ".join(gate.texts("columns"))
    return f"{gate.text('type')}({columns})" if columns else gate.text("type")


def gate_report(result: JsonView) -> JsonView:
    """The gate report of a run: in the result of a failed gate, in its details, or in the `quality_checked` step."""
    checked = (step for step in result.items("details", "load_steps") if step.text("step_id") == "quality_checked")
    return (
        result.at("quality_gates")
        or result.at("details", "reconciliation_metrics", "quality_gates")
        or next(checked, JsonView(None)).at("details_json", "quality_gates")
    )


def _observed_cell(markup: Markup, gate: JsonView) -> str:
    metrics = gate.at("metrics")
    match gate.text("type"):
        case GateType.ROW_COUNT_RECONCILIATION:
            source, target = metrics.count("source_row_count"), metrics.count("target_row_count")
            counted = f"source {markup.text(source)}, target {markup.text(target)}"
            return f"{counted}<small>difference {markup.text(metrics.count('difference'))}</small>"
        case GateType.MIN_ROWS:
            side = markup.text(metrics.text("side"))
            return f"{markup.text(metrics.count('row_count'))} rows<small>side {side}</small>"
        case GateType.TYPED_HASH_RECONCILIATION:
            pair = (("source", metrics.text("source_hash")), ("target", metrics.text("target_hash")))
            return "".join(f"<small>{side} {_short(markup, value)}</small>" for side, value in pair)
        case _:
            keys = metrics.count("distinct_failed_keys")
            return markup.text(gate_finding(gate)) + (f"<small>keys {markup.text(keys)}</small>" if keys else "")


def _expected_cell(markup: Markup, gate: JsonView) -> str:
    metrics = gate.at("metrics")
    match gate.text("type"):
        case GateType.ROW_COUNT_RECONCILIATION:
            return f"difference at most {markup.text(metrics.count('allowed_difference'))}"
        case GateType.MIN_ROWS:
            return f"at least {markup.text(metrics.count('threshold'))} rows"
        case GateType.TYPED_HASH_RECONCILIATION:
            return f"equal hashes<small>mode {markup.text(metrics.text('mode'))}</small>"
        case _:
            return markup.text(expectation(gate))


def converted_section(markup: Markup, details: JsonView) -> str:
    """One row per declared special value with the number of values converted; empty when the manifest declares none."""
    rows = [
        (
            Cell(html=markup.code(each.text("column"))),
            Cell(html=markup.text(each.text("value"))),
            Cell(html=markup.text(each.text("becomes") or "NULL")),
            Cell(html=markup.text(each.count("converted")), number=True),
        )
        for each in details.items("converted_values")
    ]
    caption = "Values that the manifest declares to become others, counted in the rows of this load."
    return markup.table(caption, ("Column", "Value", "Became", "Values"), rows, numbers=(3,)) if rows else ""


def acceptance_section(markup: Markup, details: JsonView, strategy: str | None) -> str:
    """The acceptance metrics, one column per side. A value that differs from the first measured side is marked, unless
    the two sides hold different rows by design: only a full refresh leaves the target with the rows of one load.
    """
    whole = strategy == StrategyMode.FULL_REFRESH
    metrics = details.at("reconciliation_metrics", "acceptance_metrics")
    snapshots = {
        side.value: metrics.at("snapshots", side.value) for side in Side if metrics.at("snapshots", side.value)
    }
    if not snapshots:
        return ""
    measures: list[tuple[str, str, dict[str, int | None]]] = []
    if any(snapshot.count("row_count") is not None for snapshot in snapshots.values()):
        counted = {side: snapshot.count("row_count") for side, snapshot in snapshots.items()}
        measures.append(("Rows", "", counted))
    for kind, key in (("NULL values", "null_counts"), ("distinct values", "distinct_counts")):
        found = {side: dict(one.pairs(key)) for side, one in snapshots.items()}
        for column in _columns(snapshots, key):
            counts = {side: count_or_none(of_side.get(column)) for side, of_side in found.items()}
            measures.append((column, kind, counts))
    rows = [
        (
            Cell(html=markup.text(name) + (f"<small>{kind}</small>" if kind else "")),
            *(
                Cell(html=_measure_cell(markup, counts, side, compared=whole or side != Side.TARGET), number=True)
                for side in snapshots
            ),
        )
        for name, kind, counts in measures
    ]
    table = markup.table(
        f"Mode {metrics.text('mode') or 'unknown'}. A value that differs from the first side is marked."
        + ("" if whole else " The target holds rows of earlier loads too, so it is measured and not compared."),
        ("Measure", *(side.capitalize() for side in snapshots)),
        rows,
        numbers=range(1, len(snapshots) + 1),
    )
    return table + _metric_warnings(markup, snapshots)


def _columns(snapshots: dict[str, JsonView], key: str) -> list[str]:
    return list(dict.fromkeys(name for snapshot in snapshots.values() for name, _ in snapshot.pairs(key)))


def _measure_cell(markup: Markup, counts: dict[str, int | None], side: str, *, compared: bool) -> str:
    value, first = counts[side], next(iter(counts.values()))
    if value is None:
        return markup.tag(Tone.OPEN, "not measured")
    if value == first or not compared:
        return markup.text(value)
    return f"{markup.text(value)} {markup.tag(Tone.WARN, 'differs')}"


def _metric_warnings(markup: Markup, snapshots: dict[str, JsonView]) -> str:
    found = [(side, warning) for side, snapshot in snapshots.items() for warning in snapshot.texts("warnings")]
    lines = "".join(f"<li>{markup.text(side)}: {markup.code(warning)}</li>" for side, warning in found)
    return f"<h3>Warnings</h3><ul>{lines}</ul>" if lines else ""


def hooks_section(markup: Markup, details: JsonView) -> str:
    """One row per hook, in the order they ran."""
    rows = [
        (
            Cell(html=f"{markup.text(step.text('step_id'))}<small>{markup.text(step.text('kind'))}</small>"),
            Cell(html=markup.text((step.text("phase") or "").replace("_", "-"))),
            Cell(html=_hook_status(markup, step)),
            Cell(html=markup.codes(step.texts("details_json", "lineage", "inputs"), "not declared")),
            Cell(html=markup.codes(step.texts("details_json", "lineage", "outputs"), "not declared")),
            Cell(html=_action(markup, step)),
        )
        for step in details.items("load_steps")
        if step.text("phase") in tuple(HookPhase)
    ]
    header = ("Hook", "Phase", "Status", "Reads", "Writes", "Hash of what ran")
    return (
        markup.table("Hooks in the order they ran, with the lineage their manifest declares.", header, rows)
        if rows
        else ""
    )


def _hook_status(markup: Markup, step: JsonView) -> str:
    reason = step.text("details_json", "reason") or step.text("error_message")
    return _status(markup, step) + (f"<small>{markup.text(reason)}</small>" if reason else "")


def _action(markup: Markup, step: JsonView) -> str:
    found = step.text("details_json", "sql_hash") or step.text("details_json", "action_hash")
    return markup.code(found) if found else "none"


def timeline_section(markup: Markup, details: JsonView, verdict: RunVerdict) -> str:
    """The steps in order of time, with a line at the commit."""
    steps = [step for step in details.items("load_steps") if step.text("kind") != "runtime_decision"]
    timed = sorted(_steps_in_time(steps), key=lambda entry: entry[:2])
    if not timed:
        return ""
    begin, end = _moment(details.text("started_at")), _moment(details.text("finished_at"))
    timed = sorted([*timed, *_time_between(timed, begin, end)], key=lambda entry: entry[:2])
    begin = timed[0][0] if begin is None else min(begin, timed[0][0])
    whole = max(max(start - begin + length for start, _, length, _ in timed), 1e-6)
    committed = verdict.recovery is None or verdict.recovery.target_state is TargetState.MUTATION_RETURNED_SUCCESS
    rows: list[tuple[Cell, ...] | str] = []
    for start, _, length, step in timed:
        if step.text("step_id") == "finalized" and committed:
            rows.append("Commit: from here on the target holds this load")
        failed = step.text("status") == "failed"
        rate = step.seconds("details_json", "throughput", "rows_per_second")
        counted = step.count("details_json", "throughput", "row_count")
        rows.append(
            (
                Cell(html=_step_title(markup, step)),
                Cell(html="" if step.text("step_id") in _BETWEEN else _hook_status(markup, step)),
                Cell(html=bar((start - begin) / whole, length / whole, failed=failed), wide=True),
                Cell(html=markup.text(f"+{duration(start - begin)}"), number=True),
                Cell(html=markup.text(duration(length)), number=True),
                Cell(html=markup.text(counted) if counted is not None else "", number=True, empty=counted is None),
                Cell(html=f"{rate:,.0f}" if rate is not None else "", number=True, empty=rate is None),
            )
        )
    return markup.table(
        "Steps in order of time. The bar shows when a step ran and for how long.",
        ("Step", "Status", "When", "Start", "Duration", "Rows", "Rows/s"),
        rows,
        numbers=(3, 4, 5, 6),
    )


def _steps_in_time(steps: list[JsonView]) -> Iterator[tuple[float, int, float, JsonView]]:
    """Start and length in seconds of each step that has a valid start, with its index in `steps`."""
    for index, step in enumerate(steps):
        moment, length = _moment(step.text("started_at")), step.seconds("duration_seconds")
        if moment is not None:
            yield moment, index, length or 0.0, step


def _moment(text: str | None) -> float | None:
    """Seconds since 1970 of an ISO text in UTC; None for any other text."""
    try:
        return datetime.fromisoformat((text or "").replace("Z", "+00:00")).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _time_between(
    timed: list[tuple[float, int, float, JsonView]], begin: float | None, end: float | None
) -> Iterator[tuple[float, int, float, JsonView]]:
    """The time of the run that lies in no step, as entries like those of steps, so that the timeline has no hole."""
    reached, name = begin, "before_first_step"
    for start, _, length, _ in timed:
        if reached is not None and start - reached >= _WORTH_A_ROW_SECONDS:
            yield reached, -1, start - reached, JsonView({"step_id": name, "status": "succeeded"})
        reached = max(start + length, start if reached is None else reached)
        name = "between_steps"
    if reached is not None and end is not None and end - reached >= _WORTH_A_ROW_SECONDS:
        yield reached, len(timed), end - reached, JsonView({"step_id": "after_last_step", "status": "succeeded"})


def _step_title(markup: Markup, step: JsonView) -> str:
    step_id, phase = step.text("step_id"), step.text("phase")
    name, lifecycle = (_STEPS | _BETWEEN).get(step_id or "", (step_id, phase))
    if phase in tuple(HookPhase):
        name, lifecycle = f"Hook {step_id}", (phase or "").replace("_", "-")
    return f"{markup.text(name)}<small>{markup.text(lifecycle)}</small>"


def _status(markup: Markup, entry: JsonView) -> str:
    word = entry.text("status") or "unknown"
    return markup.tag(_TONES.get(word, Tone.OPEN), word)


def _short(markup: Markup, value: str | None) -> str:
    if value is None:
        return "unknown"
    return markup.code(f"{value[:_HASH_CHARACTERS]}…" if is_fingerprint(value) else value)
