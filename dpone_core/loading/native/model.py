"""The values one attempt of a native transfer works with: its plan, its checkpoints, and its staged partitions.

The staging of a partition is named by run and partition, not by attempt, so that the next attempt of the run finds it.
Its rows carry the load id of the attempt that staged them.
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
from dpone_core.model.artifacts import STAGING, LoadRef, artifact_name
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import TableName
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.outcome import LoadResult
from dpone_core.model.partition import TransferPartition
from dpone_core.model.special_values import ConvertedValues, read_counts, sum_counts
from dpone_core.model.vocabulary import FinalizationPhase
from dpone_core.native_transfer.decision import ResumePlan
from dpone_core.native_transfer.ledger import CONVERTED_FIELD, TransferLedger, TransferredPartition
from dpone_core.ports.sink import FinalizeResult, LineageColumns, StagedHandle, StageRequest
from dpone_core.quality.scope import NativeTransferQualityScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One attempt's view of a planned transfer.

    `snapshot` names the source snapshot that all readers share; None when rows may change between two partitions.
    `resumed`: an earlier attempt of this run, or another process, made the plan.
    """

    extraction: Extraction
    ledger: TransferLedger
    resume: ResumePlan
    snapshot: str | None
    resumed: bool

    @property
    def scope(self) -> NativeTransferQualityScope:
        """The partitions of this attempt as gates see them: planned, active, skipped and reactivated."""
        return NativeTransferQualityScope.of(
            planned=(partition.id for partition in self.resume.planned),
            active=(partition.id for partition in self.resume.active),
            skipped=(partition.id for partition in self.resume.skipped),
            reactivated=(partition.id for partition in self.resume.reactivated),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPartition:
    """One active partition and the handle of its staging dataset."""

    done: TransferredPartition
    handle: StagedHandle


def partition_identity(run_id: str, partition_id: str) -> LoadIdentity:
    """The identity that names the staging of a partition, the same in every attempt of the run."""
    return LoadIdentity(run_id=RunId(run_id), load_id=LoadId(partition_id), attempt=1)


def partition_ref(context: LoadContext, partition_id: str) -> LoadRef:
    """Names the staging of a partition of this run, whichever attempt filled it."""
    return context.plan.target.ref(partition_identity(context.identity.run_id, partition_id))


def staging_names(plan: LoadPlan, run_id: str, partition_ids: Iterable[str]) -> frozenset[str]:
    """Names of the staging tables of these partitions, whether they exist or not."""
    target = plan.target
    table = TableName(schema=target.table.schema or target.default_schema, name=target.table.name)
    return frozenset(artifact_name(table, partition_identity(run_id, each), STAGING) for each in partition_ids)


def partition_request(
    base: StageRequest, partition: TransferPartition, load_id: str, staged_at: datetime
) -> StageRequest:
    """The stage request of one partition: `base`, that of the whole load, with the lineage of its own staging."""
    return replace(
        base,
        identity=partition_identity(base.identity.run_id, partition.id),
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


def summarise_staging(context: LoadContext, partitions: Iterable[StagedPartition]) -> LoadResult:
    """The counters of an attempt from its staged partitions.

    A reused partition was not extracted again, so it adds no `extracted_rows`; its converted values are counted,
    because they are in its rows.
    """
    staged = tuple(partitions)
    return LoadResult(
        extracted_rows=sum(each.done.rows_exported for each in staged if not each.done.reused),
        staged_rows=sum(each.handle.staged_rows for each in staged),
        attempts=context.identity.attempt,
        governance_finalization=FinalizationPhase.PRE_FINALIZE,
        converted_values=sum_counts(
            context.config.source.special_values, (each.done.converted_values for each in staged)
        ),
    )


def total_converted_values(
    context: LoadContext, transfer: Transfer, active: Mapping[str, Sequence[ConvertedValues]]
) -> tuple[ConvertedValues, ...]:
    """Converted values of the whole workload, per rule: `active`, by partition id, plus those of committed checkpoints.

    The count of a rule is None when the checkpoint of a partition does not state it.
    """
    rules, kept, latest = context.config.source.special_values, set(transfer.scope.kept), transfer.ledger.latest
    parts = (
        read_counts(latest[partition.id].diagnostics.get(CONVERTED_FIELD), rules) or ()
        if partition.id in kept
        else active.get(partition.id, ())
        for partition in transfer.resume.planned
    )
    return sum_counts(rules, parts)


def add_publications(before: LoadResult, finalized: Iterable[FinalizeResult]) -> LoadResult:
    """`before` with the row counters of all publications of this attempt so far; `finalized` is not empty."""
    results = tuple(finalized)
    return replace(
        before,
        inserted_rows=sum(each.inserted_rows for each in results),
        updated_rows=sum(each.updated_rows for each in results),
        final_rows=results[-1].total_rows,
    )


def move_quietly(move: Callable[[str], None], error: BaseException) -> None:
    """Moves a guard with the code of `error`. Best effort: a guard that stays armed blocks later runs all the same."""
    with suppress(Exception):
        move(code_of(error))


def split_into_batches(staged: tuple[StagedPartition, ...]) -> list[tuple[tuple[StagedPartition, ...], StagedHandle]]:
    """The batches to publish, each with its handle: one per partition with rows.

    Empty partitions join the first batch.
    """
    filled = [each for each in staged if each.handle.staged_rows]
    first = filled[0] if filled else staged[0]
    empty = tuple(each for each in staged if not each.handle.staged_rows and each is not first)
    return [((*empty, first), first.handle), *(((each,), each.handle) for each in filled[1:])]
