"""incremental_merge and partition_replace from a SQLite file into the embedded ClickHouse, by the command line.

The counts of the receipt are those of the target, which another process then looks at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spec.builders import Finished, Project, flow

QUALITY = {
    "gates": [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}],
    "acceptance": {"enabled": True, "mode": "required"},
}
LOOK = """
import sys, clickhouse_connect
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
sys.stdout.write(client.raw_query(sys.argv[2], fmt="JSONCompact").decode())
"""


@pytest.fixture(name="project")
def clickhouse_project(tmp_path: Path) -> Project:
    return Project(tmp_path, environment={"DPONE_CONN_DWH": f"chdb:///{tmp_path / 'warehouse'}"})


def looked(project: Project, sql: str) -> list[list[object]]:
    """What a process of its own reads from the warehouse after the run."""
    answer = subprocess.run(
        [sys.executable, "-c", LOOK, str(project.root / "warehouse"), sql], capture_output=True, check=True, timeout=60
    )
    rows: list[list[object]] = json.loads(answer.stdout)["data"]
    return rows


def counted(finished: Finished) -> tuple[object, ...]:
    assert finished.exit_code == 0, finished.stderr
    assert finished.receipt is not None
    return tuple(finished.receipt[name] for name in ("staged_rows", "inserted_rows", "updated_rows", "final_rows"))


def test_a_merge_updates_and_inserts(project: Project) -> None:
    lineage = {"enabled": True, "preset": "standard"}
    project.written(
        flow(
            sink__type="clickhouse",
            sink__strategy={"mode": "incremental_merge", "unique_key": ["id"]},
            sink__options={"lineage": lineage, "physical_design": {"partition_by": {"column": "updated_at"}}},
            source__options={"incremental": {"cursor_column": "updated_at"}},
            state={"type": "sink"},
            quality=QUALITY,
        )
    )
    project.orders([(1, "a", 10), (2, "b", 20), (3, "c", 30)])
    assert counted(project.run("--run-id", "r1")) == (3, 3, 0, 3)
    project.source("UPDATE orders SET name = 'B', updated_at = 40 WHERE id = 2")
    project.add_orders((4, "d", 40))
    assert counted(project.run("--run-id", "r2")) == (3, 1, 2, 4)
    rows = looked(project, "SELECT id, name, updated_at FROM raw.orders ORDER BY id")
    assert [[int(str(i)), name, int(str(at))] for i, name, at in rows] == [
        [1, "a", 10],
        [2, "B", 40],
        [3, "c", 30],
        [4, "d", 40],
    ]
    [[sorted_by]] = looked(project, "SELECT sorting_key FROM system.tables WHERE database = 'raw'")
    planned = project.dpone("plan", "m.yaml", "--format", "json").document
    assert [str(sorted_by).strip("()")] == planned["targets"][0]["order_by"] == ["id"]
    loads = looked(project, "SELECT id, __dpone__load_id FROM raw.orders ORDER BY id")
    assert loads[0][1] not in {row[1] for row in loads[1:]} and len({row[1] for row in loads[1:]}) == 1


def test_partitions_are_replaced_and_a_second_design_is_refused(project: Project) -> None:
    design = {"physical_design": {"partition_by": {"column": "updated_at"}, "order_by": ["id"]}}
    manifest = flow(
        sink__type="clickhouse", sink__strategy={"mode": "partition_replace"}, sink__options=design, quality=QUALITY
    )
    project.written(manifest)
    project.orders([(1, "a", 10), (2, "b", 20), (3, "c", 30)])
    assert counted(project.run("--run-id", "r1")) == (3, 3, 0, 3)
    project.orders([(4, "b", 20), (5, "b", 20), (6, "d", 40)])
    assert counted(project.run("--run-id", "r2")) == (3, 3, 0, 5)
    rows = looked(project, "SELECT id FROM raw.orders ORDER BY id")
    assert [int(str(row[0])) for row in rows] == [1, 3, 4, 5, 6]
    project.written(
        flow(
            sink__type="clickhouse",
            sink__strategy={"mode": "partition_replace"},
            sink__options={"physical_design": {"partition_by": {"column": "id"}}},
        )
    )
    refused = project.run("--run-id", "r3")
    assert (refused.exit_code, refused.code) == (1, "physical_design_mismatch")
    assert refused.receipt is not None and refused.receipt["target_state"] == "not_mutated"
    assert "by (updated_at)" in refused.stdout and "for (id)" in refused.stdout
