"""The names that the SQL guard takes for an engine's own are asked of the engines (HOOK-30): each is there, and none of
PostgreSQL's is volatile unless it only answers differently each time."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import chdb
import duckdb
import psycopg
import pymysql
import pytest

from dpone_core.declared.functions import clickhouse as clickhouse_names
from dpone_core.declared.functions import duckdb as duckdb_names
from dpone_core.declared.functions import mssql as mssql_names
from dpone_core.declared.functions import mysql as mysql_names
from dpone_core.declared.functions import postgres as postgres_names
from dpone_core.declared.functions import sqlite as sqlite_names
from dpone_core.model.connector import words
from tests.connectors.mysql_servers import connected, is_mariadb
from tests.live.servers import scratch_mysql, scratch_postgres

ACTING = words(
    """
    nextval setval set_config currval lastval setseed pg_notify pg_sleep pg_terminate_backend pg_cancel_backend
    pg_advisory_lock pg_try_advisory_lock pg_read_file pg_ls_dir lo_import lo_export lo_unlink lo_get query_to_xml
    table_to_xml cursor_to_xml ts_stat ts_rewrite txid_current pg_current_xact_id pg_logical_emit_message dblink
    dblink_exec pg_reload_conf pg_switch_wal load_extension readfile writefile edit fts3_tokenizer sleep benchmark
    get_lock release_lock load_file sys_exec sys_eval last_insert_id master_pos_wait executable sleepeachrow throwif
    url remote dictget joinget query query_table getenv json_execute_serialized_sql write_log openquery openrowset
    opendatasource
    """
)


@pytest.mark.parametrize(
    "names",
    [
        clickhouse_names.ANY_CASE | clickhouse_names.AS_SPELLED | clickhouse_names.TABLE_FUNCTIONS,
        duckdb_names.FUNCTIONS | duckdb_names.TABLE_FUNCTIONS | duckdb_names.FILE_FUNCTIONS,
        mssql_names.FUNCTIONS | mssql_names.TABLE_FUNCTIONS,
        mysql_names.FUNCTIONS | mysql_names.TABLE_FUNCTIONS,
        postgres_names.FUNCTIONS,
        sqlite_names.FUNCTIONS | sqlite_names.TABLE_FUNCTIONS,
    ],
    ids=["clickhouse", "duckdb", "mssql", "mysql", "postgres", "sqlite"],
)
def test_nothing_that_acts_is_listed(names: frozenset[str]) -> None:
    assert not {name.lower() for name in names} & ACTING


def test_postgres_has_them_and_calls_none_volatile() -> None:
    with scratch_postgres() as uri, psycopg.connect(uri) as session:
        catalogue = session.execute(
            "SELECT proname, bool_or(provolatile = 'v') FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
            " GROUP BY 1"
        ).fetchall()
        types = {name for (name,) in session.execute("SELECT typname FROM pg_type WHERE typnamespace = 11")}
        operators = {name for (name,) in session.execute("SELECT oprname FROM pg_operator WHERE oprnamespace = 11")}
    volatile = {str(name): bool(acts) for name, acts in catalogue}
    assert [name for name in postgres_names.STABLE if volatile.get(name, True)] == []
    assert [name for name in postgres_names.VOLATILE if name not in volatile] == []
    assert operators >= postgres_names.OPERATORS
    grammar = words("array bigint boolean character dec decimal double float int integer national nchar real smallint")
    assert postgres_names.TYPES - grammar <= types


def test_mariadb_has_them() -> None:
    with scratch_mysql() as uri, closing(connected(uri)) as session, session.cursor() as cursor:
        if not is_mariadb(uri):
            pytest.skip("UNVERIFIED: MySQL has others")
        absent = []
        for name in sorted(mysql_names.BOTH):
            try:
                cursor.execute(f"SELECT {name}()")
            except pymysql.MySQLError as error:
                absent += [name] if error.args[0] == 1305 else []
    assert absent == []


def test_duckdb_has_them() -> None:
    with closing(duckdb.connect()) as session:
        rows = session.execute(
            "SELECT function_name, bool_or(stability = 'VOLATILE') FROM duckdb_functions() GROUP BY 1"
        )
        volatile = dict(rows.fetchall())
    assert [name for name in duckdb_names.STABLE if name not in volatile or volatile[name]] == []
    assert volatile.keys() >= duckdb_names.TABLE_FUNCTIONS | duckdb_names.FILE_FUNCTIONS | duckdb_names.VOLATILE


def test_sqlite_has_them() -> None:
    with closing(sqlite3.connect(":memory:")) as session:
        direct = {
            name for (name,) in session.execute("SELECT name FROM pragma_function_list WHERE flags & 0x80000 = 0")
        }
    assert sqlite_names.BUILT_IN - {"cast", "bm25", "highlight", "snippet"} <= direct


def test_clickhouse_has_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    with closing(chdb.connect(str(tmp_path_factory.mktemp("names") / "a.chdb"))) as session:
        answer = session.query("SELECT name, lower(name) FROM system.functions", "TabSeparated").bytes().decode()
        tables = session.query("SELECT name FROM system.table_functions", "TabSeparated").bytes().decode().split()
    spelled = {line.split("\t")[0] for line in answer.splitlines()}
    lowered = {line.split("\t")[1] for line in answer.splitlines()}
    assert spelled >= clickhouse_names.AS_SPELLED
    assert clickhouse_names.ANY_CASE - {"cast", "extract", "exists", "columns", "interval"} <= lowered
    assert set(tables) >= clickhouse_names.TABLE_FUNCTIONS
