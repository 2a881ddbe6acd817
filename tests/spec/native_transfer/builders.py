"""Partitions, checkpoints and stores of one small transfer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from dpone_core.model.partition import (
    CheckpointStatus,
    KeyRange,
    PartitionCheckpoint,
    TransferPartition,
    TransferPlan,
    TransferRoute,
    TransferRun,
    TransferRunState,
)
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.native_transfer.checkpoint_file import CheckpointFiles
from dpone_core.native_transfer.checkpoint_table import CheckpointTables
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.native_transfer.decision import artifact_checksum
from dpone_core.native_transfer.ledger import TransferLedger, TransferredPartition
from dpone_core.testing.fakes import FixedClock, MemoryControlTables, MemoryWarehouse

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUERY = "sha256:" + "1" * 64
SCHEMA = "sha256:" + "2" * 64
ROUTE = TransferRoute(source_table="main.orders", target_table="raw.orders", strategy=StrategyMode.FULL_REFRESH)
APPEND = TransferRoute(source_table="main.orders", target_table="raw.orders", strategy=StrategyMode.INCREMENTAL_APPEND)
RANGES = (
    KeyRange(partition_index=0, is_null_partition=True),
    KeyRange(partition_index=1, lower="ä", upper="m"),
    KeyRange(partition_index=2, lower="m", upper="ж", include_upper=True),
)
OpenStore = Callable[[], CheckpointStore]


def plan(*, query_hash: str = QUERY, schema_hash: str = SCHEMA) -> TransferPlan:
    return TransferPlan(column="name", ranges=RANGES, query_hash=query_hash, schema_hash=schema_hash, rows=6)


def run(route: TransferRoute = ROUTE, run_id: str = "r1") -> TransferRun:
    return TransferRun(
        run_id=run_id, route=route, state=TransferRunState.OPEN, plan=plan(), load_id="load-1", updated_at=NOW
    )


def partitions(
    route: TransferRoute = ROUTE, *, query_hash: str = QUERY, schema_hash: str = SCHEMA
) -> tuple[TransferPartition, ...]:
    return plan().partitions(route, query_hash, schema_hash)


def transferred(partition: TransferPartition, rows: int = 2) -> TransferredPartition:
    return TransferredPartition(
        partition=partition,
        rows_exported=rows,
        bytes_exported=rows * 8,
        rows_loaded=rows,
        artifact_sha256=artifact_checksum("raw.stg", rows, partition.query_hash, partition.schema_hash),
        load_id="load-1",
        started_at=NOW,
        staged_at=NOW,
    )


def ledger(store: CheckpointStore, route: TransferRoute = ROUTE) -> TransferLedger:
    made = TransferLedger(store=store, run=run(route), clock=FixedClock())
    store.save_run(made.run, None)
    made.record_planned(partitions(route))
    return made


def checkpoint(
    partition: TransferPartition, status: CheckpointStatus = CheckpointStatus.COMMITTED, **changes: object
) -> PartitionCheckpoint:
    done = transferred(partition)
    values: dict[str, object] = {
        "partition_id": partition.id,
        "status": status,
        "query_hash": partition.query_hash,
        "schema_hash": partition.schema_hash,
        "source_table": partition.route.source_table,
        "target_table": partition.route.target_table,
        "bounds": partition.bounds,
        "started_at": NOW,
        "rows_exported": 2,
        "diagnostics": done.diagnostics(),
    }
    return PartitionCheckpoint(**{**values, **changes})  # type: ignore[arg-type]


def file_store(root: Path) -> OpenStore:
    return lambda: CheckpointFiles(root=root)


def table_store(root: Path) -> OpenStore:
    """A new store object over the same tables, as another process would make it; its clock stands still in the past."""
    warehouse = MemoryWarehouse()
    return lambda: CheckpointTables(
        control=MemoryControlTables(warehouse), schema="etl_state", clock=FixedClock(step=FixedClock().step * 0)
    )
