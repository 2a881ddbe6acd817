"""PostgreSQL says which column, table or database does not exist: the name is shown, and nothing else of its text.

Contract: PG-08.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_core.connectors.postgres.errors import absent_name, connect_error, server_error
from tests.live.servers import scratch_postgres, with_database
from tests.spec.builders import Project, flow, outcome_of


class Said(Exception):
    def __init__(self, sqlstate: str | None, text: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "text", "name"),
    [
        ("42703", 'ERROR:  column "nothing" does not exist\nLINE 1: SELECT nothing', "nothing"),
        ("42703", "ERROR:  column o.nothing does not exist", "o.nothing"),
        ("42P01", 'ERROR:  relation "raw.absent" does not exist', "raw.absent"),
        ("42703", 'ERROR:  column "4111 1111 1111" does not exist', None),
        ("42703", "ERROR:  column \"x' does not exist", None),
        ("42P01", 'ERROR:  column "nothing" does not exist', None),
        ("42703", "ERROR:  something else\nDETAIL: column secret does not exist", None),
        ("42703", "ОШИБКА:  столбец nothing не существует", None),
    ],
)
def test_the_name_is_taken_where_it_is_plain_and_nothing_else(sqlstate: str, text: str, name: str | None) -> None:
    error = server_error(Said(sqlstate, text), "refused", code="source_query_refused", unreachable="source_unreachable")
    assert error.message.endswith(f": {name!r}" if name else "does not exist")
    assert "LINE" not in error.message and "secret" not in error.message


def test_a_database_that_does_not_exist_is_named() -> None:
    said = Said(None, 'connection failed: FATAL:  database "absent" does not exist')
    assert "'absent'" in connect_error(said, unreachable="source_unreachable").message
    refused = Said(None, 'FATAL:  password authentication failed for user "canary"')
    assert "canary" not in connect_error(refused, unreachable="source_unreachable").message
    assert absent_name(said, None) is None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


@pytest.mark.parametrize(
    ("sql", "database", "name"),
    [
        ("SELECT nothing FROM pg_class", None, "nothing"),
        ("SELECT * FROM nowhere", None, "nowhere"),
        ("SELECT 1 AS id", "nobody_made_it", "nobody_made_it"),
    ],
)
def test_a_server_is_understood(tmp_path: Path, postgres: str, sql: str, database: str | None, name: str) -> None:
    project = Project(tmp_path)
    project.environment["DPONE_CONN_SHOP"] = postgres if database is None else with_database(postgres, database)
    project.written(flow(source__type="postgres", source__table=None, source__options={"query": {"sql": sql}}))
    failure = outcome_of(project.execute()).failure
    assert failure is not None and f"'{name}'" in failure.message
