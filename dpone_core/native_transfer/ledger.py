"""Writes the checkpoints of one attempt in their allowed order, and the guard around each target commit.

A committed partition never becomes failed, whatever fails later (NAT-10). Only a full refresh that reads it
again replaces its checkpoint, by that of the newly staged rows.

Every record replaces the one this attempt has read, and no other. When another process has taken over meanwhile, the
write of this one is refused and the other's record stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint, TransferPartition, TransferRun
from dpone_core.model.special_values import ConvertedValues, counts_by_name
from dpone_core.native_transfer.checkpoints import (
    ROW_COUNT_AUTHORITY,
    CheckpointStore,
    CheckpointSupersededError,
    is_same_checkpoint,
)
from dpone_core.native_transfer.decision import ARTIFACT_FIELD
from dpone_core.native_transfer.guard import (
    GUARD_FIELD,
    WITNESS_FIELD,
    GuardNotArmedError,
    GuardPhase,
    TargetCommitGuard,
    batch_id,
    read_guard,
)
from dpone_core.ports.runtime import Clock

TRANSPORT: Final = "arrow_pump"
CONVERTED_FIELD: Final = "converted_values"


class CheckpointTerminalError(ETLExecutionError):
    """A later failure tried to mark a committed partition as failed. Nothing was written."""

    code = "partition_checkpoint_terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredPartition:
    """One partition whose rows are in the sink, staged or written by a legacy load.

    Load `load_id` wrote them at `staged_at`. `reused`: an earlier attempt staged them and this one did not read them.
    """

    partition: TransferPartition
    rows_exported: int
    bytes_exported: int | None
    rows_loaded: int
    artifact_sha256: str
    load_id: str
    started_at: datetime
    staged_at: datetime
    reused: bool = False
    converted_values: tuple[ConvertedValues, ...] = ()

    def diagnostics(self) -> dict[str, object]:
        """The diagnostics of its checkpoint: counters, checksum, load id and time."""
        return {
            ARTIFACT_FIELD: self.artifact_sha256,
            "rows_loaded": self.rows_loaded,
            "row_count_authority": ROW_COUNT_AUTHORITY,
            "transport": TRANSPORT,
            "bytes": self.bytes_exported,
            "load_id": self.load_id,
            "staged_at": self.staged_at.isoformat(),
            **({CONVERTED_FIELD: counts_by_name(self.converted_values)} if self.converted_values else {}),
        }


@dataclass(slots=True, kw_only=True)
class TransferLedger:
    """The checkpoints of one run, for one attempt and one thread.

    `latest` are the records this attempt knows to be stored, by partition id; `earlier` those of a replaced plan.
    """

    store: CheckpointStore
    run: TransferRun
    clock: Clock
    latest: dict[str, PartitionCheckpoint] = field(default_factory=dict)
    earlier: dict[str, PartitionCheckpoint] = field(default_factory=dict)
    _unconfirmed: dict[str, PartitionCheckpoint] = field(default_factory=dict)

    def record_planned(self, partitions: Sequence[TransferPartition]) -> None:
        """Writes a PLANNED checkpoint for every partition that has none yet."""
        missing = [partition for partition in partitions if partition.id not in self.latest]
        now = self.clock.utc_now()
        self.append([_make_record(partition, CheckpointStatus.PLANNED, now, None, {}) for partition in missing])

    def require_current(self, partitions: Sequence[TransferPartition]) -> None:
        """Raises CheckpointSupersededError when another process has changed one of these checkpoints, or the run."""
        self._require_own_run()
        stored = {record.partition_id: record for record in self.store.latest(self.run.route, self.run.run_id)}
        for partition in partitions:
            found, known = stored.get(partition.id), self.latest.get(partition.id)
            if found is None or known is None or not is_same_checkpoint(found, known):
                index = partition.bounds.partition_index
                raise CheckpointSupersededError(
                    f"another process has changed the checkpoint of partition {index} since this process read it"
                )

    def is_published_by_other(self, partition: TransferPartition) -> bool:
        """Whether the stored checkpoint says that another process has published the partition, or is about to."""
        return any(
            record.partition_id == partition.id
            and record.status in (CheckpointStatus.EXPORTED, CheckpointStatus.COMMITTED)
            for record in self.store.latest(self.run.route, self.run.run_id)
        )

    def record_loaded(self, done: TransferredPartition) -> None:
        """Writes the LOADED checkpoint of a staged partition. Raises CheckpointSupersededError."""
        self._require_own_run()
        self.append([self.build_record(done, CheckpointStatus.LOADED, {})])

    def record_failed(self, partition: TransferPartition, code: str) -> None:
        """Writes the FAILED checkpoint of a partition with the code of its failure. Raises CheckpointSupersededError.

        A committed partition stays committed, because its earlier rows are in the target.
        """
        current = self.latest.get(partition.id)
        if current is not None and current.status is CheckpointStatus.COMMITTED:
            return
        self._require_own_run()
        now = self.clock.utc_now()
        self.append([_make_record(partition, CheckpointStatus.FAILED, now, now, {"error": code})])

    def append(self, records: Sequence[PartitionCheckpoint]) -> None:
        """Writes records and remembers them as the latest.

        Raises CheckpointTerminalError, and writes nothing, when a committed partition would become failed; and
        CheckpointSupersededError at the first record whose stored predecessor another process has replaced.
        """
        for record in records:
            before = self.latest.get(record.partition_id)
            if (
                before is not None
                and before.status is CheckpointStatus.COMMITTED
                and record.status is CheckpointStatus.FAILED
            ):
                raise CheckpointTerminalError("a partition that is committed in the target cannot be marked as failed")
        if records:
            self._write({record.partition_id: record for record in records})

    def _write(self, records: Mapping[str, PartitionCheckpoint]) -> None:
        """Writes the records.

        After an error it is unknown whether they are stored: the next write accepts either state.
        """
        before = {key: self._expected_records(key) for key in records}
        try:
            self.store.append(self.run.route, self.run.run_id, list(records.values()), before)
        except CheckpointSupersededError:
            self._adopt_written(records)
            raise
        except BaseException:
            self._unconfirmed.update(records)
            raise
        for key in records:
            self._unconfirmed.pop(key, None)
        self.latest.update(records)

    def _expected_records(self, key: str) -> list[PartitionCheckpoint]:
        known = (self.latest.get(key) or self.earlier.get(key), self._unconfirmed.get(key))
        return [record for record in known if record is not None]

    def _adopt_written(self, records: Mapping[str, PartitionCheckpoint]) -> None:
        """Remembers those of `records` that were stored before another one was refused."""
        for stored in self.store.latest(self.run.route, self.run.run_id):
            sent = records.get(stored.partition_id)
            if sent is not None and is_same_checkpoint(stored, sent):
                self.latest[stored.partition_id] = sent

    def is_handed_over(self, partition: TransferPartition) -> bool:
        """Whether the stored checkpoint says, or may say, that the partition was handed to the target."""
        current = self.latest.get(partition.id)
        handed = current is not None and current.status in (CheckpointStatus.EXPORTED, CheckpointStatus.COMMITTED)
        return handed or partition.id in self._unconfirmed

    def _require_own_run(self) -> None:
        if self.store.run(self.run.route, self.run.run_id) != self.run:
            raise CheckpointSupersededError(
                "this run was completed, released or planned anew since this process read its plan"
            )

    def committed_rows(self) -> dict[str, object]:
        """Rows of committed partitions by partition id, as stored; a value may be malformed."""
        return {
            record.partition_id: record.rows_exported
            for record in self.latest.values()
            if record.status is CheckpointStatus.COMMITTED
        }

    def build_record(
        self, done: TransferredPartition, status: CheckpointStatus, extra: Mapping[str, object]
    ) -> PartitionCheckpoint:
        """The checkpoint of a transferred partition, with `extra` diagnostics. Writes nothing."""
        now = max(self.clock.utc_now(), done.started_at)
        record = _make_record(done.partition, status, done.started_at, now, {**done.diagnostics(), **extra})
        return replace(record, rows_exported=done.rows_exported, bytes_exported=done.bytes_exported)

    def guard_commit(self, batch: Sequence[TransferredPartition], witness: Mapping[str, object]) -> GuardedCommit:
        """The guard for publishing `batch`, not armed yet. `witness` names the publication for the sink's load
        marker.
        """
        return GuardedCommit(ledger=self, batch=tuple(batch), witness=dict(witness))


@dataclass(slots=True, kw_only=True)
class GuardedCommit:
    """The guard of one batch: call `arm` before its publication, `commit` after it, a `mark_` method after a failure.

    `witness` names the publication, so that the load marker of the sink can be compared with it later.
    """

    ledger: TransferLedger
    batch: tuple[TransferredPartition, ...]
    witness: Mapping[str, object]

    def arm(self) -> None:
        """Stores the armed guard. Call it before the target is touched.

        Raises CheckpointSupersededError when another process has changed a checkpoint of the batch.
        """
        self.ledger.require_current([done.partition for done in self.batch])
        self._move(GuardPhase.ARMED, {})

    def mark_refused(self, code: str) -> None:
        """The sink said that nothing was published.

        Partitions whose armed guard was never stored keep their checkpoint.
        """
        self._move(GuardPhase.FAILED_BEFORE_TARGET, {"error": code}, only_handed_over=True)

    def mark_unknown(self, code: str) -> None:
        """It is unknown whether the target holds the batch; an operator has to reconcile it."""
        self._move(GuardPhase.TARGET_OUTCOME_UNKNOWN, {"error": code})

    def commit(self) -> None:
        """The target holds the batch: commits its checkpoints. Raises GuardNotArmedError without the armed guard."""
        for done in self.batch:
            record = self.ledger.latest.get(done.partition.id)
            guard = None if record is None else read_guard(record)
            if guard is None or guard.phase is not GuardPhase.ARMED or guard.checkpoint_batch_id != self._batch_id():
                raise GuardNotArmedError(
                    "the checkpoints of a batch can be committed only behind its armed guard, which is not stored"
                )
        self._move(GuardPhase.CHECKPOINT_COMMITTED, {})

    def mark_incomplete(self, code: str) -> None:
        """The target holds the batch, but its committed checkpoints could not be written."""
        self._move(GuardPhase.CHECKPOINT_INCOMPLETE, {"error": code})

    def _move(self, phase: GuardPhase, extra: Mapping[str, object], *, only_handed_over: bool = False) -> None:
        guard = TargetCommitGuard(
            checkpoint_batch_id=self._batch_id(), phase=phase, strategy=self.ledger.run.route.strategy
        )
        details = {**extra, GUARD_FIELD: guard.as_json(), WITNESS_FIELD: dict(self.witness)}
        moved = [done for done in self.batch if not only_handed_over or self.ledger.is_handed_over(done.partition)]
        self.ledger.append([self.ledger.build_record(done, phase.status, details) for done in moved])

    def _batch_id(self) -> str:
        return batch_id(self.ledger.run.run_id, (done.partition.id for done in self.batch))


def _make_record(
    partition: TransferPartition,
    status: CheckpointStatus,
    started_at: datetime,
    completed_at: datetime | None,
    diagnostics: Mapping[str, object],
) -> PartitionCheckpoint:
    return PartitionCheckpoint(
        partition_id=partition.id,
        status=status,
        query_hash=partition.query_hash,
        schema_hash=partition.schema_hash,
        source_table=partition.route.source_table,
        target_table=partition.route.target_table,
        bounds=partition.bounds,
        started_at=started_at,
        completed_at=completed_at,
        diagnostics=diagnostics,
    )
