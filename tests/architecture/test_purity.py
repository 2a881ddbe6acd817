"""The pure packages reach for no clock and no file, and the standard library's doors to them stay shut.

import-linter checks imports between packages; this test reads the syntax tree for calls it cannot see.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PURE = [
    *(
        ROOT / "dpone_core" / name
        for name in ("model", "contracts", "declared", "authoring", "acceptance", "quality", "planning", "sql_guard")
    ),
    ROOT / "dpone_core" / "errors.py",
    *(ROOT / "dpone_airflow" / f"{name}.py" for name in ("pod_args", "outcome", "mapping", "judgment", "verdict")),
]
FORBIDDEN_METHODS = {"now", "today", "utcnow"}
ARROW_ALLOWED = ("connectors", "loading", "testing")


def modules(paths: list[Path]) -> list[Path]:
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]


def violations(source: str) -> list[str]:
    """Calls of open(), .now(), .today(), .utcnow() anywhere in the module."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            found.append(f"line {node.lineno}: open()")
        if isinstance(function, ast.Attribute) and function.attr in FORBIDDEN_METHODS:
            found.append(f"line {node.lineno}: .{function.attr}()")
    return found


def runtime_imports(source: str) -> set[str]:
    """Top-level packages imported outside `if TYPE_CHECKING:` blocks."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return names


@pytest.mark.parametrize("module", modules(PURE), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pure_module_reads_no_clock_and_opens_no_file(module: Path) -> None:
    assert violations(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("call", ["open('x')", "datetime.now()", "date.today()"])
def test_the_check_itself_sees_each_forbidden_call(call: str) -> None:
    assert violations(call) != []


def test_pyarrow_is_imported_only_where_rows_live() -> None:
    offenders = [
        str(file.relative_to(ROOT))
        for file in modules([ROOT / "dpone_core"])
        if file.relative_to(ROOT / "dpone_core").parts[0] not in ARROW_ALLOWED
        and "pyarrow" in runtime_imports(file.read_text(encoding="utf-8"))
    ]
    assert offenders == []


def test_no_module_hides_state_in_context_variables() -> None:
    offenders = [
        str(file.relative_to(ROOT))
        for file in modules([ROOT / "dpone_core", ROOT / "dpone_airflow"])
        if "contextvars" in runtime_imports(file.read_text(encoding="utf-8"))
    ]
    assert offenders == []
