"""An append that may have been committed although its cursor was never saved is not repeated (case L01).

Before an append commits, an intent is durable: which load, which cursor it read. As long as the saved cursor is still
that one, the next load asks the sink what became of it, before pre-hooks and before any mutation. Not a journal and no
fence (S0 non-goal): it repeats nothing, rolls nothing back, and advances no state; an operator decides.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from dpone_core.errors import DponeError, ETLExecutionError, LoadInProgressError
from dpone_core.evidence.audit import StepOutcome
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.state import CommitIntent, CommitIntents, SavedCursor

_WAY_OUT: Final = (
    "compare the target with the evidence of that load; then `dpone state set`, with a reason: the pending value that "
    "`dpone state show` prints if its rows stay, or the value before it once they are removed from the target"
)


class LoadAlreadyCommittedError(ETLExecutionError):
    """An earlier load of this process is in the target and its cursor was never saved; nothing was mutated now."""

    code = "load_already_committed"

    def __init__(self, intent: CommitIntent) -> None:
        super().__init__(
            f"load {intent.identity.load_id} is in the target and its cursor was not saved; "
            "loading again would repeat its rows",
            fix=_WAY_OUT,
        )


class EarlierLoadUnknownError(ETLExecutionError):
    """Nobody can say whether an earlier load of this process is in the target; nothing was mutated now."""

    code = "earlier_load_unknown"

    def __init__(self, intent: CommitIntent) -> None:
        super().__init__(
            f"load {intent.identity.load_id} was about to publish when it ended, and whether its rows are in the "
            "target cannot be known",
            fix=_WAY_OUT,
        )


def refuse_unsettled(context: LoadContext, saved: SavedCursor | None) -> None:
    """Raises for an earlier append that is in the target, or may be, behind a cursor that was never saved."""
    intents = context.sessions.intents
    if intents is None or context.plan.target.strategy is not StrategyMode.INCREMENTAL_APPEND:
        return
    intent = intents.read(context.config)
    if intent is None or intent.is_settled_by(saved):
        return
    held = _is_in_target(context, intent)
    context.step_log.note(
        "earlier_load_examined",
        GOVERNANCE_PHASE,
        GOVERNANCE_KIND,
        StepOutcome.WARNING,
        {"earlier_run_id": intent.identity.run_id, "earlier_load_id": intent.identity.load_id, "is_in_target": held},
    )
    if held is False:
        context.step_log.warnings.append("earlier_load_not_published")
        return
    context.commit_state.unsettled_load = True
    raise LoadAlreadyCommittedError(intent) if held else EarlierLoadUnknownError(intent)


def refuse_lost_lease(context: LoadContext) -> None:
    """The last look before a commit (case L09): raises LoadInProgressError when the lease went to another load.

    The lease is renewed by it, so that one that had expired unnoticed cannot be taken while this load commits.
    """
    leases, lease = context.sessions.lease, context.lease
    if leases is not None and lease is not None and not leases.renew(lease, context.runtime.clock.utc_now()):
        raise LoadInProgressError(
            "the lease of this target went to another load while this one ran",
            fix="wait for that load; then run again",
        )


def arm_commit(context: LoadContext, extraction: Extraction, rows: int) -> None:
    """The last thing before a commit: the lease is still ours, and who is about to append is durable.

    A load without rows has nothing that a repetition could repeat. Raises LoadInProgressError.
    """
    refuse_lost_lease(context)
    intents = context.sessions.intents
    if intents is None or not rows or context.plan.target.strategy is not StrategyMode.INCREMENTAL_APPEND:
        return
    try:
        _arm(context, intents, extraction, extraction.seen)
    except BaseException:
        withdraw_commit(context)  # it may be durable although its answer was lost
        raise


def rearm_commit(context: LoadContext, extraction: Extraction) -> None:
    """Another cursor was saved while this load committed: that cursor does not settle it either."""
    intents, cursor = context.sessions.intents, context.sessions.cursor
    if intents is not None and cursor is not None and context.commit_state.result.staged_rows != 0:
        with suppress(DponeError):
            _arm(context, intents, extraction, cursor.read(context.config))


def withdraw_commit(context: LoadContext) -> None:
    """The sink said that nothing was committed. A withdrawal that fails leaves a question for the next load."""
    if context.sessions.intents is not None:
        with suppress(DponeError):
            context.sessions.intents.withdraw(context.config, context.identity)


def _arm(context: LoadContext, intents: CommitIntents, extraction: Extraction, seen: SavedCursor | None) -> None:
    publications = context.sessions.sink.publications
    intent = CommitIntent(
        identity=context.identity,
        seen_load_id=seen.load_id if seen is not None else None,
        cursor_value=extraction.next_cursor,
        target_mark=None if publications is None else publications.last_marker(context.plan.target.table),
    )
    intents.arm(context.config, intent, context.runtime.clock.utc_now())


def _is_in_target(context: LoadContext, intent: CommitIntent) -> bool | None:
    sink = context.sessions.sink
    ref = context.plan.target.ref(intent.identity)
    if sink.publications is not None:
        return sink.publications.contains(ref, intent.target_mark)
    return None if sink.legacy is None else sink.legacy.has_rows(ref)
