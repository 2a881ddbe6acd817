"""Embedded engines as sources load into every kind of sink with gates and acceptance, into themselves too.

Contract: PLAN-06.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import clickhouse_connect
import duckdb
import pytest

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.connection import Connection
from dpone_core.model.connector import ConnectorType
from dpone_core.wiring.connectors import require_one_engine
from tests.spec.builders import Finished, Project, flow

GATES = [
    {"type": "min_rows", "threshold": 3},
    {"type": "row_count_reconciliation"},
    {"type": "typed_hash_reconciliation"},
]
CHECKS = {"null_counts": "all_columns", "distinct_counts": ["id", "amount"]}
ROWS = [(1, "a", "1.10"), (2, None, None), (3, "c", "-0.01")]


def quality(*, staged: bool = True) -> dict[str, Any]:
    acceptance = {"enabled": True, "mode": "required", "checks": CHECKS}
    return {"gates": GATES, "acceptance": acceptance if staged else acceptance | {"capture": {"staged": False}}}


def duckdb_shop(root: Path) -> None:
    with closing(duckdb.connect(str(root / "shop.duckdb"))) as database:
        database.execute("CREATE TABLE orders (id BIGINT NOT NULL, name VARCHAR, amount DECIMAL(18,2))")
        database.executemany("INSERT INTO orders VALUES (?, ?, ?)", ROWS)


def clickhouse_shop(root: Path, directory: str = "shop") -> None:
    with closing(clickhouse_connect.get_client(interface="chdb", path=str(root / directory))) as client:
        client.command("CREATE DATABASE main")
        client.command(
            "CREATE TABLE main.orders (id Int64, name LowCardinality(Nullable(String)),"
            " amount Nullable(Decimal(18, 2))) ENGINE = MergeTree ORDER BY id"
        )
        client.command("INSERT INTO main.orders VALUES (1, 'a', '1.10'), (2, NULL, NULL), (3, 'c', '-0.01')")


def route(root: Path, source: str, sink: str, **changes: Any) -> tuple[Project, Finished]:
    types = {"duckdb": "duckdb", "chdb": "clickhouse", "file": "files"}
    project = Project(root, environment={"DPONE_CONN_SHOP": source, "DPONE_CONN_DWH": sink})
    sink_type = types[sink.partition(":")[0]]
    manifest = {
        "source__type": types[source.partition(":")[0]],
        "source__table": {"schema": "main", "name": "orders"},
        "sink__type": sink_type,
        "quality": quality(staged=sink_type != "files"),
    }
    project.written(flow(**manifest | changes))
    return project, project.run()


def reconciled(finished: Finished) -> None:
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert finished.receipt is not None and finished.result["final_rows"] == 3
    assert (finished.receipt["gates_passed"], finished.receipt["acceptance_sides"] >= 2) == (len(GATES), True)


@pytest.mark.parametrize("shop", ["duckdb", "chdb"])
@pytest.mark.parametrize("warehouse", ["duckdb", "chdb", "file"])
def test_a_shop_is_loaded_into_a_warehouse(tmp_path: Path, shop: str, warehouse: str) -> None:
    one_directory = shop == warehouse == "chdb"
    if shop == "duckdb":
        duckdb_shop(tmp_path)
    else:
        clickhouse_shop(tmp_path)
    source = f"{shop}:///{tmp_path / 'shop'}{'.duckdb' if shop == 'duckdb' else ''}"
    sink = source if one_directory else f"{warehouse}:///{tmp_path / 'dwh'}"
    reconciled(route(tmp_path, source, sink)[1])


def test_one_duckdb_file_is_source_and_sink(tmp_path: Path) -> None:
    duckdb_shop(tmp_path)
    uri = f"duckdb:///{tmp_path / 'shop.duckdb'}"
    project, finished = route(tmp_path, uri, uri)
    reconciled(finished)
    reconciled(project.run())
    with closing(duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True)) as database:
        assert database.execute("SELECT * FROM raw.orders EXCEPT SELECT * FROM main.orders").fetchall() == []


def test_two_spellings_of_one_clickhouse_directory_are_one(tmp_path: Path) -> None:
    clickhouse_shop(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    reconciled(route(tmp_path, f"chdb:///{tmp_path / 'shop'}", f"chdb:///{tmp_path / 'link'}")[1])


def test_two_clickhouse_directories_are_refused_before_anything_runs(tmp_path: Path) -> None:
    clickhouse_shop(tmp_path)
    project, finished = route(tmp_path, f"chdb:///{tmp_path / 'shop'}", f"chdb:///{tmp_path / 'dwh'}")
    assert (finished.exit_code, finished.code) == (2, "DPONE_EMBEDDED_ENGINE_CONFLICT")
    assert not (project.root / "dwh").exists()


@pytest.mark.parametrize(
    ("source", "sink", "refused"),
    [
        ("chdb:///a", "chdb:///b", True),
        ("chdb:///a", "chdb:///./a", False),
        ("chdb:///a", "clickhouse://h/b", False),
        ("duckdb:///a", "duckdb:///b", False),
    ],
)
def test_only_an_engine_of_one_directory_refuses_a_second(source: str, sink: str, refused: bool) -> None:
    kind = ConnectorType.DUCKDB if source.startswith("duckdb") else ConnectorType.CLICKHOUSE
    sides = [(kind, Connection(ref="under_test", uri=uri, origin="test")) for uri in (source, sink)]
    if not refused:
        require_one_engine(*sides)
        return
    with pytest.raises(ETLConfigurationError, match="DPONE_EMBEDDED_ENGINE_CONFLICT"):
        require_one_engine(*sides)


def test_an_append_from_an_engine_moves_its_cursor(tmp_path: Path) -> None:
    duckdb_shop(tmp_path)
    source, sink = f"duckdb:///{tmp_path / 'shop.duckdb'}", f"chdb:///{tmp_path / 'dwh'}"
    changes = {
        "source__options": {"incremental": {"cursor_column": "id"}},
        "sink__strategy": {"mode": "incremental_append"},
        "state": {"type": "sink"},
        "quality": {"gates": GATES[1:]},
    }
    project, finished = route(tmp_path, source, sink, **changes)
    assert finished.result["final_rows"] == 2, finished.stdout
    with closing(duckdb.connect(str(tmp_path / "shop.duckdb"))) as database:
        database.execute("INSERT INTO orders VALUES (4, 'd', 4)")
    again = project.run()
    assert (again.exit_code, again.result["inserted_rows"], again.result["final_rows"]) == (0, 1, 3)


@pytest.mark.parametrize("shop", ["duckdb", "chdb"])
def test_hooks_run_on_an_engine_that_is_the_source(tmp_path: Path, shop: str) -> None:
    if shop == "duckdb":
        duckdb_shop(tmp_path)
    else:
        clickhouse_shop(tmp_path)
    source = f"{shop}:///{tmp_path / 'shop'}{'.duckdb' if shop == 'duckdb' else ''}"
    insert = {
        "id": "late",
        "kind": "source_refresh",
        "connector": "source",
        "sql": "INSERT INTO main.orders VALUES (4, 'd', 4)",
        "mutates_source": True,
    }
    _, finished = route(
        tmp_path,
        source,
        f"file:///{tmp_path / 'lake'}",
        source__options={"hooks": {"pre_hook": [insert]}},
        quality={"gates": [{"type": "min_rows", "threshold": 4}]},
    )
    assert finished.exit_code == 0, finished.stdout
