"""Targets with NOT NULL columns beside the key: a query says which of its columns hold no NULL, and a column that the
source lacks is left to its DEFAULT. Both by declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tests.live.servers import scratch_postgres
from tests.spec.builders import Project, flow

MADE = "CREATE TABLE raw.orders (id BIGINT NOT NULL, name VARCHAR NOT NULL, status VARCHAR NOT NULL DEFAULT 'new')"
CURSOR = {"incremental": {"cursor_column": "id"}}
QUERY = {"query": {"sql": "SELECT id, name FROM orders"}}
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


@pytest.fixture(params=["duckdb", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Project, Ask]:
    """A project whose target exists, and a way to ask it."""
    if request.param == "duckdb":
        project = Project(tmp_path)

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with duckdb.connect(str(tmp_path / "dwh.duckdb")) as database:
                return database.execute(sql).fetchall()
    else:
        project = Project(tmp_path, environment={"DPONE_CONN_DWH": request.getfixturevalue("server")})

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with psycopg.connect(project.environment["DPONE_CONN_DWH"], autocommit=True) as database:
                cursor = database.execute(sql.encode())
                return cursor.fetchall() if cursor.description else []

        ask("DROP SCHEMA IF EXISTS raw CASCADE; DROP SCHEMA IF EXISTS etl_state CASCADE")
    ask("CREATE SCHEMA raw")
    ask(MADE)
    project.orders()
    return project, ask


def write(project: Project, target: tuple[Project, Ask], source: dict[str, object], options: dict[str, object]) -> None:
    sink = "postgres" if "postgresql" in project.environment["DPONE_CONN_DWH"] else "duckdb"
    project.written(
        flow(
            source={"type": "sqlite", "connection_ref": "shop", "options": {**source, **CURSOR}},
            state={"type": "sink"},
            sink__type=sink,
            sink__strategy={"mode": "incremental_append"},
            sink__options=options,
        )
    )


def test_a_query_appends_into_required_columns_by_declaration(target: tuple[Project, Ask]) -> None:
    project, ask = target
    write(project, target, QUERY, {})
    refused = project.execute("r1")
    assert "not_null" in str(refused.error) + str(getattr(refused.error, "fix", ""))
    declared = {**QUERY, "not_null": ["id", "name"]}
    write(project, target, declared, {"target_defaults": ["status"]})
    loaded = project.execute("r2")
    assert loaded.error is None, loaded.error
    assert ask("SELECT id, name, status FROM raw.orders ORDER BY id") == [(1, "a", "new"), (2, "b", "new")]


def test_a_null_where_none_was_declared_leaves_the_target(target: tuple[Project, Ask]) -> None:
    project, ask = target
    project.add_orders((4, None, 4), (5, "e", 5))
    write(project, target, {**QUERY, "not_null": ["id", "name"]}, {"target_defaults": ["status"]})
    refused = project.execute("r1")
    assert "'name'" in str(refused.error) and ask("SELECT count(*) FROM raw.orders") == [(0,)]


def test_a_column_without_a_default_is_not_left_to_it(target: tuple[Project, Ask]) -> None:
    project, ask = target
    write(project, target, {"query": {"sql": "SELECT id FROM orders"}, "not_null": ["id"]},
          {"target_defaults": ["name", "status"]})  # fmt: skip
    refused = project.execute("r1")
    assert "column 'name' of the target has no DEFAULT" in str(refused.error)
    assert ask("SELECT count(*) FROM raw.orders") == [(0,)]


def test_a_column_that_the_target_computes_is_said_to_be_so(server: str, tmp_path: Path) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": server})
    project.orders()
    with psycopg.connect(server, autocommit=True) as database:
        database.execute(
            "DROP SCHEMA IF EXISTS raw CASCADE; DROP SCHEMA IF EXISTS etl_state CASCADE; CREATE SCHEMA raw"
        )
        database.execute("CREATE TABLE raw.orders (id BIGINT, name TEXT GENERATED ALWAYS AS (id::text) STORED)")
    write(project, (project, lambda sql: []), {**QUERY, "not_null": ["id"]}, {})
    refused = project.execute("r1")
    assert "column 'name' string is missing in the target, or computed by it" in str(refused.error)
