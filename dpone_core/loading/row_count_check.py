"""Counts the target before and after a commit and compares the difference with the staged rows (LIFE-27).

This detects a finaliser that reports success although it lost or doubled rows. Both counts are taken under the lease.
Nothing is rolled back: a mismatch is a post-commit failure that reports the counted rows.
"""

from __future__ import annotations

from dpone_core.errors import ConnectorError, DponeError
from dpone_core.loading.context import LoadContext
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult

MISMATCH = "published_row_count_mismatch"
UNCOUNTED = "published_rows_not_counted"


def count_target_rows(context: LoadContext) -> int | None:
    """Rows in the target: 0 while it does not exist, None when counting means reading the whole target."""
    publications = context.sessions.sink.publications
    return None if publications is None else publications.row_count(context.plan.target.table)


def refuse_wrong_row_count(
    context: LoadContext, finalized: FinalizeResult, staged_rows: int, before: int | None
) -> None:
    """Counts the target after the commit; `before` is its count just before it, None where the sink does not count.

    Expected is a gain of `staged_rows` for an append and of `staged_rows` minus updated rows for a merge; after a full
    refresh the target must hold exactly `staged_rows`. A partition_replace is not checked. Raises ConnectorError
    `published_row_count_mismatch`, with the counted rows in the CommitState, or `published_rows_not_counted` when the
    count after the commit fails.
    """
    if before is None:
        context.step_log.warnings.append(UNCOUNTED)
        return
    commit_state = context.commit_state
    try:
        total = count_target_rows(context)
    except DponeError as error:
        raise ConnectorError(
            "the load is published, but its rows in the target could not be counted",
            code=UNCOUNTED,
            fix="count the rows of the target yourself and compare them with this load's counters",
        ) from error
    gained = None if total is None else total - before
    match context.plan.target.strategy:
        case StrategyMode.FULL_REFRESH:
            found, expected = total, staged_rows
        case StrategyMode.INCREMENTAL_APPEND:
            found, expected = gained, staged_rows
        case StrategyMode.INCREMENTAL_MERGE:
            found, expected = gained, staged_rows - finalized.updated_rows
        case StrategyMode.PARTITION_REPLACE:
            return
    if found != expected:
        commit_state.replace_row_counts(inserted_rows=found, final_rows=total)
        raise ConnectorError(
            f"expected {expected} new rows in the target after the commit, but counted {found}",
            code=MISMATCH,
            fix="compare the target with the source; rows that another writer added or removed meanwhile count as well",
        )
