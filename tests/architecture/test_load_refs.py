"""A load is found by its LoadRef: nobody invents the columns of a request to name a load that is already there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(file for package in ("dpone_core", "dpone_airflow") for file in (ROOT / package).rglob("*.py"))


def forged_requests(source: str) -> list[str]:
    """Requests and handles that are built with a schema written down as empty."""
    return [
        f"line {node.lineno}: {ast.unparse(node.func)} without columns"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and _name(node.func) in ("StageRequest", "StagedHandle")
        and any(_is_empty_schema(keyword.value) for keyword in node.keywords)
    ]


def _is_empty_schema(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and _name(node.func) == "TableSchema"):
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return all(isinstance(value, ast.Tuple | ast.List) and not value.elts for value in given)


def _name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


@pytest.mark.parametrize(
    "source",
    [
        "StageRequest(identity=one, schema=TableSchema(columns=()))",
        "sink.StageRequest(schema=TableSchema(()))",
        "StagedHandle(request=one, payload_schema=table_schema.TableSchema(columns=[]), staged_rows=0)",
    ],
)
def test_an_invented_request_is_found(source: str) -> None:
    assert forged_requests(source) != []


def test_a_request_with_columns_and_an_empty_schema_elsewhere_are_in_order() -> None:
    assert forged_requests("StageRequest(schema=payload)\nempty = TableSchema(columns=())") == []


@pytest.mark.parametrize("module", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_builds_a_request_without_columns_to_find_a_load(module: Path) -> None:
    assert forged_requests(module.read_text(encoding="utf-8")) == []
