"""What a run says, held against itself and against what is there. Every function yields violations as sentences."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.soak.disturbances import Kind
from tests.soak.model import APPEND, MERGE, Row, difference, expected, is_between
from tests.soak.processes import DEADLINE_SECONDS, Ended
from tests.soak.sinks import Seen

COMMITTED: Final = "mutation_returned_success"
NOT_MUTATED: Final = "not_mutated"
FACTS: Final = ("target_state", "source_state", "retry_classification", "failure_boundary", "checkpoint_state")
_INTERNAL: Final = "DPONE_INTERNAL_ERROR"
KILLS: Final = (Kind.KILL, Kind.KILL_GROUP, Kind.RIVAL_KILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One or two runs of one manifest at the same time, and what was there before and after them.

    `piecewise`: what is published becomes visible in pieces, so that a load which ended early may have left a part.
    """

    strategy: str
    piecewise: bool
    kind: Kind
    source: Sequence[Row]
    before: Seen
    after: Seen
    runs: tuple[Ended, ...]

    @property
    def wanted(self) -> list[Row]:
        return expected(self.strategy, self.before.rows, self.source)


def said_of_target(run: Ended) -> str | None:
    """`target_state` as the run stated it; None: nothing was said."""
    if run.receipt is not None:
        state = run.receipt["target_state"]
        return NOT_MUTATED if state is None else str(state)
    if run.published is not None:
        return COMMITTED if run.published["report"]["passed"] else _facts(run.published["report"]).get("target_state")
    return None


def violations(step: Step) -> Iterator[str]:
    for run in step.runs:
        yield from _contradictions(run, step.kind)
    yield from _untrue_of_rows(step)
    yield from _untrue_of_cursor(step)


def _contradictions(run: Ended, kind: Kind) -> Iterator[str]:
    """Exit, receipt, printed report and run.json of one run must agree."""
    if not run.in_time:
        yield f"{run.run_id} did not end in {DEADLINE_SECONDS:.0f} seconds"
        return
    if run.receipt is None:
        yield from _without_receipt(run, kind)
    elif run.exit_code >= 0 and run.receipt["exit_code"] != run.exit_code:
        yield f"{run.run_id} exits with {run.exit_code}, its receipt says {run.receipt['exit_code']}"
    elif run.exit_code < 0 and kind not in KILLS:
        yield f"{run.run_id} died by signal {-run.exit_code} behind its receipt"
    if run.code == _INTERNAL:
        yield f"{run.run_id} ends with {_INTERNAL}: {run.stderr[-300:]}"
    if run.tampered:
        yield f"run.json of {run.run_id} is missing, or not that of the receipt's digest"
    if run.succeeded and run.published is None:
        yield f"{run.run_id} succeeded without run.json"
    for name, document in (("run.json", run.published and run.published["report"]), ("stdout", run.report)):
        if document is not None and run.receipt is not None:
            yield from _differences(run, name, document, run.receipt)


def _without_receipt(run: Ended, kind: Kind) -> Iterator[str]:
    if kind in KILLS and run.exit_code == -signal.SIGKILL:
        return
    early = not run.phases and run.report is None
    if kind in (Kind.TERM, Kind.INT) and early and run.exit_code in (-signal.SIGTERM, -signal.SIGINT):
        return  # while Python itself starts
    yield f"{run.run_id} exits with {run.exit_code} and leaves no receipt"


def _differences(run: Ended, name: str, document: dict[str, Any], receipt: dict[str, Any]) -> Iterator[str]:
    if "passed" not in document:
        return  # an error object of a run that was refused before it began
    if document["passed"] is not run.succeeded:
        yield f"{run.run_id}: {name} says passed {document['passed']}, the receipt {receipt['status']}"
    facts = _facts(document)
    for fact in FACTS:
        if fact in facts and facts[fact] != receipt[fact]:
            yield f"{run.run_id}: {name} says {fact} {facts[fact]}, the receipt {receipt[fact]}"


def _facts(document: dict[str, Any]) -> dict[str, Any]:
    return dict(document["result"].get("failure_context") or {})


def _untrue_of_rows(step: Step) -> Iterator[str]:
    held, before, wanted = step.after.rows, step.before.rows, step.wanted
    said = [said_of_target(run) for run in step.runs]
    if any(run.succeeded for run in step.runs) or (COMMITTED in said and not step.piecewise):
        if wrong := difference(held, wanted):
            yield f"said to be loaded, and the target differs: {wrong}"
    elif all(state == NOT_MUTATED for state in said):
        if wrong := difference(held, before):
            yield f"said to be not_mutated, and the target differs from before: {wrong}"
    elif held not in (before, wanted) and not (step.piecewise and is_between(step.strategy, before, held, step.source)):
        yield f"neither the old target nor the new one: {difference(held, wanted)}"


def _untrue_of_cursor(step: Step) -> Iterator[str]:
    if step.strategy not in (APPEND, MERGE):
        return
    newest = max(row[3] for row in step.source)
    moved = step.after.cursor != step.before.cursor
    if moved and (step.after.cursor != newest or difference(step.after.rows, step.wanted)):
        yield f"the cursor went from {step.before.cursor} to {step.after.cursor} of {newest} without its rows"
    states = {str(run.receipt["source_state"]) for run in step.runs if run.receipt is not None}
    if "advanced" in states and step.after.cursor != newest:
        yield f"source_state advanced, and the cursor is {step.after.cursor} of {newest}"
    if moved and states == {"not_advanced"} and all(run.receipt is not None for run in step.runs):
        yield f"source_state not_advanced, and the cursor went to {step.after.cursor}"
    if any(run.succeeded for run in step.runs) and step.after.cursor != newest:
        yield f"a run succeeded, and the cursor is {step.after.cursor} of {newest}"


def violations_at_rest(step: Step) -> Iterator[str]:
    """An undisturbed run: it succeeds, names every object that dead loads left, and leaves no lease."""
    (run,) = step.runs
    if not run.succeeded:
        yield f"an undisturbed run ends with {run.code}"
        return
    warnings = " ".join((run.report or {}).get("result", {}).get("details", {}).get("warnings", []))
    for name in step.before.leftovers:
        if name.removeprefix("__dpone__").partition("_")[2] not in warnings:
            yield f"{name} was left by a dead load, and is not reported"
    if new := set(step.after.leftovers) - set(step.before.leftovers):
        yield f"an undisturbed run leaves {sorted(new)}"
    if step.after.leases:
        yield f"{step.after.leases} leases stay"
