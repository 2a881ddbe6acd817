"""SQL is read-only only if it is provably one SELECT of known parts (S1 "Hook API"; cases D19, D20, D21).

The corpus is a pinned regression: a new version of the parser may make a verdict stricter, never looser.
"""

from __future__ import annotations

import logging

import pytest

from dpone_core.model.connector import ConnectorType
from dpone_core.planning.sql_guard import SqlEffect, classify
from dpone_core.planning.sql_lexing import go_lines

READ_ONLY = [
    ("sqlite", "SELECT * FROM t WHERE a > 'x; DROP TABLE t'"),
    ("sqlite", "select rowid, strftime('%Y', a), json_extract(b, '$.a') from t -- DROP TABLE t"),
    ("sqlite", "WITH x AS (SELECT 1 AS a UNION ALL SELECT 2) SELECT * FROM x ORDER BY a LIMIT 10"),
    ("sqlite", "SELECT a, sum(b) OVER (PARTITION BY c ORDER BY d ROWS 3 PRECEDING) FROM t;"),
    ("sqlite", "SELECT * FROM t WHERE d >= {{ data_interval_start }} AND d < {{ data_interval_end }}"),
    ("sqlite", "SELECT CASE WHEN a IS NULL THEN 0 ELSE CAST(a AS INTEGER) END FROM t GROUP BY 1 HAVING count(*) > 1"),
    ("mssql", "/* DELETE */ SELECT TOP 10 a FROM [dbo].[t] WITH (NOLOCK) OPTION (RECOMPILE)"),
    ("mssql", "SELECT a FROM t CROSS APPLY dbo.f(t.a) AS x"),
    ("mssql", "SELECT [DELETE], 'EXEC p' FROM t"),
    ("clickhouse", "SELECT toYYYYMM(d), sumIf(a, b) FROM t FINAL PREWHERE a = 1 WHERE b GROUP BY 1"),
    ("clickhouse", "WITH 1 AS x SELECT arrayMap(y -> y + x, [1])"),
    ("postgres", "SELECT a::text, jsonb_agg(b) FROM t GROUP BY 1"),
    ("mysql", "SELECT `a`, IFNULL(b, 0) FROM t -- note"),
    ("duckdb", "SELECT * EXCLUDE (a) FROM t"),
    ("duckdb", "SELECT * FROM read_csv_auto('x.csv') AS t"),
    ("sqlite", "SELECT 1; -- done"),
    ("sqlite", "SELECT value FROM json_each('[1]')"),
    ("clickhouse", "SELECT number FROM numbers(10) ORDER BY number WITH FILL FROM 1 TO 20"),
    ("clickhouse", r"SELECT '\'; DROP TABLE t; --'"),
]

MUTATING = [
    ("mssql", "dbo.p_refresh"),
    ("mssql", "p_refresh"),
    ("mssql", "RECONFIGURE"),
    ("mssql", "DBCC CHECKDB"),
    ("mssql", "SELECT * INTO x FROM y"),
    ("mssql", "SELECT * FROM OPENQUERY(srv, 'DELETE FROM x')"),
    ("mssql", "SELECT * FROM OPENROWSET('a', 'b', 'c')"),
    ("mssql", "SELECT NEXT VALUE FOR s"),
    ("mssql", "BULK INSERT a FROM 'x'"),
    ("mssql", "WAITFOR DELAY '00:00:01'"),
    ("mssql", "\uff25\uff38\uff25\uff23 p"),
    ("mssql", "EXEC [schema].[p_refresh_base]"),
    ("mssql", "/* read only */ EXEC p"),
    ("mssql", "SELECT a FROM t RECONFIGURE"),
    ("mssql", "SELECT a FROM t\nSHUTDOWN"),
    ("mssql", "SELECT 1 DROP TABLE x"),
    ("mssql", "BEGIN TRAN DELETE FROM t"),
    ("mssql", "SELECT 1 -- x\rDROP TABLE t"),
    ("sqlite", "SELECT 1; DROP TABLE t"),
    ("sqlite", "SELECT 1; SELECT 2"),
    ("sqlite", "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"),
    ("sqlite", "-- comment\nUPDATE t SET a = 1"),
    ("sqlite", "PRAGMA user_version = 1"),
    ("sqlite", "ATTACH 'x' AS y"),
    ("sqlite", "SELECT load_extension('x')"),
    ("sqlite", "VACUUM INTO 'copy.db'"),
    ("sqlite", "SELECT 1 /* /* */ ; DROP TABLE t -- */"),
    ("sqlite", "SELECT 1 /* open"),
    ("sqlite", ""),
    ("sqlite", "not sql at all ("),
    ("postgres", "SELECT nextval('s')"),
    ("postgres", "SELECT setval('s', 1)"),
    ("postgres", "SELECT public.refresh_mart()"),
    ("postgres", "SELECT refresh_mart()"),
    ("postgres", "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x"),
    ("postgres", "SELECT * FROM t FOR UPDATE"),
    ("postgres", "EXPLAIN ANALYZE DELETE FROM t"),
    ("postgres", "CALL p()"),
    ("postgres", "DO $$ BEGIN DELETE FROM t; END $$"),
    ("mysql", "SELECT /*! SLEEP(1), */ 1"),
    ("mysql", "SELECT 1 --1; DROP TABLE t"),
    ("mysql", "SELECT @a := 1"),
    ("mysql", r"SELECT '\'; DROP TABLE t; --'"),
    ("postgres", r"SELECT '\'; DROP TABLE t; --'"),
    ("sqlite", r"SELECT '\'; DROP TABLE t; --'"),
    ("clickhouse", "SELECT * FROM remote('host', db.t, 'user', 'password')"),
    ("clickhouse", "SELECT * FROM executable('script.sh', TSV, 'a String')"),
    ("duckdb", "FROM postgres_execute('a', 'DROP TABLE x')"),
    ("duckdb", "SELECT * FROM query('DROP TABLE t')"),
    ("mssql", "DECLARE @x int = 1; SELECT @x"),
    ("mysql", "SELECT a INTO OUTFILE '/tmp/x' FROM t"),
    ("clickhouse", "SYSTEM RELOAD DICTIONARIES"),
    ("clickhouse", "EXCHANGE TABLES a AND b"),
    ("clickhouse", "SELECT 1 INTO OUTFILE 'x'"),
    ("clickhouse", "OPTIMIZE TABLE t FINAL DEDUPLICATE"),
    ("clickhouse", "OPTIMIZE TABLE t; DROP TABLE t"),
    ("duckdb", "COPY t TO 'x'"),
    ("duckdb", "INSTALL httpfs"),
]

MAINTENANCE = [
    ("clickhouse", "OPTIMIZE TABLE raw.orders FINAL"),
    ("clickhouse", "-- nightly\noptimize table `raw`.`orders` on cluster main final;"),
    ("postgres", "VACUUM FULL ANALYZE public.t"),
    ("postgres", "ANALYZE t"),
    ("sqlite", "ANALYZE"),
    ("duckdb", "VACUUM"),
    ("mysql", "ANALYZE TABLE t"),
    ("mssql", "UPDATE STATISTICS dbo.t WITH FULLSCAN"),
]

CORPUS = [
    (connector, sql, effect)
    for effect, cases in (
        (SqlEffect.READ_ONLY, READ_ONLY),
        (SqlEffect.MUTATING, MUTATING),
        (SqlEffect.MAINTENANCE, MAINTENANCE),
    )
    for connector, sql in cases
]


@pytest.mark.parametrize(("connector", "sql", "effect"), CORPUS)
def test_the_pinned_verdicts_hold(connector: str, sql: str, effect: SqlEffect) -> None:
    verdict = classify(sql, ConnectorType(connector))
    assert verdict.effect is effect, verdict
    assert verdict.reason


def test_every_statement_is_named() -> None:
    assert classify("SELECT 1; DELETE FROM t", ConnectorType.SQLITE).statements == ("Select", "Delete")


def test_a_verdict_shows_no_sql_and_logs_none(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for connector, _, _ in CORPUS:
            verdict = classify("OPTIMIZE canary; canary(", ConnectorType(connector))
            assert "canary" not in repr(verdict)
    assert "canary" not in caplog.text


def test_deep_nesting_is_mutating_and_no_crash() -> None:
    text = "SELECT " + "(" * 20_000 + "1" + ")" * 20_000
    assert classify(text, ConnectorType.SQLITE).effect is SqlEffect.MUTATING


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        ("SELECT 1\nGO\nSELECT 2", [2]),
        ("SELECT 1\n  go ;\r\nSELECT 2\nGO 2\n", [2, 4]),
        ("SELECT 'a\nGO\nb'", []),
        ("/*\nGO\n*/ SELECT 1", []),
        ("SELECT 1 -- x\n-- GO\nSELECT 2", []),
        ("SELECT [a\nGO\n]", []),
        ("SELECT a AS\nGOAL FROM t", []),
        ("SELECT GO FROM t", []),
    ],
)
def test_only_real_go_lines_are_separators(sql: str, lines: list[int]) -> None:
    assert list(go_lines(sql)) == lines


def test_a_go_separator_is_refused_with_its_line() -> None:
    verdict = classify("EXEC a\ngo\nEXEC b", ConnectorType.MSSQL)
    assert verdict.refusal is not None
    assert verdict.refusal.code == "DPONE_SQL_GO_SEPARATOR" and "line 2" in verdict.refusal.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 WHERE d = '{{ ds }}'",
        'SELECT "{{ ds }}"',
        "SELECT 1 -- {{ ds }}",
        "SELECT 1 WHERE d LIKE 'x{{ ds }}%'",
    ],
)
def test_a_token_inside_quotes_cannot_be_bound(sql: str) -> None:
    verdict = classify(sql, ConnectorType.SQLITE)
    assert verdict.refusal is not None and verdict.refusal.code == "DPONE_SQL_TOKEN_QUOTED"


def test_a_token_beside_quotes_is_fine() -> None:
    sql = "SELECT 'it''s' WHERE d = {{ ds }} AND e = 'x'"
    assert classify(sql, ConnectorType.SQLITE).effect is SqlEffect.READ_ONLY
