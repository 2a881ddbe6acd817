"""What a commit did to the number of rows in the target, counted in the target, under the lease (case C16).

A finaliser that reports success and loses rows, or doubles them, is caught here. Nothing is rolled back: the target is
published, so a mismatch is a post-commit failure with the counts that were found.
"""

from __future__ import annotations

from dpone_core.errors import ConnectorError, DponeError
from dpone_core.loading.context import LoadContext
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult

MISMATCH = "published_row_count_mismatch"
UNCOUNTED = "published_rows_not_counted"


def rows_in_target(context: LoadContext) -> int | None:
    """0 without a target; None where the sink does not count or counting means reading the whole target."""
    publications = context.sessions.sink.publications
    return None if publications is None else publications.row_count(context.plan.target.table)


def refuse_wrong_growth(context: LoadContext, finalized: FinalizeResult, staged_rows: int, before: int | None) -> None:
    """After the commit. Raises ConnectorError; the position then says post_commit and holds the counts found."""
    if before is None:
        context.step_log.warnings.append(UNCOUNTED)
        return
    commit_state = context.commit_state
    try:
        total = rows_in_target(context)
    except DponeError as error:
        raise ConnectorError("the target is published and its rows could not be counted", code=UNCOUNTED) from error
    grown = None if total is None else total - before
    match context.plan.target.strategy:
        case StrategyMode.FULL_REFRESH:
            found, expected = total, staged_rows
        case StrategyMode.INCREMENTAL_APPEND:
            found, expected = grown, staged_rows
        case StrategyMode.INCREMENTAL_MERGE:
            found, expected = grown, staged_rows - finalized.updated_rows
        case StrategyMode.PARTITION_REPLACE:
            return
    if found != expected:
        commit_state.counted(inserted_rows=found, final_rows=total)
        raise ConnectorError(
            f"the target was to gain {expected} rows of this load and gained {found}",
            code=MISMATCH,
            fix="compare the target with the source; rows of another writer also show here",
        )
