"""What one attempt of a native transfer works with: its plan, its checkpoints, and who stages which range.

The staging of a range is named by run and partition, not by attempt, so that the next attempt of the same run finds
it. Its rows carry the load id of the attempt that staged them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from dpone_core.evidence.audit import utc_text
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.step_log import code_of
from dpone_core.model import lineage
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.outcome import LoadResult
from dpone_core.model.partition import TransferPartition
from dpone_core.model.special_values import ConvertedValues, counted_in, total
from dpone_core.model.vocabulary import FinalizationPhase
from dpone_core.native_transfer.decision import ResumePlan
from dpone_core.native_transfer.ledger import CONVERTED_FIELD, TransferLedger, TransferredPartition
from dpone_core.ports.sink import FinalizeResult, LineageColumns, StagedHandle, StageRequest
from dpone_core.quality.scope import NativeTransferQualityScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """`snapshot` names the source snapshot all readers see; None = rows may change between two ranges.

    `resumed`: an earlier attempt of this run planned it.
    """

    extraction: Extraction
    ledger: TransferLedger
    resume: ResumePlan
    snapshot: str | None
    resumed: bool

    @property
    def scope(self) -> NativeTransferQualityScope:
        """P, A, S and R of this attempt."""
        return NativeTransferQualityScope.of(
            planned=(partition.id for partition in self.resume.planned),
            active=(partition.id for partition in self.resume.active),
            skipped=(partition.id for partition in self.resume.skipped),
            reactivated=(partition.id for partition in self.resume.reactivated),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRange:
    """One active partition in its staging dataset."""

    done: TransferredPartition
    handle: StagedHandle


def range_identity(run_id: str, partition_id: str) -> LoadIdentity:
    """Names the staging of one range in every attempt of the run."""
    return LoadIdentity(run_id=RunId(run_id), load_id=LoadId(partition_id), attempt=1)


def range_ref(context: LoadContext, partition_id: str) -> LoadRef:
    """Finds the staging of one range of this run, whichever attempt filled it."""
    return context.plan.target.ref(range_identity(context.identity.run_id, partition_id))


def range_request(base: StageRequest, partition: TransferPartition, load_id: str, staged_at: datetime) -> StageRequest:
    """`base` is the request of the whole load; lineage says which load staged this range, and when."""
    return replace(
        base,
        identity=range_identity(base.identity.run_id, partition.id),
        lineage=_lineage(base.lineage, load_id, staged_at),
    )


def _lineage(base: LineageColumns, load_id: str, staged_at: datetime) -> LineageColumns:
    moment = utc_text(staged_at)
    own: Mapping[str, str] = {
        lineage.LOAD_ID: load_id,
        lineage.LOADED_AT: moment,
        lineage.EXTRACTED_AT: moment,
    }
    return replace(base, constants={name: own.get(name, value) for name, value in base.constants.items()})


def staged_result(context: LoadContext, ranges: Iterable[StagedRange]) -> LoadResult:
    """Counters of the attempt: a range that was found staged was not read again; the values that were converted when
    it was are in its rows and counted with them."""
    staged = tuple(ranges)
    return LoadResult(
        extracted_rows=sum(each.done.rows_exported for each in staged if not each.done.reused),
        staged_rows=sum(each.handle.staged_rows for each in staged),
        attempts=context.identity.attempt,
        governance_finalization=FinalizationPhase.PRE_FINALIZE,
        converted_values=total(context.config.source.special_values, (each.done.converted_values for each in staged)),
    )


def converted_in_all(
    context: LoadContext, transfer: Transfer, active: Mapping[str, Sequence[ConvertedValues]]
) -> tuple[ConvertedValues, ...]:
    """Of the whole workload, as gates judge it: `active` by partition id, and what committed checkpoints say of the
    rest. None for a rule that a range does not count."""
    rules, kept, latest = context.config.source.special_values, set(transfer.scope.kept), transfer.ledger.latest
    parts = (
        counted_in(latest[partition.id].diagnostics.get(CONVERTED_FIELD), rules) or ()
        if partition.id in kept
        else active.get(partition.id, ())
        for partition in transfer.resume.planned
    )
    return total(rules, parts)


def published_result(before: LoadResult, finalized: Iterable[FinalizeResult]) -> LoadResult:
    """`before` with what the sink says of every publication of this attempt so far."""
    results = tuple(finalized)
    return replace(
        before,
        inserted_rows=sum(each.inserted_rows for each in results),
        updated_rows=sum(each.updated_rows for each in results),
        final_rows=results[-1].total_rows,
    )


def quietly(move: Callable[[str], None], error: BaseException) -> None:
    """The primary error is on its way; a guard that cannot be moved stays armed, which blocks all the same."""
    with suppress(Exception):
        move(code_of(error))


def range_batches(staged: tuple[StagedRange, ...]) -> list[tuple[tuple[StagedRange, ...], StagedHandle]]:
    """Each range with rows is published by itself; those without go with the first one, for they publish nothing."""
    filled = [each for each in staged if each.handle.staged_rows]
    first = filled[0] if filled else staged[0]
    empty = tuple(each for each in staged if not each.handle.staged_rows and each is not first)
    return [((*empty, first), first.handle), *(((each,), each.handle) for each in filled[1:])]
