"""Writes the checkpoints of one attempt, in the only order they may change, and the guard around a target commit.

COMMITTED is terminal for whatever fails later: it never becomes FAILED here (S0 invariant 9). A full refresh that
reads a committed partition again replaces its checkpoint by the newly staged one.

Every record takes the place of the one this attempt knows, and of no other: who was slower than the process that took
over from it is refused, and what that one wrote stands.
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
    guard_of,
)
from dpone_core.ports.runtime import Clock

TRANSPORT: Final = "arrow_pump"
CONVERTED_FIELD: Final = "converted_values"


class CheckpointTerminalError(ETLExecutionError):
    """A committed partition would be taken back by a later failure; nothing was written."""

    code = "partition_checkpoint_terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredPartition:
    """Rows of one partition in the sink: staged, or written by a legacy load. `load_id` wrote them, at `staged_at`."""

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
    """Owned by one attempt, used by one thread. `earlier` are records of a plan that this one takes the place of."""

    store: CheckpointStore
    run: TransferRun
    clock: Clock
    latest: dict[str, PartitionCheckpoint] = field(default_factory=dict)
    earlier: dict[str, PartitionCheckpoint] = field(default_factory=dict)
    _unanswered: dict[str, PartitionCheckpoint] = field(default_factory=dict)

    def planned(self, partitions: Sequence[TransferPartition]) -> None:
        """Partitions without a checkpoint of their own; every other one keeps what it says."""
        missing = [partition for partition in partitions if partition.id not in self.latest]
        now = self.clock.utc_now()
        self.append([_record(partition, CheckpointStatus.PLANNED, now, None, {}) for partition in missing])

    def require_current(self, partitions: Sequence[TransferPartition]) -> None:
        """Raises CheckpointSupersededError when another process has written one of these since, or the run."""
        self._require_own_run()
        stored = {record.partition_id: record for record in self.store.latest(self.run.route, self.run.run_id)}
        for partition in partitions:
            found, known = stored.get(partition.id), self.latest.get(partition.id)
            if found is None or known is None or not is_same_checkpoint(found, known):
                index = partition.bounds.partition_index
                raise CheckpointSupersededError(f"another process has written the checkpoint of partition {index}")

    def is_published_by_other(self, partition: TransferPartition) -> bool:
        """Whether the store says that a publication has it, or had it in hand: then nobody stages it."""
        return any(
            record.partition_id == partition.id
            and record.status in (CheckpointStatus.EXPORTED, CheckpointStatus.COMMITTED)
            for record in self.store.latest(self.run.route, self.run.run_id)
        )

    def loaded(self, done: TransferredPartition) -> None:
        self._require_own_run()
        self.append([self.transferred(done, CheckpointStatus.LOADED, {})])

    def failed(self, partition: TransferPartition, code: str) -> None:
        """A partition that was not transferred. One that is committed stays so: its earlier rows are in the target."""
        current = self.latest.get(partition.id)
        if current is not None and current.status is CheckpointStatus.COMMITTED:
            return
        self._require_own_run()
        now = self.clock.utc_now()
        self.append([_record(partition, CheckpointStatus.FAILED, now, now, {"error": code})])

    def append(self, records: Sequence[PartitionCheckpoint]) -> None:
        """Raises CheckpointTerminalError, nothing written, when a committed partition would fail, and
        CheckpointSupersededError at the first record whose partition another process has written."""
        for record in records:
            before = self.latest.get(record.partition_id)
            if (
                before is not None
                and before.status is CheckpointStatus.COMMITTED
                and record.status is CheckpointStatus.FAILED
            ):
                raise CheckpointTerminalError("a committed partition cannot fail any more")
        if records:
            self._write({record.partition_id: record for record in records})

    def _write(self, records: Mapping[str, PartitionCheckpoint]) -> None:
        """Those whose answer was lost may be stored or not: their next records take the place of either."""
        before = {key: self._known(key) for key in records}
        try:
            self.store.append(self.run.route, self.run.run_id, list(records.values()), before)
        except CheckpointSupersededError:
            self._take_in(records)
            raise
        except BaseException:
            self._unanswered.update(records)
            raise
        for key in records:
            self._unanswered.pop(key, None)
        self.latest.update(records)

    def _known(self, key: str) -> list[PartitionCheckpoint]:
        known = (self.latest.get(key) or self.earlier.get(key), self._unanswered.get(key))
        return [record for record in known if record is not None]

    def _take_in(self, records: Mapping[str, PartitionCheckpoint]) -> None:
        """Those that were written before another one was refused."""
        for stored in self.store.latest(self.run.route, self.run.run_id):
            sent = records.get(stored.partition_id)
            if sent is not None and is_same_checkpoint(stored, sent):
                self.latest[stored.partition_id] = sent

    def is_handed_over(self, partition: TransferPartition) -> bool:
        """Whether its checkpoint says, or may say, that the target was touched for it."""
        current = self.latest.get(partition.id)
        handed = current is not None and current.status in (CheckpointStatus.EXPORTED, CheckpointStatus.COMMITTED)
        return handed or partition.id in self._unanswered

    def _require_own_run(self) -> None:
        if self.store.run(self.run.route, self.run.run_id) != self.run:
            raise CheckpointSupersededError("this run has ended or was planned anew since its plan was read")

    def committed_rows(self) -> dict[str, object]:
        """Rows by partition id, of COMMITTED checkpoints only, as they are stored."""
        return {
            record.partition_id: record.rows_exported
            for record in self.latest.values()
            if record.status is CheckpointStatus.COMMITTED
        }

    def transferred(
        self, done: TransferredPartition, status: CheckpointStatus, extra: Mapping[str, object]
    ) -> PartitionCheckpoint:
        now = max(self.clock.utc_now(), done.started_at)
        record = _record(done.partition, status, done.started_at, now, {**done.diagnostics(), **extra})
        return replace(record, rows_exported=done.rows_exported, bytes_exported=done.bytes_exported)

    def guarded(self, batch: Sequence[TransferredPartition], witness: Mapping[str, object]) -> GuardedCommit:
        return GuardedCommit(ledger=self, batch=tuple(batch), witness=dict(witness))


@dataclass(slots=True, kw_only=True)
class GuardedCommit:
    """One batch on its way into the target. `witness` is what the sink's own load marker is compared with later."""

    ledger: TransferLedger
    batch: tuple[TransferredPartition, ...]
    witness: Mapping[str, object]

    def arm(self) -> None:
        """Durable before the target is touched. Raises CheckpointSupersededError when a range was staged anew since."""
        self.ledger.require_current([done.partition for done in self.batch])
        self._move(GuardPhase.ARMED, {})

    def refused(self, code: str) -> None:
        """The sink said that nothing was published. A range that was never handed over keeps what it says."""
        self._move(GuardPhase.FAILED_BEFORE_TARGET, {"error": code}, only_handed_over=True)

    def unknown(self, code: str) -> None:
        """Nobody knows what the target holds."""
        self._move(GuardPhase.TARGET_OUTCOME_UNKNOWN, {"error": code})

    def commit(self) -> None:
        """The target holds the batch. Raises GuardNotArmedError when the guard was never armed."""
        for done in self.batch:
            record = self.ledger.latest.get(done.partition.id)
            guard = None if record is None else guard_of(record)
            if guard is None or guard.phase is not GuardPhase.ARMED or guard.checkpoint_batch_id != self._batch_id():
                raise GuardNotArmedError("a batch is committed only behind its armed guard")
        self._move(GuardPhase.CHECKPOINT_COMMITTED, {})

    def incomplete(self, code: str) -> None:
        """The target holds the batch and its committed checkpoints could not be written."""
        self._move(GuardPhase.CHECKPOINT_INCOMPLETE, {"error": code})

    def _move(self, phase: GuardPhase, extra: Mapping[str, object], *, only_handed_over: bool = False) -> None:
        guard = TargetCommitGuard(
            checkpoint_batch_id=self._batch_id(), phase=phase, strategy=self.ledger.run.route.strategy
        )
        details = {**extra, GUARD_FIELD: guard.as_json(), WITNESS_FIELD: dict(self.witness)}
        moved = [done for done in self.batch if not only_handed_over or self.ledger.is_handed_over(done.partition)]
        self.ledger.append([self.ledger.transferred(done, phase.status, details) for done in moved])

    def _batch_id(self) -> str:
        return batch_id(self.ledger.run.run_id, (done.partition.id for done in self.batch))


def _record(
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
