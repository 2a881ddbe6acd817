"""Publishing on PostgreSQL: readers see the old rows or the new rows, and nothing that hangs on a target is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import psycopg
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.testing.builders import ORDERS, TEXT, batch_of, orders, stage_request, with_column
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, postgres_database_of, postgres_sink
from tests.live.servers import scratch_postgres

MERGE = StrategyMode.INCREMENTAL_MERGE


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture(scope="module")
def sink(uri: str) -> Iterator[OpenSink]:
    with postgres_sink(uri, lock_timeout_seconds=1) as opened:
        run(opened, "CREATE SCHEMA conformance")
        yield opened


def run(sink: OpenSink, sql: str) -> list[tuple[object, ...]]:
    cursor = postgres_database_of(sink).connection().execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def made(sink: OpenSink, extra: str = "") -> TableName:
    """A target of the author's own, with the columns of ORDERS and rows 1 and 2."""
    table = fresh_table()
    run(sink, f"CREATE TABLE {table} (id int8 NOT NULL, name text, amount numeric(18,4){extra})")
    run(sink, f"INSERT INTO {table} VALUES (1, 'old'), (2, 'old')")
    return table


def oid(sink: OpenSink, table: TableName) -> object:
    return run(sink, f"SELECT '{table}'::regclass::oid")[0][0]


def finaliser(sink: OpenSink, *args: object, **fields: object) -> str:
    handle = sink.staged.stage(stage_request(*args, **fields), iter([orders(3)]))  # type: ignore[arg-type]
    name = sink.staged.finalize(handle).finaliser
    sink.staged.cleanup(handle.ref)
    return name


@pytest.mark.parametrize(("staging_schema", "extra"), [(None, ""), ("ops", ""), ("ops", ", PRIMARY KEY (id)")])
def test_a_reader_of_a_full_refresh_sees_old_or_new_only(
    uri: str, sink: OpenSink, staging_schema: str | None, extra: str
) -> None:
    table = made(sink, extra)
    sink.load(stage_request(table, "L0"), orders(*range(100)))
    seen: set[int] = set()
    stop, begun = threading.Event(), threading.Event()

    def read() -> None:
        with psycopg.connect(uri, autocommit=True) as reader:
            while not stop.is_set():
                seen.add(reader.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()[0])  # type: ignore[index]
                begun.set()

    reading = threading.Thread(target=read)
    reading.start()
    begun.wait()
    for load in range(1, 11):
        sink.load(stage_request(table, f"L{load}", staging_schema=staging_schema), orders(*range(100 + load % 2)))
    stop.set()
    reading.join()
    assert seen == {100, 101}


def test_an_old_snapshot_still_sees_the_old_rows_of_a_replaced_target(uri: str, sink: OpenSink) -> None:
    table = made(sink, ", PRIMARY KEY (id)")
    with psycopg.connect(uri) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        sink.load(stage_request(table), orders(3))
        assert reader.execute(f"SELECT id FROM {table} ORDER BY id".encode()).fetchall() == [(1,), (2,)]
    assert sink.ids(table) == [3]


def test_a_plain_target_is_swapped_and_stays_logged(sink: OpenSink) -> None:
    table = made(sink)
    before = oid(sink, table)
    assert finaliser(sink, table) == "swap_in_transaction"
    assert oid(sink, table) != before and sink.ids(table) == [3]
    assert run(sink, f"SELECT relpersistence::text FROM pg_class WHERE oid = '{table}'::regclass") == [("p",)]


ATTACHED = {
    "a primary key": ("", "ALTER TABLE {t} ADD PRIMARY KEY (id)"),
    "an index": ("", "CREATE INDEX ON {t} (name)"),
    "a check": ("", "ALTER TABLE {t} ADD CHECK (id > 0)"),
    "a foreign key": (
        "",
        "CREATE TABLE {t}_ref (n text PRIMARY KEY); ALTER TABLE {t} ADD FOREIGN KEY (name)"
        " REFERENCES {t}_ref; INSERT INTO {t}_ref VALUES ('n')",
    ),
    "a view": ("", "CREATE VIEW {t}_view AS SELECT * FROM {t}"),
    "grants": ("", "GRANT SELECT ON {t} TO PUBLIC"),
    "column grants": ("", "GRANT SELECT (id) ON {t} TO PUBLIC"),
    "a trigger": (
        "",
        "CREATE FUNCTION {t}_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER x BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_f()",
    ),
    "a policy": ("", "CREATE POLICY p ON {t} USING (true)"),
    "row security": ("", "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY"),
    "a default": ("", "ALTER TABLE {t} ALTER name SET DEFAULT 'x'"),
    "a computed column": (", twice int8 GENERATED ALWAYS AS (id * 2) STORED", "SELECT 1"),
    "an identity": (", serial_no int8 GENERATED ALWAYS AS IDENTITY", "SELECT 1"),
    "options": ("", "ALTER TABLE {t} SET (fillfactor = 70)"),
    "statistics": ("", "CREATE STATISTICS conformance.s_{n} ON id, name FROM {t}"),
    "a target of statistics": ("", "ALTER TABLE {t} ALTER id SET (n_distinct = 5)"),
    "a column comment": ("", "COMMENT ON COLUMN {t}.id IS 'key'"),
    "a child": ("", "CREATE TABLE {t}_child () INHERITS ({t})"),
    "a row type": ("", "CREATE TABLE {t}_user (v {t})"),
    "a publication": ("", "ALTER TABLE {t} REPLICA IDENTITY FULL; CREATE PUBLICATION p_{n} FOR TABLE {t}"),
    "a collation": ("", 'ALTER TABLE {t} ALTER name TYPE text COLLATE "C"'),
    "a replica identity": ("", "ALTER TABLE {t} REPLICA IDENTITY FULL"),
    "no logging": ("", "ALTER TABLE {t} SET UNLOGGED"),
}


@pytest.mark.parametrize("what", ATTACHED)
def test_a_target_with_something_attached_keeps_it(sink: OpenSink, what: str) -> None:
    extra, attach = ATTACHED[what]
    table = made(sink, extra)
    run(sink, "TRUNCATE " + str(table)) if what == "a foreign key" else None
    run(sink, attach.format(t=table, n=table.name))
    before = oid(sink, table)
    sink.ports.target.preflight(stage_request(table))
    assert finaliser(sink, table) == "replace_in_transaction"
    assert oid(sink, table) == before and sink.ids(table) == [3]
    wider = with_column(ORDERS, Column(name="note", type=TEXT))
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(stage_request(table, "L2", schema=wider))
    assert raised.value.code == "physical_design_mismatch" and "'note'" in str(raised.value)


def test_rows_that_another_table_refers_to_are_not_deleted(sink: OpenSink) -> None:
    table = made(sink, ", PRIMARY KEY (id)")
    run(sink, f"CREATE TABLE {table}_ref (id int8 REFERENCES {table}); INSERT INTO {table}_ref VALUES (1)")
    handle = sink.staged.stage(stage_request(table), iter([orders(3)]))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused" and "constraint" in str(raised.value)
    sink.staged.cleanup(handle.ref)
    assert sink.ids(table) == [1, 2]
    merged = replace(stage_request(table, "L2", strategy=MERGE), unique_key=("id",))
    sink.load(merged, orders(1, 3, name="new"))
    assert sorted((row["id"], row["name"]) for row in sink.rows(table)) == [(1, "new"), (2, "old"), (3, "new")]


def test_a_trigger_that_keeps_rows_out_ends_the_load(sink: OpenSink) -> None:
    table = made(sink)
    run(
        sink,
        f"CREATE FUNCTION {table}_f() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN IF NEW.id = 4 THEN RETURN NULL; END IF; RETURN NEW; END'",
    )
    run(sink, f"CREATE TRIGGER x BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_f()")
    for load, strategy in (("A", APPEND), ("B", StrategyMode.FULL_REFRESH)):
        handle = sink.staged.stage(stage_request(table, load, strategy=strategy), iter([orders(3, 4)]))
        with pytest.raises(ConnectorError) as raised:
            sink.staged.finalize(handle)
        assert raised.value.code == "finaliser_refused" and "expected to hold" in str(raised.value)
        sink.staged.cleanup(handle.ref)
    assert sink.ids(table) == [1, 2]


def test_a_trigger_that_adds_rows_ends_the_load(sink: OpenSink) -> None:
    table = made(sink)
    run(
        sink,
        f"CREATE FUNCTION {table}_f() RETURNS trigger LANGUAGE plpgsql AS"
        f" 'BEGIN INSERT INTO {table} (id) VALUES (-NEW.id); RETURN NULL; END'",
    )
    run(
        sink,
        f"CREATE TRIGGER x AFTER INSERT ON {table} FOR EACH ROW WHEN (NEW.id > 0) EXECUTE FUNCTION {table}_f()",
    )
    for load, strategy in (("A", APPEND), ("B", StrategyMode.FULL_REFRESH)):
        handle = sink.staged.stage(stage_request(table, load, strategy=strategy), iter([orders(3, 4)]))
        with pytest.raises(ConnectorError, match="expected to hold") as raised:
            sink.staged.finalize(handle)
        assert raised.value.code == "finaliser_refused"
        sink.staged.cleanup(handle.request.ref)
    assert sink.ids(table) == [1, 2]


def test_staging_that_lost_its_rows_is_never_published(sink: OpenSink) -> None:
    table = made(sink)
    for load, strategy in (("A", APPEND), ("M", MERGE)):
        request = replace(stage_request(table, load, strategy=strategy), unique_key=("id",))
        handle = sink.staged.stage(request, iter([orders(3, 4)]))
        assert run(sink, f"SELECT relpersistence::text FROM pg_class WHERE oid = '{handle.table}'::regclass") == [
            ("u",)
        ]
        run(sink, f"TRUNCATE {handle.table}")  # as a crash of the server does to unlogged tables
        with pytest.raises(ConnectorError) as raised:
            sink.staged.finalize(handle)
        assert raised.value.code == "finaliser_refused"
        sink.staged.cleanup(handle.ref)
    handle = sink.staged.stage(stage_request(table, "V", strategy=APPEND), iter([orders(3, 4)]))
    run(sink, f"DROP TABLE {table}; TRUNCATE {handle.table}")
    with pytest.raises(ConnectorError):
        sink.staged.finalize(handle)
    sink.staged.cleanup(handle.ref)
    handle = sink.staged.stage(stage_request(table, "W", strategy=APPEND), iter([orders(5)]))
    sink.staged.finalize(handle)
    assert sink.ids(table) == [5]
    assert run(sink, f"SELECT relpersistence::text FROM pg_class WHERE oid = '{table}'::regclass") == [("p",)]


def test_a_target_that_vanished_after_staging_is_created_logged(sink: OpenSink) -> None:
    table = made(sink)
    handle = sink.staged.stage(stage_request(table, strategy=APPEND), iter([orders(3)]))
    run(sink, f"DROP TABLE {table}")
    sink.staged.finalize(handle)
    sink.staged.cleanup(handle.ref)
    assert sink.ids(table) == [3]
    assert run(sink, f"SELECT relpersistence::text FROM pg_class WHERE oid = '{table}'::regclass") == [("p",)]


def test_what_is_attached_after_staging_is_seen_too(sink: OpenSink) -> None:
    table = made(sink)
    handle = sink.staged.stage(stage_request(table), iter([orders(3)]))
    run(sink, f"CREATE VIEW {table}_late AS SELECT * FROM {table}")
    assert sink.staged.finalize(handle).finaliser == "replace_in_transaction"
    sink.staged.cleanup(handle.ref)
    assert run(sink, f"SELECT id FROM {table}_late") == [(3,)]


def test_a_lock_that_is_not_granted_leaves_the_target_alone(uri: str, sink: OpenSink) -> None:
    table = made(sink)
    handle = sink.staged.stage(stage_request(table), iter([orders(3)]))
    with psycopg.connect(uri) as holder:
        holder.execute(f"SELECT * FROM {table}".encode())
        began = time.monotonic()
        with pytest.raises(ConnectorError) as raised:
            sink.staged.finalize(handle)
        assert time.monotonic() - began < 5
    assert raised.value.code == "finaliser_refused" and "lock" in str(raised.value)
    assert sink.ids(table) == [1, 2]
    assert sink.staged.finalize(handle).finaliser == "swap_in_transaction"
    sink.staged.cleanup(handle.ref)


def test_the_comment_of_the_author_stays(sink: OpenSink) -> None:
    for extra in ("", ", PRIMARY KEY (id)"):
        table = made(sink, extra)
        run(sink, f"COMMENT ON TABLE {table} IS 'it''s finance'")
        for load in ("L1", "L2"):
            sink.load(stage_request(table, load), orders(2))
        assert "it's finance [dpone " in sink.definition(table)
        assert sink.definition(table).count("[dpone ") == 1


def test_views_foreign_designs_and_computed_columns_are_refused(sink: OpenSink) -> None:
    table = made(sink, ", twice int8 GENERATED ALWAYS AS (id * 2) STORED")
    view = fresh_table()
    run(sink, f"CREATE VIEW {view} AS SELECT * FROM {table}")
    computed = with_column(ORDERS, Column(name="twice", type=ColumnType(kind=ColumnKind.INT64)))
    partitioned = PhysicalDesign(partition_by=PartitionBy(column="id"))
    for request in (
        stage_request(view),
        stage_request(table, schema=computed),
        replace(stage_request(table), physical_design=partitioned),
        replace(stage_request(table), physical_design=PhysicalDesign(cluster="c")),
    ):
        with pytest.raises(ConnectorError) as raised:
            sink.ports.target.preflight(request)
        assert raised.value.code == "physical_design_mismatch"


def test_a_role_without_the_rights_is_told_before_the_load(uri: str, sink: OpenSink) -> None:
    table = made(sink)
    role = f"loader_{table.name}_{uri.rpartition('_')[2]}"
    run(sink, f"CREATE ROLE {role} LOGIN")
    try:
        with postgres_sink(uri.replace("postgres@", f"{role}@")) as limited:
            with pytest.raises(ConnectorError) as raised:
                limited.ports.target.preflight(stage_request(table))
            assert raised.value.code == "finaliser_assumption_failed" and "'conformance'" in str(raised.value)
            run(sink, f"GRANT USAGE, CREATE ON SCHEMA conformance TO {role}")
            with pytest.raises(ConnectorError) as raised:
                limited.ports.target.preflight(stage_request(table))
            assert raised.value.code == "finaliser_assumption_failed" and "own" in str(raised.value)
            own = fresh_table()
            limited.load(stage_request(own), orders(1))
            limited.load(stage_request(own, "L2"), orders(2))
            assert limited.ids(own) == [2]
        read_only = f"{uri}?options=-c%20default_transaction_read_only%3Don"
        with postgres_sink(read_only) as standby, pytest.raises(ConnectorError) as raised:
            standby.ports.target.preflight(stage_request(table))
        assert raised.value.code == "finaliser_assumption_failed" and "read only" in str(raised.value)
    finally:
        run(sink, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_rows_find_their_partition(sink: OpenSink) -> None:
    table = fresh_table()
    run(sink, f"CREATE TABLE {table} (id int8 NOT NULL, name text, amount numeric(18,4)) PARTITION BY LIST (id)")
    run(sink, f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES IN (1)")
    run(sink, f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT")
    sink.load(stage_request(table, "L1"), orders(1, 2))
    sink.load(stage_request(table, "L2", strategy=APPEND), orders(1))
    request = replace(stage_request(table, "L3", strategy=MERGE), unique_key=("id",))
    with pytest.raises(ConnectorError) as raised:
        sink.load(request, orders(1))
    assert raised.value.code == "merge_key_duplicate"
    assert run(sink, f"SELECT count(*) FROM {table}_1") == [(2,)]


def test_a_merge_twice_is_a_merge_once(sink: OpenSink) -> None:
    table = made(sink, ", PRIMARY KEY (id)")
    request = replace(stage_request(table, strategy=MERGE), unique_key=("id",))
    rows = [{"id": 2, "name": "new", "amount": Decimal("1.5")}, {"id": 3}]
    handle = sink.staged.stage(request, iter([batch_of(ORDERS, rows)]))
    first, second = sink.staged.finalize(handle), sink.staged.finalize(handle)
    sink.staged.cleanup(handle.ref)
    assert (first.finaliser, first.inserted_rows, first.updated_rows, first.total_rows) == (
        "merge_in_transaction",
        1,
        1,
        3,
    )
    assert (second.finaliser, second.inserted_rows, second.updated_rows) == ("already_published", 1, 1)
    assert sorted((row["id"], row["name"]) for row in sink.rows(table)) == [(1, "old"), (2, "new"), (3, None)]


def test_policies_never_make_a_replacement_partial(uri: str, sink: OpenSink) -> None:
    table = made(sink)
    role = f"filtered_{uri.rpartition('_')[2]}"
    run(sink, f"CREATE ROLE {role} LOGIN; GRANT USAGE, CREATE ON SCHEMA conformance TO {role}")
    try:
        run(
            sink,
            f"ALTER TABLE {table} OWNER TO {role}; ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;"
            f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY; CREATE POLICY p ON {table} USING (id = 1)",
        )
        with postgres_sink(uri.replace("postgres@", f"{role}@")) as limited:
            handle = limited.staged.stage(stage_request(table), iter([orders(1)]))
            with pytest.raises(ConnectorError) as raised:
                limited.staged.finalize(handle)
            limited.staged.cleanup(handle.ref)
        assert raised.value.code == "finaliser_refused"
        assert sink.ids(table) == [1, 2]
    finally:
        run(sink, f"ALTER TABLE {table} OWNER TO postgres; DROP OWNED BY {role}; DROP ROLE {role}")
