"""A process whose ranges are planned, staged and published by processes of their own; PostgreSQL is source and sink."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from dpone_core.api import RunExecution, RunOptions, TransferOptions, execute_run, load_partition, plan_transfer
from dpone_core.invocation import RunArguments
from dpone_core.use_cases.fan_out import TransferExecution
from tests.spec.builders import Project, flow

RUN = "scheduled__2026-11-29"
ROWS = 100
STAGING = "SELECT relname FROM pg_class WHERE relname LIKE '\\_\\_dpone\\_\\_stg%' AND relkind = 'r' ORDER BY 1"
QUALITY = {
    "gates": [{"type": "row_count_reconciliation"}],
    "acceptance": {"enabled": True, "mode": "required", "capture": {"staged": False}},
}


def fan_out_flow(**changes: object) -> dict[str, object]:
    """A full refresh of public.t into raw.orders in three ranges and the one of NULL keys, each a mapped task."""
    return flow(
        **{
            "source__type": "postgres",
            "source__table": {"schema": "public", "name": "t"},
            "source__options": {"partitioning": split()},
            "sink__type": "postgres",
            "quality": QUALITY,
            **changes,
        }
    )


def fan_out_append_flow(**changes: object) -> dict[str, object]:
    return fan_out_flow(
        **{
            "source__options": {"partitioning": split(), "incremental": {"cursor_column": "at"}},
            "sink__strategy": {"mode": "incremental_append"},
            "state": {"type": "sink"},
            **changes,
        }
    )


def split(**changes: object) -> dict[str, object]:
    return {"column": "id", "num_partitions": 3, "workers": 2, "airflow": "mapped", **changes}


@dataclass(frozen=True, slots=True)
class FanOut:
    """`uri` is a database of its own."""

    project: Project
    uri: str

    @classmethod
    def at(cls, root: Path, uri: str) -> FanOut:
        """The source holds ids 1 to 100 and one NULL, in a database without any target."""
        fan_out = cls(Project(root, environment={"DPONE_CONN_SHOP": uri, "DPONE_CONN_DWH": uri}), uri)
        fan_out.sql(
            "DROP TABLE IF EXISTS t CASCADE",
            "DROP SCHEMA IF EXISTS raw CASCADE",
            "DROP SCHEMA IF EXISTS etl_state CASCADE",
            "CREATE TABLE t (id int8, v text, at int8 NOT NULL)",
            f"INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, {ROWS}) i",
            "INSERT INTO t VALUES (NULL, 'none', 0)",
        )
        fan_out.project.written(fan_out_flow())
        return fan_out

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.uri, autocommit=True) as session:
            cursor = session.cursor()
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def plan(self, run_id: str = RUN, **options: Any) -> TransferExecution:
        return plan_transfer(
            self.project.root / "m.yaml",
            TransferOptions(arguments=RunArguments(run_id=run_id), **options),
            environment=self.project.environment,
            project_dir=self.project.root,
        )

    def load(
        self, plan: str | None, index: int | None, run_id: str = RUN, environment: dict[str, str] | None = None
    ) -> TransferExecution:
        return load_partition(
            self.project.root / "m.yaml",
            TransferOptions(arguments=RunArguments(run_id=run_id, transfer_plan=plan)),
            partition=index,
            environment={**self.project.environment, **(environment or {})},
            project_dir=self.project.root,
        )

    def publish(self, plan: str | None, run_id: str = RUN) -> RunExecution:
        return execute_run(
            self.project.root / "m.yaml",
            RunOptions(arguments=RunArguments(run_id=run_id, transfer_plan=plan), partitions="staged"),
            environment=self.project.environment,
            project_dir=self.project.root,
        )

    def planned(self, run_id: str = RUN) -> str:
        """The fingerprint of a plan that was made without any trouble."""
        execution = self.plan(run_id)
        assert execution.error is None, execution.error
        assert execution.transfer_plan is not None
        return execution.transfer_plan

    def staged(self, run_id: str = RUN, *, without: int | None = None) -> str:
        """A plan of which every range is staged, `without` one."""
        plan = self.planned(run_id)
        for index in range(self.plan(run_id).partitions or 0):
            if index != without:
                assert self.load(plan, index, run_id).error is None
        return plan

    def ids(self) -> list[int | None]:
        return [row[0] for row in self.sql("SELECT id FROM raw.orders ORDER BY id NULLS FIRST")]

    def has_target(self) -> bool:
        return bool(self.sql("SELECT 1 FROM pg_tables WHERE schemaname = 'raw' AND tablename = 'orders'"))

    def checkpoints(self, run_id: str = RUN) -> list[tuple[str, int | None]]:
        """Status and rows of each partition, in plan order."""
        return self.sql(
            "SELECT status, rows_exported FROM etl_state.__dpone__transfer_checkpoints"
            f" WHERE run_id = '{run_id}' ORDER BY partition_index"
        )


EVERY = [None, *range(1, ROWS + 1)]
