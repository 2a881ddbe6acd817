"""Whether a run whose ranges are all committed is still what the target shows, asked before such a run says success.

The sink's own load marker answers where there is one. Where it cannot say, no other run of the route may have
published since: gates would judge the rows of that one, or of both.
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

_ABSENT: Final = "the target does not hold what this run has published"
_REPLACED: Final = "another load has published into the target since this run did"


class TargetReplacedError(ETLExecutionError):
    """This run has published, and the target does not show its load any more; nothing was mutated now."""

    code = "native_transfer_target_replaced"

    def __init__(self, found: str) -> None:
        super().__init__(
            f"every range of this run is committed, and {found}",
            fix="load under another run id, or leave the target as it is: this run has nothing left to publish",
        )


def refuse_replaced_target(context: LoadContext, transfer: Transfer) -> None:
    """Raises TargetReplacedError. An operator decides: repeating this run never helps."""
    records = [record for record in transfer.ledger.latest.values() if record.status is CheckpointStatus.COMMITTED]
    said = _said_by_sink(context, records)
    if said is None and _others_committed_later(transfer, records):
        said = _REPLACED
    if said:
        context.commit_state.unsettled_load = True
        raise TargetReplacedError(said)


def _said_by_sink(context: LoadContext, records: Iterable[PartitionCheckpoint]) -> str | None:
    """What stands against this run; "" for nothing, None where the sink cannot say."""
    publications, legacy = context.sessions.sink.publications, context.sessions.sink.legacy
    witnesses = {found for record in records if record.rows_exported and (found := _witness_of(record)) is not None}
    refs = {found: _ref_of(context, found) for found in witnesses}
    if legacy is not None:
        return None if all(legacy.has_rows(ref) for ref in refs.values()) else _ABSENT
    if publications is None or not witnesses:
        return None
    held = [publications.contains(ref, found.mark) for found, ref in refs.items()]
    if True in held and False not in held:
        return ""
    match context.plan.target.strategy:
        case StrategyMode.FULL_REFRESH:
            return _REPLACED if None in held else _ABSENT
        case StrategyMode.INCREMENTAL_APPEND:  # what others append leaves these rows where they are
            return _ABSENT if False in held else None
    foreign = publications.last_marker(context.plan.target.table) not in {found.mark for found in witnesses}
    return _REPLACED if foreign else None  # an engine may replace a partition without leaving a mark


def _others_committed_later(transfer: Transfer, records: Iterable[PartitionCheckpoint]) -> bool:
    ledger = transfer.ledger
    ended = max((record.completed_at or record.started_at for record in records), default=ledger.run.updated_at)
    return any(
        record.status is CheckpointStatus.COMMITTED and (record.completed_at or record.started_at) > ended
        for run in ledger.store.runs(ledger.run.route)
        if run.run_id != ledger.run.run_id
        for record in ledger.store.latest(run.route, run.run_id)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Witness:
    """By what the sink knows one publication; `mark` stood in the target before it."""

    load_id: str
    attempt: int
    mark: str | None


def _witness_of(record: PartitionCheckpoint) -> _Witness | None:
    """None where the checkpoint does not say."""
    stored = record.diagnostics.get(WITNESS_FIELD)
    said: Mapping[str, object] = stored if isinstance(stored, Mapping) else {}
    load_id, attempt, mark = said.get("load_id"), said.get("attempt"), said.get("mark")
    if not isinstance(load_id, str) or type(attempt) is not int:
        return None
    return _Witness(load_id=load_id, attempt=attempt, mark=mark if isinstance(mark, str) else None)


def _ref_of(context: LoadContext, found: _Witness) -> LoadRef:
    run_id, load_id = RunId(context.identity.run_id), LoadId(found.load_id)
    return context.plan.target.ref(LoadIdentity(run_id=run_id, load_id=load_id, attempt=found.attempt))
