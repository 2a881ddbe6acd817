"""Refuses to repeat an append that may be in the target although its cursor was never saved (LIFE-22, LIFE-23).

Before an append commits, it stores a commit intent: its load id and the cursor state it read. While the saved cursor is
still that one, the next load asks the sink whether the earlier load is in the target, before pre-hooks and before any
mutation. Not a journal: nothing is repeated or rolled back and no state is advanced; an operator decides.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from dpone_core.errors import ConnectorError, DponeError, ETLExecutionError, LeaseLostError
from dpone_core.evidence.audit import StepOutcome
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.identity import LoadId
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.state import CommitIntent, CommitIntents, SavedCursor

_WAY_OUT: Final = (
    "compare the target with the evidence of that load; then `dpone state set`, with a reason: the pending value that "
    "`dpone state show` prints if its rows stay, or the value before it once they are removed from the target"
)


class LoadAlreadyCommittedError(ETLExecutionError):
    """An earlier load of this process is in the target, but its cursor was not saved. This attempt mutated nothing."""

    code = "load_already_committed"

    def __init__(self, intent: CommitIntent) -> None:
        super().__init__(
            f"load {intent.identity.load_id} is in the target, but its cursor was not saved: "
            "loading again would append its rows a second time",
            fix=_WAY_OUT,
        )


class EarlierLoadUnknownError(ETLExecutionError):
    """The sink cannot say whether an earlier load of this process is in the target. This attempt mutated nothing."""

    code = "earlier_load_unknown"

    def __init__(self, intent: CommitIntent) -> None:
        super().__init__(
            f"load {intent.identity.load_id} ended while it was publishing, and the sink cannot say whether its rows "
            "are in the target",
            fix=_WAY_OUT,
        )


def revoke_earlier_loads(context: LoadContext, keep: frozenset[str]) -> None:
    """Takes from earlier loads what they could publish late, when this one took over a lease that was not given back.

    Stands before any look at the target, so that what is seen there stays true. `keep` are names of staging that this
    run uses itself. Only for a sink that cannot check the lease where it publishes.
    """
    lease, revocation = context.lease, context.sessions.sink.revocation
    if lease is None or not lease.taken_over or revocation is None:
        return
    taken = revocation.revoke(context.plan.target.ref(context.identity), keep)
    context.commit_state.earlier_loads_revoked = True
    if taken:
        details: dict[str, object] = {"staging": list(taken)}
        context.step_log.note(
            "earlier_staging_revoked", GOVERNANCE_PHASE, GOVERNANCE_KIND, StepOutcome.WARNING, details
        )


def read_settled_cursor(context: LoadContext) -> SavedCursor | None:
    """Reads the saved cursor, after asking the sink about an earlier append whose cursor was not saved.

    The cursor is read last: the earlier load may have been late and saved it meanwhile. Raises
    LoadAlreadyCommittedError when the rows of that load are in the target and EarlierLoadUnknownError when the sink
    cannot say. When they are not in the target, the load goes on with the warning `earlier_load_not_published`.
    """
    cursor, intents = context.sessions.cursor, context.sessions.intents
    saved = cursor.read(context.config) if cursor is not None else None
    intent = None if intents is None else intents.read(context.config)
    if intent is None or cursor is None:
        return saved
    context.commit_state.examined_intent = intent.identity.load_id
    if intent.is_settled_by(saved):
        return saved
    is_in_target = _is_in_target(context, intent)
    saved = cursor.read(context.config)
    if not intent.is_settled_by(saved):
        _refuse_unless_absent(context, intent, is_in_target)
    return saved


def _refuse_unless_absent(context: LoadContext, intent: CommitIntent, is_in_target: bool | None) -> None:
    context.step_log.note(
        "earlier_load_examined",
        GOVERNANCE_PHASE,
        GOVERNANCE_KIND,
        StepOutcome.WARNING,
        {
            "earlier_run_id": intent.identity.run_id,
            "earlier_load_id": intent.identity.load_id,
            "is_in_target": is_in_target,
        },
    )
    if is_in_target is False:
        context.step_log.warnings.append("earlier_load_not_published")
        return
    context.commit_state.load_in_doubt = True
    raise LoadAlreadyCommittedError(intent) if is_in_target else EarlierLoadUnknownError(intent)


def refuse_lost_lease(context: LoadContext) -> None:
    """Renews the lease just before a commit (STATE-13). Raises LeaseLostError when another load has taken it.

    The renewal also protects a lease that had expired unnoticed: no other load can acquire it during the commit.
    """
    leases, lease = context.sessions.lease, context.lease
    if leases is not None and lease is not None and not leases.renew(lease, context.runtime.clock.utc_now()):
        raise LeaseLostError


def name_lost_lease(context: LoadContext, refused: ConnectorError) -> ConnectorError:
    """LeaseLostError where a sink refused to publish because the next load has taken the staging, else `refused`."""
    if context.sessions.sink.revocation is None:
        return refused
    try:
        refuse_lost_lease(context)
    except LeaseLostError as lost:
        return lost
    except DponeError:
        return refused
    return refused


def arm_commit(context: LoadContext, extraction: Extraction, rows: int) -> None:
    """The last step before a commit: renews the lease and, for an append with rows, stores its commit intent.

    `rows` is the number of rows about to be appended; without any, a repetition does no harm and no intent is stored.
    Raises LeaseLostError when the lease is lost, or when another load has stored an intent since this one looked. An
    intent whose write fails is withdrawn before the error goes on.
    """
    refuse_lost_lease(context)
    intents = context.sessions.intents
    if intents is None or not rows or context.plan.target.strategy is not StrategyMode.INCREMENTAL_APPEND:
        return
    try:
        armed = _arm(context, intents, extraction, extraction.saved_cursor, context.commit_state.examined_intent)
    except BaseException:
        withdraw_commit(context)  # it may be stored although the answer was lost
        raise
    if not armed:
        raise LeaseLostError


def rearm_commit(context: LoadContext, extraction: Extraction) -> None:
    """Stores the intent again, now against the cursor that another load saved while this one committed.

    Otherwise that cursor would make the intent look resolved, and the next load would not ask about this one. Best
    effort. The intent of a later load is not replaced.
    """
    intents, cursor = context.sessions.intents, context.sessions.cursor
    if intents is not None and cursor is not None and context.commit_state.result.staged_rows != 0:
        with suppress(DponeError):
            _arm(context, intents, extraction, cursor.read(context.config), context.identity.load_id)


def withdraw_commit(context: LoadContext) -> None:
    """Removes the commit intent of this load after the sink said that nothing was committed.

    Best effort: when the removal fails, the next load asks the sink once more.
    """
    if context.sessions.intents is not None:
        with suppress(DponeError):
            context.sessions.intents.withdraw(context.config, context.identity)


def _arm(
    context: LoadContext,
    intents: CommitIntents,
    extraction: Extraction,
    seen: SavedCursor | None,
    replaced: LoadId | None,
) -> bool:
    publications = context.sessions.sink.publications
    intent = CommitIntent(
        identity=context.identity,
        seen_load_id=seen.load_id if seen is not None else None,
        cursor_value=extraction.next_cursor,
        target_mark=None if publications is None else publications.last_marker(context.plan.target.table),
    )
    return intents.arm(context.config, intent, replaced, context.runtime.clock.utc_now())


def _is_in_target(context: LoadContext, intent: CommitIntent) -> bool | None:
    sink = context.sessions.sink
    ref = context.plan.target.ref(intent.identity)
    if sink.publications is not None:
        return sink.publications.contains(ref, intent.target_mark)
    return None if sink.legacy is None else sink.legacy.has_rows(ref)
