"""Key ranges into SQL Server end to end: every row once by every strategy that has ranges, and a resume.

Wire-tested against a TDS double.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.connectors.tds_double import TdsDouble, tds_double
from tests.spec.builders import Project, flow

SPLIT = {"column": "id", "num_partitions": 3}
STRATEGIES: dict[str, dict[str, Any]] = {
    "full_refresh": {},
    "incremental_append": {
        "source__options": {"incremental": {"cursor_column": "updated_at"}},
        "state": {"type": "sink"},
    },
    "partition_replace": {"sink__options": {"physical_design": {"partition_by": {"column": "id"}}}},
}


@pytest.fixture(scope="module")
def double() -> Iterator[TdsDouble]:
    with tds_double() as found:
        yield found


def project_of(root: Path, double: TdsDouble, mode: str, workers: int = 2) -> Project:
    project = Project(
        root, environment={"DPONE_CONN_DWH": double.uri, "DPONE_CONN_SHOP": f"sqlite:///{root}/shop.sqlite"}
    )
    project.orders([(number, f"n{number}", number) for number in range(1, 61)])
    changes = {"sink__strategy": {"mode": mode}, **STRATEGIES[mode]}
    changes["source__options"] = {**changes.get("source__options", {}), "partitioning": {**SPLIT, "workers": workers}}
    quality = {"gates": [{"type": "row_count_reconciliation"}]}
    table = {"schema": "raw", "name": f"native_{mode}_{root.name[-8:].replace('-', '_')}"}
    project.written(flow(sink__type="mssql", sink__table=table, quality=quality, **changes))
    return project


def held(project: Project, double: TdsDouble) -> list[int]:
    name = yaml.safe_load((project.root / "m.yaml").read_text())["sink"]["table"]["name"]
    return [row[0] for row in double.run(f"SELECT id FROM raw.{name} ORDER BY id")]


def staging(double: TdsDouble) -> int:
    found = double.run("SELECT COUNT_BIG(*) AS held FROM sys.objects WHERE name LIKE '__dpone__stg%'")
    return int(found[0][0])


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode == "partition_replace" else pytest.mark.slow) for mode in STRATEGIES]
)
def test_every_row_is_loaded_once(tmp_path: Path, double: TdsDouble, mode: str) -> None:
    project = project_of(tmp_path, double, mode)
    waiting = 1 if mode == "incremental_append" else 0  # the newest cursor value waits for a greater one
    for run_id in ("r1", "r2"):
        execution = project.execute(run_id)
        assert execution.error is None
        assert held(project, double) == list(range(1, 61 - waiting))
    assert staging(double) == 0


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode == "full_refresh" else pytest.mark.slow) for mode in STRATEGIES]
)
def test_a_failed_range_is_read_again_and_no_other(tmp_path: Path, double: TdsDouble, mode: str) -> None:
    project = project_of(tmp_path, double, mode, workers=1)
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as shop, shop:
        shop.execute("UPDATE orders SET name = CAST(X'ff' AS TEXT) WHERE id = 55")
    failed = project.execute("r1")
    assert failed.error is not None and staging(double) > 0
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as shop, shop:
        shop.execute("UPDATE orders SET name = 'n55' WHERE id = 55")
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stdout
    assert held(project, double) == list(range(1, 61 - (1 if mode == "incremental_append" else 0)))
    assert finished.result["extracted_rows"] < 30 and staging(double) == 0
