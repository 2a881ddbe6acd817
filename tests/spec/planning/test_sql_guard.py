"""SQL is read-only only if it is provably one SELECT of known parts (HOOK-05).

`guard_corpus.yaml` is a pinned regression: a new version of the parser may make a verdict stricter, never looser.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sqlglot import expressions
from sqlglot.dialects.dialect import Dialect, Dialects
from sqlglot.expressions import FUNCTION_BY_NAME

from dpone_core.declared.registry import DECLARED, descriptor_of
from dpone_core.model.connector import ConnectorType
from dpone_core.model.hook import HookDefinition
from dpone_core.model.load_config import LoadConfig, SinkConfig, SourceConfig, StrategyConfig, TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import HookConnector, HookKind, HookPhase, StrategyMode
from dpone_core.planning.route import RouteRefusedError
from dpone_core.sql_guard.calls import has_function
from dpone_core.sql_guard.lexing import go_lines
from dpone_core.sql_guard.nodes import RESERVED_WORDS
from dpone_core.sql_guard.verdict import SqlEffect, classify
from dpone_core.use_cases.plan import plan_process

VERDICTS: dict[str, dict[str, list[str]]] = yaml.safe_load(
    (Path(__file__).parent / "guard_corpus.yaml").read_text("utf-8")
)
CORPUS = [
    (connector, sql, SqlEffect(effect))
    for effect, connectors in VERDICTS.items()
    for connector, texts in connectors.items()
    for sql in texts
]


def test_the_corpus_is_broad() -> None:
    assert len(CORPUS) >= 400 and len({(connector, sql) for connector, sql, _ in CORPUS}) == len(CORPUS)
    engines = {name.value for name, declared in DECLARED.items() if declared.sql is not None}
    assert {effect: set(connectors) for effect, connectors in VERDICTS.items()} == dict.fromkeys(SqlEffect, engines)


@pytest.mark.parametrize(("connector", "sql", "effect"), CORPUS)
def test_the_pinned_verdicts_hold(connector: str, sql: str, effect: SqlEffect) -> None:
    verdict = classify(sql, ConnectorType(connector))
    assert verdict.effect is effect, verdict
    assert verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("connector", VERDICTS["read_only"])
def test_no_name_that_the_parser_knows_passes_for_a_function_of_another_engine(connector: str) -> None:
    """A parser of many dialects knows names that one engine does not: there a user's function may bear them."""
    traits = descriptor_of(ConnectorType(connector)).sql
    assert traits is not None
    names = {*FUNCTION_BY_NAME, *(name for dialect in Dialects for name in _parsed_specially(dialect.value))}
    assert len(names) > 500
    grammar = RESERVED_WORDS | {"mysql": {"MATCH"}, "sqlite": {"MATCH"}, "duckdb": {"CHAR"}}.get(connector, set())
    for name in sorted(name for name in names if name.isidentifier() and name not in grammar):
        for text in (f"SELECT {name}(a) FROM t", f"SELECT {name}(a, 'b') FROM t", f"SELECT 1 FROM {name}(1) AS x"):
            if classify(text, ConnectorType(connector)).effect is SqlEffect.READ_ONLY:
                known = has_function(name.lower(), traits.names) or has_function(name, traits.names)
                assert known or name.lower() in traits.names.table_functions, text


def _parsed_specially(dialect: str) -> set[str]:
    parser = Dialect.get_or_raise(dialect or None).parser_class
    return {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS}


def test_a_connector_that_declares_no_sql_has_no_read_only_text() -> None:
    verdict = classify("SELECT 1", ConnectorType.FILES)
    assert verdict.effect is SqlEffect.MUTATING and verdict.reason == "files executes no SQL"


NAMES_OF_THE_PARSER = {
    name
    for name, found in vars(expressions).items()
    if isinstance(found, type) and issubclass(found, expressions.Expression)
}


def test_no_reason_holds_a_name_of_the_parser() -> None:
    """`EXEC` and `INTO` are words of SQL; `Command`, `Alias` and `TruncateTable` are classes."""
    reasons = {classify(sql, ConnectorType(connector)).reason for connector, sql, _ in CORPUS}
    assert len(reasons) > 40
    for reason in reasons:
        assert not NAMES_OF_THE_PARSER & set(re.findall(r"\w+", reason)), reason


@pytest.mark.parametrize(
    ("connector", "sql", "reason"),
    [
        ("mssql", "EXEC p", "it is no SELECT but EXEC"),
        ("mssql", "DBCC CHECKDB", "it is no SELECT but DBCC"),
        ("mssql", "p_refresh", "it is no SELECT"),
        ("mssql", "SELECT NEXT VALUE FOR s", "it calls NEXT VALUE FOR"),
        ("mysql", "SELECT @a := 1", "it holds an assignment to a variable"),
        ("clickhouse", "EXCHANGE TABLES a AND b", "it is no SELECT but EXCHANGE"),
        ("postgres", "TRUNCATE t", "it is no SELECT but TRUNCATE"),
        ("sqlite", "WITH x AS (SELECT 1) UPDATE t SET a = 1", "it is no SELECT but UPDATE"),
        ("postgres", "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "it holds DELETE"),
        ("postgres", "SELECT * INTO x FROM t", "it holds INTO, which writes what it reads"),
    ],
)
def test_a_statement_is_named_by_a_word_of_sql(connector: str, sql: str, reason: str) -> None:
    assert classify(sql, ConnectorType(connector)).reason == reason


def test_a_name_in_the_place_of_a_statement_is_not_shown() -> None:
    assert classify("canary", ConnectorType.MSSQL).reason == "it is no SELECT"


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
    traits = descriptor_of(ConnectorType.MSSQL).sql
    assert traits is not None and list(go_lines(sql, traits)) == lines


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


def configured(**changes: object) -> LoadConfig:
    """A configuration that no manifest stands behind, with one SQL hook."""
    hook = HookDefinition(id="a", phase=HookPhase.PRE, kind=HookKind.CUSTOM, sql=SqlText(text="DELETE FROM t"))
    return LoadConfig(
        process="orders",
        manifest="direct",
        source=SourceConfig(
            type=ConnectorType.SQLITE, connection_ref="shop", table=TableName(schema=None, name="orders")
        ),
        sink=SinkConfig(
            type=ConnectorType.CLICKHOUSE,
            connection_ref="dwh",
            table=TableName(schema="raw", name="orders"),
            strategy=StrategyConfig(mode=StrategyMode.FULL_REFRESH),
        ),
        hooks=(replace(hook, **changes),),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, "DPONE_HOOK_MUTATION_NOT_DECLARED"),
        (
            {"sql": SqlText(text="OPTIMIZE TABLE t"), "connector": HookConnector.SINK},
            "DPONE_HOOK_MUTATION_NOT_DECLARED",
        ),
        ({"sql": SqlText(text="SELECT '{{ ds }}'")}, "DPONE_SQL_TOKEN_QUOTED"),
        ({"kind": HookKind.DATA_QUALITY_PROBE, "mutates_source": True}, "DPONE_HOOK_PROBE_NOT_READ_ONLY"),
    ],
)
def test_planning_refuses_a_configuration_that_no_manifest_was_checked_for(
    changes: dict[str, object], code: str
) -> None:
    with pytest.raises(RouteRefusedError) as raised:
        plan_process(configured(**changes))
    assert raised.value.code == code
    assert raised.value.path == ("source", "options", "hooks", "pre_hook", 0, "sql")
    assert "FROM t" not in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"mutates_source": True},
        {"sql": SqlText(text="SELECT 1")},
        {
            "sql": SqlText(text="OPTIMIZE TABLE t"),
            "connector": HookConnector.SINK,
            "kind": HookKind.TARGET_MAINTENANCE,
        },
    ],
)
def test_planning_accepts_what_is_declared_or_harmless(changes: dict[str, object]) -> None:
    assert plan_process(configured(**changes)).plan.pre_hooks


def test_planning_without_sql_imports_no_parser(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(
        yaml.safe_dump(
            {
                "kind": "dpone.flow.v1",
                "name": "orders",
                "source": {
                    "type": "sqlite",
                    "connection_ref": "shop",
                    "table": {"name": "orders"},
                    "options": {"hooks": {"post_hook": [{"id": "a", "kind": "notification", "type": "marker"}]}},
                },
                "sink": {
                    "type": "clickhouse",
                    "connection_ref": "dwh",
                    "table": {"schema": "raw", "name": "orders"},
                    "strategy": {"mode": "full_refresh"},
                },
            }
        )
    )
    script = """
import sys
from dpone_core.api import plan
assert plan(sys.argv[1])[0]["hooks"]["post_hook"][0]["type"] == "marker"
loaded = {"sqlglot", "urllib.request"} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script, str(manifest)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
