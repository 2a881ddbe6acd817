"""The ranges of a workload must hold as many rows as the source held when they were planned (cases C33, E09)."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.errors import ConnectorError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.native.model import Transfer
from dpone_core.model.outcome import count_or_none

SOURCE_CHANGED = "source_changed_while_read"


class IncompleteRangesError(ConnectorError):
    """The ranges of a workload hold another number of rows than the source; nothing was published of them."""

    code = "partition_coverage_incomplete"


def refuse_lost_rows(context: LoadContext, transfer: Transfer, active_rows: Mapping[str, int]) -> None:
    """`active_rows` are those of this attempt's partitions, by id.

    Raises IncompleteRangesError when rows are missing or read twice.

    Without a common snapshot the source may have changed: if its number of rows is another one now, that is said as a
    warning; if it is still the planned one, rows moved between ranges while they were read, which is a loss.
    """
    kept = transfer.ledger.committed_rows()
    counts = [
        *active_rows.values(),
        *(count_or_none(kept.get(partition)) for partition in transfer.scope.kept),
    ]
    planned, rows = transfer.ledger.run.plan.rows, sum(count for count in counts if count is not None)
    if None in counts or rows == planned:
        return  # rows that are not known fail the gates, which see the same counts
    common = transfer.snapshot is not None and not transfer.resumed
    if not common and _rows_now(context, transfer) != planned:
        context.step_log.warnings.append(SOURCE_CHANGED)
        return
    raise IncompleteRangesError(
        f"the source holds {planned} rows and its ranges held {rows}",
        fix="load while nobody changes the source, or from a copy that stands still",
    )


def _rows_now(context: LoadContext, transfer: Transfer) -> int | None:
    source, extraction = context.sessions.source.ranges, transfer.extraction
    if source is None:
        return None
    column = transfer.ledger.run.plan.column
    return source.key_bounds(extraction.request, extraction.schema, column, transfer.snapshot).rows
