"""Whoever reads JSON that others wrote takes nesting without end for a malformed document (CLI-32)."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dpone_core"
OUR_OWN = frozenset({"connectors/_arrow/child_main.py", "connectors/_arrow/child_reader.py", "error_catalogue.py"})
"""What is read there was written by the same installation."""


def guarded(tree: ast.AST) -> dict[int, bool]:
    """By line of a json.loads inside a try that catches ValueError: whether it catches RecursionError too."""
    found: dict[int, bool] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try):
            continue
        types = [handler.type or ast.Name(id="BaseException") for handler in node.handlers]
        caught = {name.id for one in types for name in ast.walk(one) if isinstance(name, ast.Name)}
        wide = bool(caught & {"Exception", "BaseException"})
        calls = [call for statement in node.body for call in ast.walk(statement) if isinstance(call, ast.Call)]
        for call in calls:
            if ast.unparse(call.func) == "json.loads" and (wide or "ValueError" in caught):
                found[call.lineno] = wide or "RecursionError" in caught
    return found


def test_no_reader_of_json_ends_in_a_recursion_error() -> None:
    missed = []
    readers = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in OUR_OWN:
            lines = guarded(ast.parse(path.read_text("utf-8")))
            readers += len(lines)
            missed += [f"{name}:{line}" for line, both in lines.items() if not both]
    assert readers > 10 and missed == []
