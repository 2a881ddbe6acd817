"""Checks that the target still holds what this run published, before a run without active partitions succeeds.

The load marker of the sink answers where there is one. Where it cannot say, no other run of the route may have
published since: otherwise the target holds that run's rows, or both, and the gates would say nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.native.model import Transfer
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.native_transfer.guard import WITNESS_FIELD

_ABSENT: Final = "the target does not hold the rows of this run"
_REPLACED: Final = "another load has published into the target since then"


class TargetReplacedError(ETLExecutionError):
    """This run has published, but the target does not hold its rows any more. This attempt mutated nothing."""

    code = "native_transfer_target_replaced"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the checkpoints say that this run has published every partition, but {reason}",
            fix="load under another run id, or leave the target as it is: this run has nothing left to publish",
        )


def refuse_replaced_target(context: LoadContext, transfer: Transfer) -> None:
    """Raises TargetReplacedError when the target does not hold this run's rows, and marks the load as in doubt.

    Repeating the run never helps; an operator decides.
    """
    records = [record for record in transfer.ledger.latest.values() if record.status is CheckpointStatus.COMMITTED]
    reason = _ask_sink(context, records)
    if reason is None and _has_later_commit(transfer, records):
        reason = _REPLACED
    if reason:
        context.commit_state.load_in_doubt = True
        raise TargetReplacedError(reason)


def _ask_sink(context: LoadContext, records: Iterable[PartitionCheckpoint]) -> str | None:
    """Why the target does not hold this run's rows: a reason, "" when it holds them, None when the sink cannot say."""
    publications, legacy = context.sessions.sink.publications, context.sessions.sink.legacy
    read = [_read_publication(record) for record in records if record.rows_exported]
    published = {publication for publication in read if publication is not None}
    refs = {publication: _ref_of(context, publication) for publication in published}
    if legacy is not None:
        return None if all(legacy.has_rows(ref) for ref in refs.values()) else _ABSENT
    if publications is None or not published:
        return None
    answers = [publications.contains(ref, publication.mark) for publication, ref in refs.items()]
    if True in answers and False not in answers:
        return ""
    match context.plan.target.strategy:
        case StrategyMode.FULL_REFRESH:
            return _REPLACED if None in answers else _ABSENT
        case StrategyMode.INCREMENTAL_APPEND:  # what others append leaves these rows where they are
            return _ABSENT if False in answers else None
    foreign = publications.last_marker(context.plan.target.table) not in {one.mark for one in published}
    return _REPLACED if foreign else None  # an engine may replace a partition without leaving a mark


def _has_later_commit(transfer: Transfer, records: Iterable[PartitionCheckpoint]) -> bool:
    ledger = transfer.ledger
    ended = max((record.completed_at or record.started_at for record in records), default=ledger.run.updated_at)
    return any(
        record.status is CheckpointStatus.COMMITTED and (record.completed_at or record.started_at) > ended
        for run in ledger.store.runs(ledger.run.route)
        if run.run_id != ledger.run.run_id
        for record in ledger.store.latest(run.route, run.run_id)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Publication:
    """The names by which the sink knows one publication. `mark` is the load marker the target had before it."""

    load_id: str
    attempt: int
    mark: str | None


def _read_publication(record: PartitionCheckpoint) -> _Publication | None:
    """The publication that a checkpoint names; None when it names none."""
    stored = record.diagnostics.get(WITNESS_FIELD)
    fields: Mapping[str, object] = stored if isinstance(stored, Mapping) else {}
    load_id, attempt, mark = fields.get("load_id"), fields.get("attempt"), fields.get("mark")
    if not isinstance(load_id, str) or type(attempt) is not int:
        return None
    return _Publication(load_id=load_id, attempt=attempt, mark=mark if isinstance(mark, str) else None)


def _ref_of(context: LoadContext, publication: _Publication) -> LoadRef:
    run_id, load_id = RunId(context.identity.run_id), LoadId(publication.load_id)
    return context.plan.target.ref(LoadIdentity(run_id=run_id, load_id=load_id, attempt=publication.attempt))
