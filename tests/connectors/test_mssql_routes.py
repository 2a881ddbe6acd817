"""SQL Server end to end: gates, typed hashes, acceptance, procedures as hooks, into DuckDB and embedded ClickHouse.

Wire-tested against a TDS double. Contract: MSSQL-09.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pysqlbridge.tds.result import QueryError, QueryResult

from tests.connectors.tds_double import PASSWORD, Fault, TdsDouble, TdsSession, integers, tds_double
from tests.spec.builders import Finished, Project, project_between

GATES = [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}]
ACCEPTANCE = {
    "enabled": True,
    "mode": "required",
    "checks": {"null_counts": "all_columns", "distinct_counts": ["id", "name", "amount"]},
}
SHOP = (
    "DROP TABLE IF EXISTS dbo.orders",
    "CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY, name nvarchar(20), amount money, day date,"
    " made datetime2(6), seen datetimeoffset(6), flag bit, rate real, guid uniqueidentifier, note nvarchar(max))",
    "INSERT INTO dbo.orders VALUES"
    " (1, N'a', 1.1, '1924-01-01', '2024-01-01 00:00:00.000001', CAST('2024-06-01T12:00:00+02:00' AS"
    " datetimeoffset(6)), 1, 1.25, '00112233-4455-6677-8899-aabbccddeeff', N'é😀'),"
    " (3, N'', -0.0001, '2199-12-31', '2199-12-31 23:59:59.999999', NULL, 0, -0.5, NULL, N'')",
    "INSERT INTO dbo.orders (id, name) VALUES (2, N'A')",
)


@pytest.fixture(scope="module")
def shared() -> Iterator[TdsDouble]:
    with tds_double() as double:
        yield double


@pytest.fixture
def double(shared: TdsDouble) -> TdsDouble:
    shared.run(*SHOP)
    shared.procedures.clear()
    shared.received.clear()
    return shared


def mssql_project(root: Path, double: TdsDouble, sink: str, **changes: Any) -> Project:
    manifest = {
        "source__type": "mssql",
        "source__table": {"schema": "dbo", "name": "orders"},
        "quality": {"gates": GATES, "acceptance": ACCEPTANCE},
    }
    return project_between(root, double.uri, sink, **manifest | changes)


def succeeded(finished: Finished, rows: int) -> None:
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    judged = finished.result["details"]["reconciliation_metrics"]["quality_gates"]["results"]
    assert {gate["status"] for gate in judged} == {"passed"}
    assert finished.result["final_rows"] == rows
    assert PASSWORD not in finished.stdout + finished.stderr


def refresh_hook(sql: str) -> dict[str, Any]:
    hook = {"id": "refresh", "kind": "source_refresh", "connector": "source", "sql": sql, "mutates_source": True}
    return {"source__options": {"hooks": {"pre_hook": [hook]}}}


@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
def test_a_table_is_loaded_and_reconciled(tmp_path: Path, double: TdsDouble, sink: str) -> None:
    succeeded(mssql_project(tmp_path, double, sink).run(), 3)


def test_an_append_reads_one_window_after_another(tmp_path: Path, double: TdsDouble) -> None:
    made = mssql_project(
        tmp_path,
        double,
        "duckdb",
        source__options={"incremental": {"cursor_column": "id"}},
        sink__strategy={"mode": "incremental_append"},
        state={"type": "sink"},
        quality={"gates": GATES},
    )
    succeeded(made.run(), 2)
    double.run("INSERT INTO dbo.orders (id) VALUES (4), (9)")
    succeeded(made.run(), 4)


def test_a_procedure_refreshes_the_source_before_it_is_read(tmp_path: Path, double: TdsDouble) -> None:
    def refresh(own: TdsDouble, session: TdsSession, arguments: Mapping[str, Any]) -> list[QueryResult]:
        session.cursor.execute("INSERT INTO orders (id, name) VALUES (9, ?)", [arguments["who"]])
        return [integers(1), integers(2)]

    double.procedures["p_refresh"] = refresh
    made = mssql_project(tmp_path, double, "duckdb", **refresh_hook("EXEC rep.p_refresh @who = {{ run_id }}"))
    succeeded(made.run("--run-id", "r'; DROP"), 4)
    assert double.run("SELECT name FROM dbo.orders WHERE id = 9") == [("r'; DROP",)]


def test_a_hook_that_fails_behind_its_first_result_set_stops_the_run(tmp_path: Path, double: TdsDouble) -> None:
    broken = QueryResult([], [], error=QueryError("canary", number=2627))
    double.procedures["p_refresh"] = lambda *_: [integers(1), broken]
    finished = mssql_project(tmp_path, double, "duckdb", **refresh_hook("EXEC rep.p_refresh")).run()
    assert (finished.exit_code, finished.code) == (1, "hook_failed")
    assert "canary" not in finished.stdout + finished.stderr
    assert not any("ISOLATION LEVEL" in batch for batch in double.received)


def test_a_mutating_hook_without_consent_reaches_no_server(tmp_path: Path, double: TdsDouble) -> None:
    changes = refresh_hook("EXEC rep.p_refresh")
    del changes["source__options"]["hooks"]["pre_hook"][0]["mutates_source"]
    finished = mssql_project(tmp_path, double, "duckdb", **changes).run()
    assert finished.exit_code == 2 and double.received == []


@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_connection_that_drops_while_it_is_read_leaves_the_target_alone(
    tmp_path: Path, double: TdsDouble, stage: str
) -> None:
    made = mssql_project(tmp_path, double, "duckdb")
    succeeded(made.run(), 3)
    double.faults = [Fault(match="ISOLATION LEVEL", stage=stage)]
    finished = made.run()
    assert finished.exit_code == 1 and finished.code in ("source_unreachable", "source_query_refused")
    assert finished.result["failure_context"]["target_state"] == "not_mutated"
    assert PASSWORD not in finished.stdout + finished.stderr
