"""A session of a PostgreSQL source sees one state, cannot write unless a hook may, and names its own end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from dpone_core.connectors.postgres.open import open_source
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.statements import StatementScript
from tests.connectors.postgres_reading import Server, query, read, refused, statements, table, values
from tests.connectors.sessions import connection
from tests.live.servers import scratch_postgres


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture(scope="module")
def server(uri: str) -> Iterator[Server]:
    with statements(uri) as run:
        yield run


@pytest.fixture(scope="module")
def source(uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(uri)) as ports:
        yield ports


def test_one_stream_sees_one_snapshot(source: SourcePorts, server: Server) -> None:
    server("CREATE TABLE moved AS SELECT i AS id, repeat('x', 500) AS pad FROM generate_series(1, 40000) i")
    request = table("moved")
    stream = source.source.open_stream(request, source.source.describe(request))
    batches = stream.batches()
    rows = next(batches).num_rows
    server("DELETE FROM moved")
    assert rows + sum(batch.num_rows for batch in batches) == 40_000


def test_a_query_cannot_write(source: SourcePorts, server: Server) -> None:
    server(
        "CREATE TABLE untouched AS SELECT 1 AS v; CREATE FUNCTION wiped() RETURNS int LANGUAGE sql AS"
        " 'DELETE FROM untouched RETURNING 1'"
    )
    with refused("statement_not_read_only"):
        read(source, query("SELECT wiped() AS v"))
    assert server("SELECT count(*) FROM untouched") == [(1,)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT 1 AS a; SELECT 2", "source_request_invalid"),
        ("", "source_request_invalid"),
        ("SELECT 'canary' FROM nowhere", "source_query_refused"),
        ("SELEC 1", "source_query_refused"),
        ("SELECT {{ ds }} AS v WHERE {{ ds }} = ANY(1)", "source_query_refused"),
    ],
)
def test_a_query_that_is_refused_shows_no_text(source: SourcePorts, text: str, code: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        source.source.describe(query(text, ds="canary"))
    assert raised.value.code == code and "canary" not in str(raised.value)


def test_closing_from_another_thread_ends_a_running_query(source: SourcePorts) -> None:
    request = query("SELECT pg_sleep(30)::text AS v")
    stream = source.source.open_stream(request, source.source.describe(request))
    closer = threading.Timer(0.5, stream.close)
    began = time.monotonic()
    closer.start()
    assert list(stream.batches()) == []
    assert time.monotonic() - began < 10


def test_errors_of_sessions_are_told_apart(uri: str, server: Server) -> None:
    base = uri.rpartition("@")[2]
    with refused("source_unreachable", "does not answer"), open_source(connection("postgresql://x@127.0.0.1:9/x")):
        pass
    for bad, said in (
        (f"postgresql://nobody_here:canary@{base}", "refuses the login"),
        (uri.rpartition("/")[0] + "/no_such_database", "has no database 'no_such_database'"),
    ):
        with pytest.raises(ConnectorError) as raised, open_source(connection(bad)):
            pass
        assert raised.value.code == "source_unreachable"
        assert said in str(raised.value) and "canary" not in str(raised.value)
    with refused("connection_uri_invalid"), open_source(connection(f"{uri}?sslmod=require")):
        pass


def test_statement_timeout_lock_timeout_and_privilege_are_named(uri: str, server: Server) -> None:
    server("CREATE TABLE locked AS SELECT 1 AS v; CREATE TABLE hidden AS SELECT 1 AS v")
    limited = connection(f"{uri}?options=-c%20statement_timeout%3D200%20-c%20lock_timeout%3D100")
    with open_source(limited) as ports:
        with refused("source_query_refused", "statement timeout"):
            read(ports, query("SELECT pg_sleep(5)::text AS v"))
        with psycopg.connect(uri) as holder:
            holder.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
            with refused("source_query_refused", "lock_timeout"):
                read(ports, table("locked"))
    role = f"reader_{uuid4().hex[:12]}"
    server(f"CREATE ROLE {role} LOGIN")
    try:
        reader = connection(uri.replace("postgres@", f"{role}@"))
        with open_source(reader) as ports, refused("source_query_refused", "privilege on table 'hidden'"):
            read(ports, table("hidden"))
    finally:
        server(f"DROP ROLE {role}")


def test_a_server_that_goes_away_is_unreachable(uri: str, server: Server) -> None:
    with open_source(connection(uri)) as ports:
        request = query("SELECT i, repeat('x', 1000) AS pad FROM generate_series(1, 300000) i")
        batches = ports.source.open_stream(request, ports.source.describe(request)).batches()
        next(batches)
        server(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpone'"
            " AND datname = current_database()"
        )
        with refused("source_unreachable"):
            for _ in batches:
                pass
        assert values(ports, query("SELECT 5 AS v")) == [5]


def test_sessions_say_who_they_are(source: SourcePorts) -> None:
    text = "SELECT current_setting('application_name') AS v UNION ALL SELECT current_setting('transaction_isolation')"
    assert values(source, query(text)) == ["dpone", "repeatable read"]


def test_a_hook_runs_every_statement_and_keeps_its_transaction(source: SourcePorts, server: Server) -> None:
    assert source.statements is not None
    server("CREATE TABLE hooked (v text)")
    script = (
        "INSERT INTO hooked VALUES (E'a\\';b'), ({{ run_id }}); /* ; /* nested; */ ; */\n"
        "DO $body$ BEGIN INSERT INTO hooked VALUES ('c;d'); END $body$; SELECT * FROM generate_series(1, 100000); -- ;"
    )
    statement = StatementScript(sql=SqlText(text=script), token_values={"run_id": "r'1"})
    assert source.statements.execute(statement) == 3
    assert [row[0] for row in server("SELECT v FROM hooked ORDER BY v")] == ["a';b", "c;d", "r'1"]
    for bad, autocommit in (("BEGIN", True), ("COMMIT", False), ("ROLLBACK; BEGIN", False)):
        with refused("hook_transaction_state_changed"):
            source.statements.execute(StatementScript(sql=SqlText(text=bad), autocommit=autocommit))
    failing = StatementScript(sql=SqlText(text="DELETE FROM hooked; SELECT 1 / 0"), autocommit=False)
    with refused("statement_failed"):
        source.statements.execute(failing)
    assert server("SELECT count(*) FROM hooked") == [(3,)]
    kept = StatementScript(
        sql=SqlText(text="SAVEPOINT s; DELETE FROM hooked; ROLLBACK TO s; DELETE FROM hooked WHERE v = 'c;d'"),
        autocommit=False,
    )
    assert source.statements.execute(kept) == 4
    assert server("SELECT count(*) FROM hooked") == [(2,)]


def test_an_answer_cannot_write(source: SourcePorts, server: Server) -> None:
    assert source.statements is not None
    server("CREATE TABLE asked AS SELECT 1 AS v")
    with refused("statement_not_read_only", "would change something"):
        source.statements.answer(StatementScript(sql=SqlText(text="DELETE FROM asked RETURNING v")))
