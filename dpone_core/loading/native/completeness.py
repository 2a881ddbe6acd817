"""Checks that the partitions of a transfer hold as many rows as their source did when planned (NAT-05, NAT-23)."""

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
    """Raises ConnectorError `partition_coverage_incomplete` when partitions lost rows or read rows twice.

    Raises IncompleteRangesError when partitions lost rows or read rows twice. `active_rows` are the rows read by this
    attempt, by partition id; the others come from committed checkpoints.

    Without a snapshot that all partitions share, the source may have changed in between. If it holds another number of
    rows now, the difference is only the warning `source_changed_while_read`. If it still holds the planned number, rows
    moved from one partition to another while they were read, and the load fails.
    """
    kept = transfer.ledger.committed_rows()
    counts = [
        *active_rows.values(),
        *(count_or_none(kept.get(partition)) for partition in transfer.scope.kept),
    ]
    planned, rows = transfer.ledger.run.plan.rows, sum(count for count in counts if count is not None)
    if None in counts or rows == planned:
        return  # an unknown count fails the gates, which get the same counts
    common = transfer.snapshot is not None and not transfer.resumed
    if not common and _count_source_rows(context, transfer) != planned:
        context.step_log.warnings.append(SOURCE_CHANGED)
        return
    raise IncompleteRangesError(
        f"expected {planned} rows in the partitions of this transfer, as many as the source holds, but read {rows}",
        fix="load while nobody changes the source, or from a copy that does not change",
    )


def _count_source_rows(context: LoadContext, transfer: Transfer) -> int | None:
    source, extraction = context.sessions.source.ranges, transfer.extraction
    if source is None:
        return None
    column = transfer.ledger.run.plan.column
    return source.key_bounds(extraction.request, extraction.schema, column, transfer.snapshot).rows
