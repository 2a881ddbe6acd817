"""Rows that share a cursor value arrive together and once, from a real server, also when a run stops between them.

Contract: STATE-18, STATE-20. PostgreSQL, and MySQL tested on MariaDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from dpone_core.model.vocabulary import SourceState
from tests.connectors.mysql_servers import connected
from tests.live.servers import scratch_mysql, scratch_postgres
from tests.marks import first_quick
from tests.spec.builders import Project, append_flow, code_of, outcome_of

Run = Callable[[str], None]
TIES = {
    "postgres int8": ("postgres", "int8", ("10", "16", "17")),
    "postgres timestamptz": (
        "postgres",
        "timestamptz",
        ("'2026-01-01 00:00+03'", "'2026-01-01 00:00:00.000001+03'", "'2026-01-01 00:00:00.000002+03'"),
    ),
    "mysql bigint": ("mysql", "BIGINT UNSIGNED", ("10", "9007199254740993", "18446744073709551615")),
    "mysql datetime": (
        "mysql",
        "DATETIME(6)",
        ("'2026-01-01'", "'2026-01-01 00:00:00.000001'", "'2026-01-01 00:00:00.000002'"),
    ),
}
"""Engine, type of the cursor, and three of its values in order."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


@pytest.fixture(scope="module")
def mysql() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@contextmanager
def served(engine: str, uri: str) -> Iterator[Run]:
    if engine == "postgres":
        with psycopg.connect(uri, autocommit=True) as session:

            def run(sql: str) -> None:
                session.execute(sql.encode())

            yield run
        return
    with closing(connected(uri)) as session, session.cursor() as cursor:
        yield cursor.execute


@pytest.fixture(params=first_quick(sorted(TIES, key=lambda name: "bigint" not in name), 2))
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Project, Run, tuple[str, str, str], str]]:
    """A project, its server, three cursor values, and the engine; `orders` is empty."""
    engine, declared, values = TIES[request.param]
    uri = str(request.getfixturevalue(engine))
    project = Project(tmp_path, environment={"DPONE_CONN_SHOP": uri})
    project.written(append_flow(source__type=engine))
    with served(engine, uri) as run:
        run("DROP TABLE IF EXISTS orders")
        at = "timestamp" if engine == "postgres" else "DATE"
        run(f"CREATE TABLE orders (id int NOT NULL, at {at} NULL, updated_at {declared} NOT NULL)")
        yield project, run, values, engine


def ids(project: Project) -> list[int]:
    return [row[0] for row in project.target("SELECT id FROM raw.orders ORDER BY id")]


def loaded(project: Project, run_id: str) -> list[int]:
    assert code_of(project.execute(run_id)) is None
    return ids(project)


def add(run: Run, value: str, *numbers: int) -> None:
    for number in numbers:
        run(f"INSERT INTO orders (id, updated_at) VALUES ({number}, {value})")


def test_a_late_row_of_the_greatest_value_arrives_with_the_others(
    shop: tuple[Project, Run, tuple[str, str, str], str],
) -> None:
    """STATE-20: 16, 16, 16, and a fourth once the first run has seen three."""
    project, run, (first, tie, last), _ = shop
    add(run, first, 1)
    add(run, tie, 2, 3, 4)
    assert loaded(project, "r1") == [1]
    add(run, tie, 5)
    assert loaded(project, "r2") == [1]
    add(run, last, 6)
    assert loaded(project, "r3") == [1, 2, 3, 4, 5]
    assert loaded(project, "r4") == [1, 2, 3, 4, 5]


def test_a_run_that_stops_between_equal_values_saves_none_of_them(
    shop: tuple[Project, Run, tuple[str, str, str], str],
) -> None:
    """STATE-18: the third of the equal rows cannot be read; the first two are neither kept nor skipped."""
    project, run, (first, tie, last), engine = shop
    add(run, first, 1)
    add(run, tie, 2)
    assert loaded(project, "r1") == [1]
    add(run, tie, 3, 4)
    add(run, last, 5)
    if engine == "mysql":
        run("SET sql_mode = 'ALLOW_INVALID_DATES'")
    broken = "'infinity'" if engine == "postgres" else "'0000-00-00'"
    run(f"UPDATE orders SET at = {broken} WHERE id = 4")
    stopped = project.execute("r2")
    assert code_of(stopped) == "source_value_out_of_range"
    assert outcome_of(stopped).source_state is SourceState.NOT_ADVANCED and ids(project) == [1]
    run("UPDATE orders SET at = NULL WHERE id = 4")
    assert loaded(project, "r3") == [1, 2, 3, 4]
