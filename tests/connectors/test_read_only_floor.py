"""What is not declared as changing runs in the engine's read-only mode (HOOK-31): whatever slips past the guard, and
what no text can show, changes nothing.

The corpus of the guard is executed here too: every text it calls read-only runs, and a table stays as it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chdb
import duckdb
import psycopg
import pytest
import yaml

from dpone_core.connectors.clickhouse.open import open_source as open_clickhouse
from dpone_core.connectors.duckdb.open import open_source as open_duckdb
from dpone_core.connectors.duckdb.open import open_source_and_sink as open_shared_duckdb
from dpone_core.connectors.mysql.open import open_source as open_mysql
from dpone_core.connectors.postgres.open import open_source as open_postgres
from dpone_core.connectors.sqlite.open import open_source as open_sqlite
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from dpone_core.ports.statements import StatementScript
from tests.connectors.mysql_servers import connected
from tests.connectors.sessions import connection
from tests.live.servers import scratch_mysql, scratch_postgres

CORPUS = yaml.safe_load((Path(__file__).parents[1] / "spec/planning/guard_corpus.yaml").read_text("utf-8"))
PARSED = {
    "SELECT list_transform([1, 2], x -> x + 1)": "Deprecated lambda arrow",
    "SELECT list_filter([1, 2], x -> x > 1)": "Deprecated lambda arrow",
    "SELECT toYYYYMM(d), sumIf(a, b) FROM t FINAL PREWHERE a = 1 WHERE b GROUP BY 1": "must be UInt8",
}
"""Texts that the engine understands and does not run on these tables, and its reason."""
WOULD_WRITE = "statement_not_read_only"
Ask = Callable[[str], Sequence[tuple[Any, ...]]]

POSTGRES = """
CREATE TABLE t (a int, b int, c text, d timestamp, j jsonb); INSERT INTO t VALUES (1, 2, 'x', '2024-01-01', '{}');
CREATE TABLE orders (id int, updated_at text); CREATE TABLE "drop" ("delete" int);
CREATE TABLE victim (id int); INSERT INTO victim VALUES (1), (2), (3); CREATE TABLE calm (id int);
INSERT INTO calm VALUES (1); CREATE SEQUENCE s;
CREATE FUNCTION erase() RETURNS int LANGUAGE plpgsql AS $$BEGIN DELETE FROM victim; RETURN 0; END$$;
CREATE FUNCTION contains(text, text) RETURNS int LANGUAGE sql AS 'SELECT erase()';
CREATE FUNCTION purge(victim) RETURNS int LANGUAGE sql AS 'SELECT erase()';
CREATE FUNCTION lower(calm) RETURNS int LANGUAGE sql AS 'SELECT erase()';
CREATE FUNCTION added(calm, int) RETURNS int LANGUAGE sql AS 'SELECT erase()';
CREATE OPERATOR + (LEFTARG = calm, RIGHTARG = int, FUNCTION = added);
CREATE FUNCTION is_good(text) RETURNS boolean LANGUAGE sql AS 'SELECT erase() = 0';
CREATE DOMAIN mytype AS text CHECK (is_good(VALUE));
CREATE VIEW quiet AS SELECT erase() AS a;
CREATE FUNCTION unlocked() RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('transaction_read_only', 'off',
true); DELETE FROM victim; RETURN 0; END$$;
"""
POSTGRES_ACTS = (
    "SELECT contains('a', 'b')",
    "SELECT t.purge FROM victim t",
    "SELECT (t).purge FROM victim t",
    "SELECT lower(t) FROM calm AS t",
    "SELECT t + 1 FROM calm AS t",
    "SELECT 'x'::mytype",
    "SELECT CAST(c AS mytype) FROM t",
    "SELECT * FROM quiet",
    "SELECT nextval('s')",
    "SELECT setval('s', 5)",
    "WITH x AS (DELETE FROM victim RETURNING *) SELECT * FROM x",
)
"""Overloads of the engine's own names, attributes and views among them: no list of names can tell them apart."""

MYSQL = (
    "CREATE TABLE t (a int, b int, c varchar(9), d datetime, j text)",
    "INSERT INTO t VALUES (1, 2, 'x', '2024-01-01', '{}')",
    "CREATE TABLE orders (state varchar(9))",
    "CREATE TABLE victim (id int)",
    "INSERT INTO victim VALUES (1), (2), (3)",
    "CREATE FUNCTION array_contains(x text, y text) RETURNS int MODIFIES SQL DATA"
    " BEGIN DELETE FROM victim; RETURN 0; END",
    "CREATE VIEW quiet AS SELECT array_contains('a', 'b') AS a",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A source with the tables of the corpus, and a look at it from outside. `acts` are texts that change `victim`."""

    ports: SourcePorts
    ask: Ask
    acts: tuple[str, ...]


@contextmanager
def on_postgres(_: Path) -> Iterator[Engine]:
    with scratch_postgres() as uri, psycopg.connect(uri, autocommit=True) as session:
        session.execute(POSTGRES)
        with open_postgres(connection(uri)) as ports:
            yield Engine(
                ports=ports,
                ask=lambda sql: session.execute(sql.encode()).fetchall(),
                acts=POSTGRES_ACTS,
            )


@contextmanager
def on_mysql(_: Path) -> Iterator[Engine]:
    with scratch_mysql() as uri, closing(connected(uri)) as session, session.cursor() as cursor:
        for statement in MYSQL:
            cursor.execute(statement)

        def ask(sql: str) -> Sequence[tuple[Any, ...]]:
            cursor.execute(sql)
            return cursor.fetchall()

        with open_mysql(connection(uri)) as ports:
            acts = ("SELECT array_contains('a', 'b')", "SELECT * FROM quiet", "DELETE FROM victim")
            yield Engine(ports=ports, ask=ask, acts=acts)


@contextmanager
def on_sqlite(directory: Path) -> Iterator[Engine]:
    path = directory / "a.sqlite"
    with closing(sqlite3.connect(path)) as session:
        session.executescript(
            "CREATE TABLE t (a, b, c, d); INSERT INTO t VALUES (1, 2, 'x', '2024-01-01');"
            "CREATE TABLE orders (customer); CREATE TABLE victim (id); INSERT INTO victim VALUES (1), (2), (3);"
        )
    acts = ("DELETE FROM victim RETURNING id", "WITH x AS (SELECT 1) DELETE FROM victim", "DROP TABLE victim")
    with open_sqlite(connection(f"sqlite:///{path}")) as ports:
        yield Engine(ports=ports, ask=lambda sql: _asked(path, sql), acts=acts)


def _asked(path: Path, sql: str) -> Sequence[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as session:
        return session.execute(sql).fetchall()


def _duckdb_file(directory: Path) -> Path:
    path = directory / "a.duckdb"
    (directory / "corpus.csv").write_text("a,b\n1,2\n")
    (directory / "x.csv").write_text("a,b\n1,2\n")
    with closing(duckdb.connect(str(path))) as session:
        session.execute(
            "CREATE TABLE t (a int, b int, c text, d timestamp); INSERT INTO t VALUES (1, 2, '3', '2024-01-01');"
            "CREATE SCHEMA raw; CREATE TABLE raw.orders (id int); CREATE TABLE victim (id int);"
            "INSERT INTO victim VALUES (1), (2), (3); CREATE SEQUENCE s; CREATE MACRO mine(x) AS nextval('s') + x"
        )
    return path


DUCKDB_ACTS = ("DELETE FROM victim", "SELECT nextval('s')", "SELECT mine(1)", "CREATE TABLE more (a int)")


@contextmanager
def on_duckdb(directory: Path) -> Iterator[Engine]:
    path = _duckdb_file(directory)
    with open_duckdb(connection(f"duckdb:///{path}")) as ports:
        assert ports.statements is not None
        yield Engine(ports=ports, ask=_through(ports), acts=DUCKDB_ACTS)


@contextmanager
def on_shared_duckdb(directory: Path) -> Iterator[Engine]:
    """Source and sink in one engine that may write."""
    path = _duckdb_file(directory)
    with open_shared_duckdb(connection(f"duckdb:///{path}"), lock_timeout_seconds=1) as (ports, _):
        yield Engine(ports=ports, ask=_through(ports), acts=DUCKDB_ACTS)


@contextmanager
def on_clickhouse(directory: Path) -> Iterator[Engine]:
    path = directory / "a.chdb"
    with closing(chdb.connect(str(path))) as session:
        for statement in (
            "CREATE TABLE t (a Int32, b Int32, d DateTime) ENGINE = ReplacingMergeTree ORDER BY a",
            "INSERT INTO t VALUES (1, 2, '2024-01-01 00:00:00')",
            "CREATE DATABASE raw",
            "CREATE TABLE raw.orders (id Int32, customer Nullable(Int32)) ENGINE = ReplacingMergeTree ORDER BY id",
            "CREATE TABLE victim (id Int32) ENGINE = MergeTree ORDER BY id",
            "INSERT INTO victim VALUES (1), (2), (3)",
        ):
            session.query(statement)
    acts = (
        "TRUNCATE TABLE victim",
        "INSERT INTO victim VALUES (4)",
        "ALTER TABLE victim DELETE WHERE 1 SETTINGS mutations_sync = 2",
        "DROP TABLE victim",
    )
    with open_clickhouse(connection(f"chdb:///{path}")) as ports:
        yield Engine(ports=ports, ask=_through(ports), acts=acts)


def _through(ports: SourcePorts) -> Ask:
    """Asks through the port, because an embedded file is open in one engine only."""
    assert ports.statements is not None
    statements = ports.statements
    return lambda sql: statements.answer(StatementScript(sql=SqlText(text=sql))).rows


ENGINES = {
    "postgres": on_postgres,
    "mysql": on_mysql,
    "sqlite": on_sqlite,
    "duckdb": on_duckdb,
    "duckdb shared": on_shared_duckdb,
    "clickhouse": on_clickhouse,
}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Engine]]:
    directory = tmp_path_factory.mktemp("floor")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        with ENGINES[request.param](directory) as opened:
            yield request.param, opened


def victims(engine: Engine) -> int:
    ((count,),) = engine.ask("SELECT count(*) FROM victim")
    return int(count)


def script(sql: str, *, autocommit: bool = True, read_only: bool = True) -> StatementScript:
    return StatementScript(sql=SqlText(text=sql), autocommit=autocommit, read_only=read_only)


def read(ports: SourcePorts, request: ExtractRequest) -> None:
    for _ in ports.source.open_stream(request, ports.source.describe(request)).batches():
        pass


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_hook_that_is_not_declared_as_changing_changes_nothing(engine: tuple[str, Engine], autocommit: bool) -> None:
    _, opened = engine
    assert opened.ports.statements is not None
    for act in opened.acts:
        with pytest.raises(ConnectorError) as raised:
            opened.ports.statements.execute(script(act, autocommit=autocommit))
        assert (raised.value.code, "mutates_source: true" in str(raised.value.fix)) == (WOULD_WRITE, True), act
        assert victims(opened) == 3, act


def test_a_probe_changes_nothing(engine: tuple[str, Engine]) -> None:
    _, opened = engine
    assert opened.ports.statements is not None
    for act in opened.acts:
        with pytest.raises(ConnectorError) as raised:
            opened.ports.statements.answer(script(act, read_only=False))
        assert raised.value.code == WOULD_WRITE, act
        assert victims(opened) == 3, act


def test_a_query_of_the_source_changes_nothing(engine: tuple[str, Engine]) -> None:
    name, opened = engine
    for act in (one for one in opened.acts if one.startswith("SELECT")):
        text = f"{act.removesuffix(')')}) AS v" if act.endswith(")") else act
        request = ExtractRequest(query=SqlText(text=text))
        with pytest.raises(ConnectorError) as raised:
            read(opened.ports, request)
        assert raised.value.code == WOULD_WRITE, (name, act)
        assert victims(opened) == 3, act


def test_a_hook_that_is_declared_as_changing_changes(engine: tuple[str, Engine]) -> None:
    _, opened = engine
    assert opened.ports.statements is not None
    opened.ports.statements.execute(script("INSERT INTO victim VALUES (4)", read_only=False))
    assert victims(opened) == 4
    clickhouse = "victim VALUES (4)" in " ".join(opened.acts)
    undo = "ALTER TABLE victim DELETE WHERE id = 4 SETTINGS mutations_sync = 2" if clickhouse else ""
    opened.ports.statements.execute(script(undo or "DELETE FROM victim WHERE id = 4", read_only=False))
    assert victims(opened) == 3


def test_a_function_cannot_leave_the_read_only_transaction(engine: tuple[str, Engine]) -> None:
    name, opened = engine
    if name != "postgres":
        return
    assert opened.ports.statements is not None
    with pytest.raises(ConnectorError) as raised:
        opened.ports.statements.execute(script("SELECT unlocked()"))
    assert raised.value.code == "statement_failed" and victims(opened) == 3


@pytest.mark.slow
def test_every_text_of_the_corpus_that_reads_runs_and_changes_nothing(engine: tuple[str, Engine]) -> None:
    name, opened = engine
    assert opened.ports.statements is not None
    unread = []
    for text in CORPUS["read_only"][name.partition(" ")[0]]:
        tokens = dict.fromkeys(("data_interval_start", "data_interval_end"), "2024-01-01")
        statement = StatementScript(sql=SqlText(text=text), read_only=True, token_values=tokens)
        try:
            opened.ports.statements.execute(statement)
        except ConnectorError as error:
            if PARSED.get(text, "\0") not in str(error.__cause__):
                unread.append((text, error.code, str(error.__cause__)))
    assert unread == []
    assert victims(opened) == 3
