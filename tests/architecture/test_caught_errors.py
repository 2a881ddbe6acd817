"""An error is caught by its class: no handler reads a code to find out what happened."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(file for package in ("dpone_core", "dpone_airflow") for file in (ROOT / package).rglob("*.py"))


def comparisons_of_codes(source: str) -> list[str]:
    """Comparisons with the `code` of a caught error, and with what `code_of` says of any error."""
    module = ast.parse(source)
    found = {
        node.lineno
        for handler in ast.walk(module)
        if isinstance(handler, ast.ExceptHandler)
        for node in ast.walk(handler)
        if isinstance(node, ast.Compare) and _reads_code_of(node, handler.name)
    }
    found |= {node.lineno for node in ast.walk(module) if isinstance(node, ast.Compare) and _asks_code_of(node)}
    return [f"line {line}: compares a code" for line in sorted(found)]


def _reads_code_of(node: ast.Compare, error: str | None) -> bool:
    return any(
        isinstance(side, ast.Attribute)
        and side.attr == "code"
        and isinstance(side.value, ast.Name)
        and side.value.id == error
        for side in (node.left, *node.comparators)
    )


def _asks_code_of(node: ast.Compare) -> bool:
    return any(
        isinstance(side, ast.Call) and ast.unparse(side.func).rpartition(".")[2] == "code_of"
        for side in (node.left, *node.comparators)
    )


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    f()\nexcept Error as error:\n    if error.code != LOST:\n        raise",
        "try:\n    f()\nexcept Error as error:\n    again = error.code in CODES",
        "refused = code_of(error) == INCOMPLETE",
    ],
)
def test_a_handler_that_reads_a_code_is_found(source: str) -> None:
    assert comparisons_of_codes(source) != []


def test_the_code_of_a_value_is_no_control_of_errors() -> None:
    assert comparisons_of_codes("own = all(problem.code == MISSING for problem in problems)") == []


@pytest.mark.parametrize("module", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_handler_compares_codes(module: Path) -> None:
    assert comparisons_of_codes(module.read_text(encoding="utf-8")) == []
