"""The page "Contract coverage" cites only tests that exist, in every row, says how many rows it has, and forgets none
of the reports that it lists.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "contract-coverage.md"
CITATION = re.compile(r"`((?:tests|dpone_core/testing)/[\w/]+\.py)::(\w+)`")
REPORT = re.compile(r"\b[A-L]\d{2}\b")
SAID = re.compile(r"^This page has (\d+) rows\.", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table, without its borders."""

    line: int
    cells: tuple[str, ...]

    @property
    def cited(self) -> list[tuple[str, str]]:
        return CITATION.findall(self.cells[-1])


def rows_of(text: str) -> list[Row]:
    """Table lines, without heads and rules."""
    found: list[Row] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        following = lines[number] if number < len(lines) else ""
        if line.startswith("|") and not line.startswith("| ---") and not following.startswith("| ---"):
            found.append(Row(line=number, cells=tuple(cell.strip() for cell in line.strip("|").split(" | "))))
    return found


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))


@cache
def suites_in_use() -> str:
    """Text of the modules that run conformance suites."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "connectors").glob("*.py")))


def problems_of(row: Row) -> list[str]:
    if not row.cited:
        return [f"line {row.line} has no test"]
    problems = []
    for path, name in row.cited:
        if not (ROOT / path).is_file():
            problems.append(f"line {row.line}: {path} does not exist")
        elif name not in names_in(path):
            problems.append(f"line {row.line}: {path} has no {name}")
        elif path.startswith("dpone_core/") and suite_of(path, name) not in suites_in_use():
            problems.append(f"line {row.line}: no module runs the suite of {name}")
    return problems


def suite_of(path: str, name: str) -> str:
    """The base in the class line of whoever runs a conformance test."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for suite in tree.body:
        if isinstance(suite, ast.ClassDef) and name in {getattr(item, "name", "") for item in suite.body}:
            return f"({suite.name})"
    return "a test outside a suite"


def test_every_row_cites_tests_that_exist() -> None:
    assert [problem for row in ROWS for problem in problems_of(row)] == []


def test_the_page_says_how_many_rows_it_has() -> None:
    said = SAID.search(PAGE.read_text(encoding="utf-8"))
    assert said is not None and int(said[1]) == len(ROWS) > 0


def reports_of(text: str) -> tuple[set[str], set[str], set[str]]:
    """Ids that the page lists, ids in first cells of its rows, ids in its last section."""
    told, proven = text.split("\n## Public fault reports turned into tests\n")[1].split("\n| case |")
    rows, open_questions = proven.split("\n## Not proven yet\n")
    firsts = " ".join(row.cells[0] for row in rows_of(f"| case |{rows}"))
    return set(REPORT.findall(told)), set(REPORT.findall(firsts)), set(REPORT.findall(open_questions))


def test_every_report_has_a_row_or_is_said_to_be_open() -> None:
    listed, in_rows, said_open = reports_of(PAGE.read_text(encoding="utf-8"))
    assert listed - in_rows - said_open == set()
    assert (in_rows | said_open) - listed == set()
    assert len(listed) > 100


def test_a_report_without_row_is_found() -> None:
    page = (
        "\n## Public fault reports turned into tests\n\n- X: A01 A02 A03.\n\n| case | b | test |\n| --- | --- | --- |\n"
    )
    page += "| A01 | b | c |\n\n## Not proven yet\n\n- (A03)\n"
    assert reports_of(page) == ({"A01", "A02", "A03"}, {"A01"}, {"A03"})


def test_no_sentence_stands_twice() -> None:
    sentences = [row.cells[:-1] for row in ROWS]
    assert sorted(sentences) == sorted(set(sentences))


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("no test at all", "has no test"),
        ("`tests/spec/absent.py::test_x`", "does not exist"),
        ("`tests/docs/test_contract_coverage.py::test_nobody_wrote`", "has no test_nobody_wrote"),
        ("`dpone_core/testing/builders.py::orders`", "no module runs the suite"),
    ],
)
def test_the_check_itself_sees_a_row_that_lies(cell: str, problem: str) -> None:
    (row,) = rows_of(f"| sentence | test |\n| --- | --- |\n| a sentence | {cell} |")
    (found,) = problems_of(row)
    assert problem in found
