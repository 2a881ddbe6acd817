"""A MySQL stream reads one statement in one snapshot, ends as it should, and shows no secret. Tested on MariaDB."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import quote, urlsplit

import pytest

from dpone_core.connectors.mysql.address import address_of
from dpone_core.connectors.mysql.open import open_source
from dpone_core.connectors.mysql.source.reader import MySqlStream
from dpone_core.connectors.mysql.text import text_literal
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.session import SourcePorts
from tests.connectors.mysql_servers import (
    READERS,
    T,
    connected,
    needs_mariadb,
    query,
    read,
    sequence,
    without_table,
)
from tests.connectors.sessions import connection
from tests.live.servers import scratch_mysql
from tests.marks import first_quick

EITHER = ("auto", pytest.param("pymysql", marks=pytest.mark.slow))


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def server(uri: str) -> Iterator[Callable[..., None]]:
    """Runs statements, zero dates allowed; the table `t` is new for every test."""
    with without_table(uri) as run:
        yield run


@pytest.fixture
def ports(uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(uri)) as ports:
        yield ports


def test_tokens_are_values_whatever_they_hold(server: Callable[..., None], ports: SourcePorts) -> None:
    server(
        "CREATE TABLE t (v VARCHAR(99) COLLATE utf8mb4_unicode_ci)", "INSERT INTO t VALUES ('it''s \\\\ é😀 --'), ('x')"
    )
    request = query("SELECT v FROM t WHERE v = {{ run_id }} AND {{ ds }} = ''", run_id="it's \\ é😀 --", ds="")
    assert read(ports, request) == [{"v": "it's \\ é😀 --"}]


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT,IGNORE_SPACE"])
def test_bound_values_do_not_depend_on_the_mode_of_the_server(
    server: Callable[..., None], ports: SourcePorts, mode: str
) -> None:
    server(f"SET sql_mode = '{mode}'", "CREATE TABLE t (v VARCHAR(99))")
    server(f"INSERT INTO t VALUES ({text_literal(chr(39) + chr(92) + chr(34))})")
    server("UPDATE t SET v = 'as it was' WHERE v = CONCAT(CHAR(39), CHAR(92), CHAR(34))")
    assert read(ports) == [{"v": "as it was"}]


@pytest.mark.parametrize("text", ["SELECT 1; SELECT 2", "", "-- nothing"])
def test_a_query_is_one_statement(ports: SourcePorts, text: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        ports.source.describe(query(text))
    assert raised.value.code == "source_request_invalid"


@pytest.mark.parametrize("reader", READERS)
def test_a_stream_reads_one_snapshot_in_a_read_only_transaction(
    uri: str, server: Callable[..., None], reader: str
) -> None:
    server("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    needs_mariadb(uri, "variable that says whether a transaction is open")
    asked = query("SELECT @@in_transaction AS open, @@tx_isolation AS level, @@time_zone AS zone FROM t")
    with open_source(connection(f"{uri}?reader={reader}")) as ports:
        assert read(ports, asked) == [{"open": 1, "level": "REPEATABLE-READ", "zone": "+00:00"}]


@pytest.mark.parametrize("reader", first_quick(READERS))
@pytest.mark.parametrize("how", first_quick(["KILL", "KILL QUERY"]))
def test_a_server_that_stops_in_the_middle_is_no_short_success(
    uri: str, server: Callable[..., None], reader: str, how: str
) -> None:
    server("CREATE TABLE t (id INT PRIMARY KEY)", f"INSERT INTO t SELECT seq FROM {sequence(100_000)}")
    asked = query("SELECT id, REPEAT('x', 5000) AS v, CONNECTION_ID() AS me FROM t")
    with open_source(connection(f"{uri}?reader={reader}")) as ports:
        stream = ports.source.open_stream(asked, ports.source.describe(asked))
        batches = stream.batches()
        first = next(batches)
        server(f"{how} {first.column('me')[0].as_py()}")
        with pytest.raises(ETLExecutionError) as raised:
            list(batches)
    assert raised.value.code in ("source_reader_died", "source_unreachable")


def test_the_path_that_ran_is_logged_with_its_reason(
    uri: str, server: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    server("CREATE TABLE t (id INT)")
    with caplog.at_level(logging.INFO, "dpone"):
        for reader in READERS:
            with open_source(connection(f"{uri}?reader={reader}")) as ports:
                read(ports)
    assert [record.getMessage() for record in caplog.records] == [
        "mysql source: reader=connectorx, binary protocol, one snapshot",
        "mysql source: reader=pymysql (asked for by the connection), text protocol, one snapshot",
    ]


def test_wide_rows_come_in_batches_bounded_by_bytes(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    server(f"INSERT INTO t SELECT seq, REPEAT('x', 20000) FROM {sequence(10_000)}")
    stream = ports.source.open_stream(T, ports.source.describe(T))
    sizes = [(batch.num_rows, batch.nbytes) for batch in stream.batches()]
    assert sum(rows for rows, _ in sizes) == 10_000
    assert max(size for _, size in sizes) < 100 << 20


def test_a_changed_column_between_description_and_reading_is_refused(
    server: Callable[..., None], ports: SourcePorts
) -> None:
    server("CREATE TABLE t (a INT)")
    schema = ports.source.describe(T)
    server("ALTER TABLE t CHANGE a b INT")
    with pytest.raises(ETLExecutionError) as raised:
        list(ports.source.open_stream(T, schema).batches())
    assert raised.value.code == "source_query_refused"


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("mysql://root:canary@127.0.0.1:1/x", "source_unreachable"),
        ("mysql://nobody:canary@127.0.0.1:3306/x", "source_unreachable"),
        ("mysql://root@127.0.0.1:3306/x?tls=required", "source_unreachable"),
        ("mysql://root@127.0.0.1:3306/x?tls=verify", "source_unreachable"),
        ("mysql://root@127.0.0.1:3306/x?tls=maybe", "connection_uri_invalid"),
        ("mysql://root@127.0.0.1:3306/x?tls_ca=/canary", "connection_uri_invalid"),
        ("mysql://root@127.0.0.1:3306/x?charset=canary", "connection_uri_invalid"),
        ("mysql://root@127.0.0.1:3306/x/canary", "connection_uri_invalid"),
        ("mysql:///canary", "connection_uri_invalid"),
        ("mysql://root@127.0.0.1:canary/x", "connection_uri_invalid"),
    ],
)
def test_what_cannot_be_opened_says_so_and_shows_nothing(uri: str, address: str, code: str) -> None:
    with pytest.raises(ConnectorError) as raised, open_source(connection(address)):
        pass
    assert raised.value.code == code and "canary" not in str(raised.value)


def test_an_address_keeps_special_characters_and_hides_its_password() -> None:
    address = address_of(connection("mysql://us%40er:p%2Fw%3A%25@[::1]:3307/d%20b"))
    assert (address.host, address.port, address.user, address.password, address.database) == (
        "::1",
        3307,
        "us@er",
        "p/w:%",
        "d b",
    )
    assert address.rust_uri == "mysql://us%40er:p%2Fw%3A%25@[::1]:3307/d%20b?prefer_socket=false"
    assert "p/w" not in repr(address)


def test_a_password_with_every_special_character_opens_both_readers(uri: str, server: Callable[..., None]) -> None:
    password = "p@ss:w/o?r#d%25 é&=+"
    parts = urlsplit(uri)
    user = f"u_{parts.path.strip('/')[-8:]}"
    server(
        f"CREATE USER {user} IDENTIFIED BY '{password}'", f"GRANT SELECT ON *.* TO {user}", "CREATE TABLE t (id INT)"
    )
    try:
        for reader in READERS:
            address = (
                f"mysql://{user}:{quote(password, safe='')}@{parts.hostname}:{parts.port}{parts.path}?reader={reader}"
            )
            with open_source(connection(address)) as ports:
                assert read(ports) == []
    finally:
        server(f"DROP USER {user}")


def test_a_connection_without_a_database_needs_a_schema(uri: str) -> None:
    with open_source(connection(uri.rsplit("/", 1)[0])) as ports, pytest.raises(ConnectorError) as raised:
        ports.source.describe(T)
    assert raised.value.code == "source_object_not_found" and "URI" in str(raised.value.fix)


def test_reading_cannot_write(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (id INT)", "DROP FUNCTION IF EXISTS sneaky")
    server("CREATE FUNCTION sneaky() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO t VALUES (1); RETURN 1; END")
    try:
        with pytest.raises(ETLExecutionError):
            read(ports, query("SELECT sneaky() AS s"))
        assert read(ports) == []
    finally:
        server("DROP FUNCTION sneaky")


@pytest.mark.parametrize("reader", READERS)
def test_closing_ends_a_query_that_has_not_answered_here_and_on_the_server(
    uri: str, server: Callable[..., None], reader: str
) -> None:
    running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '/* dpone % SLEEP(77)%'"
    server("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1), (2)")
    asked = query("SELECT SLEEP(77) AS s FROM t")
    with (
        open_source(connection(f"{uri}?reader={reader}")) as ports,
        closing(connected(uri)) as session,
        session.cursor() as cursor,
    ):
        stream = ports.source.open_stream(asked, ports.source.describe(asked))

        def seen(wanted: int) -> bool:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                cursor.execute(running)
                if cursor.fetchone() == (wanted,):
                    return True
                time.sleep(0.05)
            return False

        found: list[object] = []
        reading = threading.Thread(target=lambda: found.extend(stream.batches()))
        reading.start()
        assert seen(1)
        stream.close()
        reading.join(timeout=20)
        assert not reading.is_alive() and found == []
        assert seen(0)


def test_the_secret_of_a_stream_is_in_no_repr(uri: str) -> None:
    address = address_of(connection("mysql://root:canary@127.0.0.1/x"))
    stream = MySqlStream(address, "SELECT 1", TableSchema(columns=()))
    assert "canary" not in repr(address) and "canary" not in repr(stream._reader._request)
    assert "canary" in json.dumps(address.as_json())
