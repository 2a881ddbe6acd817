"""Values and names that loads of other products lost, altered or refused: here they arrive exact, or are refused whole.

Real PostgreSQL and MariaDB, DuckDB and files; every load by both gates. Contract: VAL-26, VAL-27.
"""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.connectors.mysql_servers import connected
from tests.live.servers import scratch_mysql, scratch_postgres
from tests.spec.builders import Finished, Project, flow

GATES = {"gates": [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}]}
Server = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def postgres_uri() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


@pytest.fixture
def postgres(postgres_uri: str) -> Iterator[Server]:
    """Runs statements on a database whose schema `public` is empty and whose role has no settings."""
    with psycopg.connect(postgres_uri, autocommit=True) as server:
        server.execute("DROP SCHEMA IF EXISTS raw, etl_state CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public")

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor = server.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture(scope="module")
def mysql_uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def mysql(mysql_uri: str) -> Iterator[Callable[..., None]]:
    with closing(connected(mysql_uri)) as session, session.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("DROP TABLE IF EXISTS t")

        def run(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)

        yield run


def of_postgres(root: Path, uri: str, **changes: object) -> Project:
    source = {"type": "postgres", "connection_ref": "pg", "table": {"schema": "public", "name": "t"}}
    project = Project(root, environment={"DPONE_CONN_PG": uri})
    project.written(flow(source=source, quality=GATES, **changes))
    return project


def of_mysql(root: Path, uri: str, **changes: object) -> Project:
    table = {"schema": urlsplit(uri).path.strip("/"), "name": "t"}
    project = Project(root, environment={"DPONE_CONN_MY": uri})
    project.written(flow(source={"type": "mysql", "connection_ref": "my", "table": table}, quality=GATES, **changes))
    return project


def of_files(root: Path, file_format: str, columns: list[dict[str, object]], **changes: object) -> Project:
    project = Project(root)
    (root / "in").mkdir(exist_ok=True)
    source = {"type": "files", "options": {"path": "in", "format": file_format, "columns": columns}}
    project.written(flow(source=source, quality=GATES, **changes))
    return project


def into_postgres(**changes: object) -> dict[str, object]:
    return {"sink__type": "postgres", "sink__connection_ref": "pg", **changes}


def into_files(file_format: str) -> dict[str, object]:
    return {"sink__type": "files", "sink__options": {"files": {"format": file_format}}}


def column(name: str, kind: str, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


def loaded(project: Project, environment: dict[str, str] | None = None) -> Finished:
    finished = project.run(environment=environment)
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    return finished


def refused(project: Project) -> str:
    """The code of a run that changed nothing."""
    finished = project.run()
    assert finished.exit_code == 1, finished.stdout
    assert finished.result["failure_context"]["target_state"] == "not_mutated"
    return str(finished.code)


def lake(root: Path, manifest: Project) -> Path:
    """The one part that a files sink below `root` published."""
    manifest.environment["DPONE_CONN_DWH"] = f"file:///{root / 'lake'}"
    loaded(manifest)
    (part,) = (root / "lake/raw/orders").glob("part-*")
    return part


QUOTED = [(number, f"line one {number}\r\nline two\r\n" + "x" * (number % 97)) for number in range(60_000)]


def test_quoted_line_ends_at_every_border_of_blocks_stay_as_they_are(tmp_path: Path) -> None:
    """Line ends of two bytes inside quotes, moved over the border of a read block by the files' different heads."""
    project = of_files(tmp_path, "csv", [column("id", "int64"), column("name", "string")])
    for shift in range(8):
        rows = [(number * 8 + shift, "y" * shift + text) for number, text in QUOTED[shift::8]]
        with open(tmp_path / f"in/{shift}.csv", "w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows([("id", "name"), *rows])
    part = lake(tmp_path, change(project, **into_files("csv")))
    with open(part, newline="") as file:
        found = {int(number): text for number, text in list(csv.reader(file))[1:]}
    expected = {n * 8 + s: "y" * s + text for s in range(8) for n, text in QUOTED[s::8]}
    assert found == expected


def change(project: Project, **changes: object) -> Project:
    """The same project with a changed manifest."""
    manifest = yaml.safe_load((project.root / "m.yaml").read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        node = manifest
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = value
    project.written(manifest)
    return project


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_times_of_day_do_not_shift_with_a_zone(tmp_path: Path, postgres_uri: str, postgres: Server, zone: str) -> None:
    name = urlsplit(postgres_uri).path.strip("/")
    postgres("CREATE TABLE t (id int8, whole time(0), micro time(6))")
    postgres("INSERT INTO t VALUES (1, '00:00:00', '00:00:00.000001'), (2, '23:59:59', '23:59:59.999999')")
    postgres(f"ALTER DATABASE {name} SET TimeZone = '{zone}'")
    try:
        project = of_postgres(tmp_path, postgres_uri)
        loaded(project, {"TZ": zone})
        assert project.target("SELECT whole::text, micro::text FROM raw.orders ORDER BY id") == [
            ("00:00:00", "00:00:00.000001"),
            ("23:59:59", "23:59:59.999999"),
        ]
    finally:
        postgres(f"ALTER DATABASE {name} RESET TimeZone")


def test_a_wall_clock_that_does_not_exist_where_the_process_runs_is_kept(
    tmp_path: Path, mysql_uri: str, mysql: Callable[..., None]
) -> None:
    """02:30 of the night in which the clocks of Chicago go forward."""
    mysql("CREATE TABLE t (id BIGINT, made DATETIME(6))", "INSERT INTO t VALUES (1, '2026-03-08 02:30:00.000001')")
    project = of_mysql(tmp_path, mysql_uri)
    loaded(project, {"TZ": "America/Chicago"})
    assert project.target("SELECT made FROM raw.orders") == [(datetime(2026, 3, 8, 2, 30, 0, 1),)]


def test_moments_with_and_without_a_zone_stay_two_kinds(tmp_path: Path, postgres_uri: str, postgres: Server) -> None:
    postgres("CREATE TABLE t (id int8, wall timestamp, instant timestamptz)")
    postgres("INSERT INTO t VALUES (1, '2026-03-08 02:30', '2026-03-08 02:30+03')")
    part = lake(tmp_path, of_postgres(tmp_path, postgres_uri, **into_files("parquet")))
    table = pq.read_table(part)
    assert (table.schema.field("wall").type.tz, table.schema.field("instant").type.tz) == (None, "UTC")
    assert table.column("wall").to_pylist() == [datetime(2026, 3, 8, 2, 30)]
    assert table.column("instant").to_pylist() == [datetime(2026, 3, 7, 23, 30, tzinfo=UTC)]


def test_integers_into_decimal_columns_that_exist_are_exact_or_refused_by_column(
    tmp_path: Path, postgres_uri: str, postgres: Server
) -> None:
    postgres("CREATE TABLE t (id int8, small int4); INSERT INTO t VALUES (1, 2147483647), (9007199254740993, -1)")
    strategy = {"mode": "incremental_merge", "unique_key": ["id"]}
    project = of_postgres(tmp_path, postgres_uri, **into_postgres(sink__strategy=strategy, state={"type": "sink"}))
    change(project, source__options={"incremental": {"cursor_column": "id"}, "not_null": ["id"]})
    postgres("CREATE SCHEMA raw; CREATE TABLE raw.orders (id numeric(30,4) NOT NULL, small numeric(12,2))")
    loaded(project)
    there = [(Decimal("1.0000"), Decimal("2147483647.00")), (Decimal("9007199254740993.0000"), Decimal("-1.00"))]
    assert postgres("SELECT id, small FROM raw.orders ORDER BY id") == there
    postgres("ALTER TABLE t ALTER small TYPE int8; INSERT INTO t VALUES (9007199254740994, 10000000000)")
    assert refused(project) == "target_schema_differs"
    assert postgres("SELECT id, small FROM raw.orders ORDER BY id") == there


def test_a_single_precision_number_stays_the_same_number(
    tmp_path: Path, mysql_uri: str, mysql: Callable[..., None], postgres_uri: str, postgres: Server
) -> None:
    mysql("CREATE TABLE t (id BIGINT, rate FLOAT)", "INSERT INTO t VALUES (1, 113.926117), (2, 0.1), (3, -16777217)")
    project = of_mysql(tmp_path, mysql_uri, **into_postgres())
    loaded(project, {"DPONE_CONN_PG": postgres_uri})
    single = [struct.unpack("f", struct.pack("f", value))[0] for value in (113.926117, 0.1, -16777217.0)]
    assert [rate for (rate,) in postgres("SELECT rate::float8 FROM raw.orders ORDER BY id")] == single


def test_fractions_of_times_of_day_are_kept_from_both_servers(
    tmp_path: Path, mysql_uri: str, mysql: Callable[..., None], postgres_uri: str, postgres: Server
) -> None:
    moments = [time(0, 0, 0, 1), time(12, 34, 56, 789012), time(23, 59, 59, 999999)]
    values = ", ".join(f"({number}, '{moment.isoformat()}')" for number, moment in enumerate(moments))
    mysql("CREATE TABLE t (id BIGINT, made TIME(6))", f"INSERT INTO t VALUES {values}")
    postgres(f"CREATE TABLE t (id int8, made time(6)); INSERT INTO t VALUES {values}")
    for project in (of_mysql(tmp_path / "my", mysql_uri), of_postgres(tmp_path / "pg", postgres_uri)):
        loaded(project)
        assert project.target("SELECT made FROM raw.orders ORDER BY id") == [(moment,) for moment in moments]


GREAT = [2**53 + 1, None, 2**64 - 1, 0]
LEAST = [-(2**63), 2**53 + 1, None, 2**63 - 1]


@pytest.mark.parametrize("file_format", ["csv", "ndjson", "parquet"])
def test_integers_beside_null_keep_every_digit_in_files(tmp_path: Path, file_format: str) -> None:
    project = of_files(tmp_path, "parquet", [], **into_files(file_format))
    change(project, source__options={"path": "in", "format": "parquet"})
    table = pa.table({"id": pa.array(range(4)), "u": pa.array(GREAT, pa.uint64()), "i": pa.array(LEAST, pa.int64())})
    pq.write_table(table, tmp_path / "in/a.parquet")
    part = lake(tmp_path, project)
    if file_format == "parquet":
        found = [(row["u"], row["i"]) for row in pq.read_table(part).to_pylist()]
    elif file_format == "ndjson":
        found = [(row["u"], row["i"]) for row in map(json.loads, part.read_text().splitlines())]
    else:
        with open(part, newline="") as file:
            found = [(number(row["u"]), number(row["i"])) for row in csv.DictReader(file)]
    assert found == list(zip(GREAT, LEAST, strict=True))


def number(text: str) -> int | None:
    return None if text == "\\N" else int(text)


def test_lines_of_json_keep_digits_or_are_refused_by_line(tmp_path: Path) -> None:
    columns = [column("id", "uint64"), column("amount", "decimal(38,9)")]
    project = of_files(tmp_path, "ndjson", columns)
    lines = tmp_path / "in/a.ndjson"
    amount = '"amount": 12345678901234567890.123456789'
    lines.write_text(f'{{"id": 18446744073709551615, {amount}}}\n{{"id": 9007199254740993, "amount": null}}\n')
    loaded(project)
    assert project.target("SELECT id, amount FROM raw.orders ORDER BY id") == [
        (9007199254740993, None),
        (18446744073709551615, Decimal("12345678901234567890.123456789")),
    ]
    for line in ('{"id": "\\ud800"}', '{"id": 1e400}', '{"id": 1.5}', '{"ID": [1]}'):
        lines.write_text(line.replace("}", ', "amount": 1}') + "\n")
        assert refused(project)
    assert project.target("SELECT count(*) FROM raw.orders") == [(2,)]


ALIKE = "n" * 62
LONG = "л" * 31


def test_names_at_the_servers_limit_of_bytes_are_told_apart(
    tmp_path: Path, postgres_uri: str, postgres: Server
) -> None:
    """PostgreSQL cuts a name at 63 bytes without a word; names alike in the first 62 are two, 31 letters may be 62."""
    postgres(f"CREATE TABLE t (id int8, \"{LONG}\" text); INSERT INTO t VALUES (1, 'a')")
    for name in (f"{ALIKE}a", f"{ALIKE}b", LONG):
        project = of_postgres(tmp_path, postgres_uri, **into_postgres(sink__table={"schema": "raw", "name": name}))
        loaded(project)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'raw'::regnamespace AND relkind = 'r' ORDER BY 1"
    assert [name for (name,) in postgres(tables)] == [f"{ALIKE}a", f"{ALIKE}b", LONG]
    too_long = of_postgres(tmp_path, postgres_uri, **into_postgres(sink__table={"schema": "raw", "name": f"{ALIKE}ab"}))
    finished = too_long.run()
    assert finished.exit_code in (1, 2) and finished.code is not None
    assert [name for (name,) in postgres(tables)] == [f"{ALIKE}a", f"{ALIKE}b", LONG]


def test_a_role_that_ends_idle_transactions_does_not_end_a_read(
    tmp_path: Path, postgres_uri: str, postgres: Server
) -> None:
    """A sink that takes its time leaves the source waiting inside its transaction."""
    postgres(
        "CREATE TABLE t (id int8, name text); INSERT INTO t SELECT i, repeat('x', 500)"
        " FROM generate_series(1, 200000) i"
    )
    role = psycopg.conninfo.conninfo_to_dict(postgres_uri).get("user") or "postgres"
    name = urlsplit(postgres_uri).path.strip("/")
    postgres(f"ALTER ROLE {role} IN DATABASE {name} SET idle_in_transaction_session_timeout = '300ms'")
    try:
        project = of_postgres(tmp_path, postgres_uri)
        loaded(project)
        assert project.target("SELECT count(*) FROM raw.orders") == [(200_000,)]
    finally:
        postgres(f"ALTER ROLE {role} IN DATABASE {name} RESET idle_in_transaction_session_timeout")


KINDS = {
    "feeling": ("mood", "'ok'"),
    "positive_number": ("positive", "7"),
    "word": ('text COLLATE "C"', "'Straße'"),
    "span": ("interval", "interval '1 mon -2 days'"),
    "ratio": ("float8", "'-Infinity'::float8"),
    "doc": ("jsonb", "'{\"a\": 1e400}'::jsonb"),
    "bits": ("bit(3)", "B'101'"),
    "page": ("xml", "'<a/>'::xml"),
    "five": ("char(5)", "'ab'"),
    "number": ("oid", "4294967295"),
}


def test_uncommon_types_arrive_as_the_server_writes_them(tmp_path: Path, postgres_uri: str, postgres: Server) -> None:
    """By a cast of the author's and without one; a float stays one, and padding is part of a char(n)."""
    postgres("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN positive AS int CHECK (value > 0)")
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in KINDS.items())
    postgres(f"CREATE TABLE t (id int8, {declared})")
    postgres(f"INSERT INTO t SELECT 1, {', '.join(f'{value}::{kind.split()[0]}' for kind, value in KINDS.values())}")
    as_text = ", ".join(f"CAST({name} AS text) AS {name}" for name in KINDS)
    postgres("SET intervalstyle = 'iso_8601'")
    expected = postgres(f"SELECT {as_text} FROM t")
    project = of_postgres(tmp_path, postgres_uri)
    change(
        project,
        source={
            "type": "postgres",
            "connection_ref": "pg",
            "options": {"query": {"sql": f"SELECT id, {as_text} FROM public.t"}},
        },
    )
    loaded(project)
    assert project.target(f"SELECT {', '.join(KINDS)} FROM raw.orders") == expected
    whole = of_postgres(tmp_path / "whole", postgres_uri)
    loaded(whole)
    alike = ", ".join(f"{name}::text" for name in KINDS if name not in ("ratio", "five"))
    assert whole.target(f"SELECT {alike} FROM raw.orders") == postgres(f"SELECT {alike} FROM t")
    assert whole.target("SELECT ratio, five FROM raw.orders") == [(float("-inf"), "ab   ")]


def test_a_second_file_with_an_empty_date_is_null_where_the_empty_text_is_declared_so(tmp_path: Path) -> None:
    columns = [column("id", "int64"), column("day", "date")]
    project = of_files(tmp_path, "csv", columns)
    change(project, source__options={"path": "in", "format": "csv", "columns": columns, "csv": {"null_token": ""}})
    (tmp_path / "in/a.csv").write_text("id,day\n1,2026-01-01\n")
    (tmp_path / "in/b.csv").write_text("id,day\n2,\n")
    loaded(project)
    assert project.target("SELECT id, day FROM raw.orders ORDER BY id") == [(1, date(2026, 1, 1)), (2, None)]


def test_a_key_twice_in_what_is_read_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    strategy = {"mode": "incremental_merge", "unique_key": ["id"]}
    changes = {"sink__strategy": strategy, "state": {"type": "sink"}}
    project = Project(tmp_path)
    project.orders()
    project.written(flow(source__options={"incremental": {"cursor_column": "updated_at"}}, **changes))
    loaded(project)
    before = project.target()
    project.add_orders((4, "d", 40), (4, "e", 41))
    assert refused(project) == "merge_key_duplicate"
    assert project.target() == before


def test_a_parent_of_partitions_needs_no_grant_on_them(tmp_path: Path, postgres_uri: str, postgres: Server) -> None:
    postgres("CREATE TABLE t (id int8, hidden text) PARTITION BY RANGE (id)")
    postgres("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); INSERT INTO t VALUES (1, 's3cret')")
    postgres("DROP ROLE IF EXISTS dpone_reader; CREATE ROLE dpone_reader LOGIN")
    try:
        postgres("GRANT USAGE ON SCHEMA public TO dpone_reader; GRANT SELECT (id) ON t TO dpone_reader")
        uri = postgres_uri.replace("//postgres@", "//dpone_reader@")
        project = of_postgres(tmp_path, uri)
        source = {"type": "postgres", "connection_ref": "pg"}
        change(project, source={**source, "options": {"query": {"sql": "SELECT id FROM public.t"}}})
        loaded(project)
        assert project.target("SELECT id FROM raw.orders") == [(1,)]
        change(project, source={**source, "table": {"schema": "public", "name": "t"}})
        finished = project.run()
        assert finished.exit_code == 1 and "s3cret" not in finished.stdout
        assert project.target("SELECT id FROM raw.orders") == [(1,)]
    finally:
        postgres("DROP OWNED BY dpone_reader; DROP ROLE dpone_reader")


@pytest.mark.slow
def test_a_cell_of_fifty_megabytes_arrives_whole(tmp_path: Path, postgres_uri: str, postgres: Server) -> None:
    postgres("CREATE TABLE t (id int8, name text); INSERT INTO t SELECT 1, repeat('é', 26000000)")
    project = of_postgres(tmp_path, postgres_uri)
    loaded(project)
    assert project.target("SELECT length(name), md5(name) FROM raw.orders") == postgres(
        "SELECT length(name), md5(name) FROM t"
    )


def test_a_foreign_table_is_a_table(tmp_path: Path, postgres_uri: str, postgres: Server) -> None:
    server = "SELECT 1 FROM pg_available_extensions WHERE name = 'postgres_fdw'"
    if not postgres(server):
        pytest.skip("UNVERIFIED: this server has no postgres_fdw")
    parts = urlsplit(postgres_uri)
    postgres("CREATE TABLE behind (id int8, name text); INSERT INTO behind VALUES (1, 'a')")
    postgres("CREATE EXTENSION postgres_fdw SCHEMA public")
    try:
        options = f"host '{parts.hostname}', port '{parts.port or 5432}', dbname '{parts.path.strip('/')}'"
        postgres(f"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})")
        postgres(f"CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user '{parts.username}')")
        postgres("CREATE FOREIGN TABLE t (id int8, name text) SERVER far OPTIONS (table_name 'behind')")
        project = of_postgres(tmp_path, postgres_uri)
        loaded(project)
        assert project.target("SELECT id, name FROM raw.orders") == [(1, "a")]
    finally:
        postgres("DROP EXTENSION postgres_fdw CASCADE")


def test_sixteen_hundred_columns_are_the_servers_limit(tmp_path: Path, postgres_uri: str, postgres: Server) -> None:
    """Its limit is loaded; one more is refused with that reason, before anything is changed."""
    for count in (1600, 1601):
        project = Project(tmp_path / str(count), environment={"DPONE_CONN_PG": postgres_uri})
        names = ", ".join(f"c{index} INTEGER" for index in range(count))
        project.source(f"CREATE TABLE orders ({names})", "INSERT INTO orders (c0) VALUES (7)")
        project.written(flow(quality=GATES, **into_postgres(sink__table={"schema": "raw", "name": f"wide_{count}"})))
        finished = project.run()
        assert (finished.exit_code == 0) is (count == 1600), finished.stdout
    assert "1600" in finished.stdout or "1,600" in finished.stdout
    assert postgres("SELECT c0 FROM raw.wide_1600") == [(7,)]
    assert postgres("SELECT to_regclass('raw.wide_1601')") == [(None,)]
