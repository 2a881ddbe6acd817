"""No SQL text holds credentials of another system: not what dpone renders, not what a manifest may ask (EVID-16)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpone_core
from dpone_core.model.connector import ConnectorType
from dpone_core.sql_guard.verdict import SqlEffect, classify

CONNECTORS = Path(dpone_core.__file__).parent / "connectors"
REMOTE = re.compile(
    r"\b(postgresql|mysql|remote|remoteSecure|mongodb|redis|s3|s3Cluster|azureBlobStorage|hdfs|url|odbc|jdbc|deltaLake|"
    r"iceberg|postgres_scan|mysql_scan|sqlite_scan|dblink|OPENROWSET|OPENDATASOURCE)\(",
    re.IGNORECASE,
)


def texts_of(path: Path) -> Iterator[str]:
    """Every text of a module that is no docstring, with parts of f-strings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


@pytest.mark.parametrize(
    "path", sorted(CONNECTORS.rglob("*.py")), ids=lambda path: path.relative_to(CONNECTORS).as_posix()
)
def test_no_connector_renders_a_table_function_of_another_system(path: Path) -> None:
    assert [text for text in texts_of(path) if REMOTE.search(text)] == []


@pytest.mark.parametrize(
    "call",
    [
        "postgresql('host:5432', 'db', 't', 'u', 's3cret')",
        "mysql('host:3306', 'db', 't', 'u', 's3cret')",
        "remote('host', db, t, 'u', 's3cret')",
        "remoteSecure('host', db, t, 'u', 's3cret')",
        "s3('https://b/x.parquet', 'key', 's3cret')",
        "mongodb('host:27017', 'db', 't', 'u', 's3cret', 'a Int8')",
        "url('https://u:s3cret@host/x.csv')",
    ],
)
def test_a_source_query_with_such_a_function_is_not_read_only_and_is_not_echoed(call: str) -> None:
    verdict = classify(f"SELECT * FROM {call}", ConnectorType.CLICKHOUSE)
    assert verdict.effect is not SqlEffect.READ_ONLY
    assert "s3cret" not in f"{verdict.reason}{verdict.refusal}"


def test_the_search_would_find_one() -> None:
    assert REMOTE.search("SELECT * FROM postgresql(") is not None
