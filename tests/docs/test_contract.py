"""The page "The contract": every row has an id of its own and a test that exists, every id that is cited exists,
nothing is cited that is not in the repository, and the rows of safety chapters without a guard only become fewer.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.guards.run import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "contract.md"
WITHOUT_GUARD: Final = 63
"""Rows of safety chapters that no guard of tests/guards/mutations.yaml names. Lower it when a guard is added."""

ID = re.compile(r"[A-Z]{2,5}-\d{2,3}")
TEST = re.compile(r"`((?:tests|dpone_core/testing)/[\w/]+\.py)::(\w+)`")
FOREIGN = re.compile(
    r"""\bS[01]\b|\bS3\ "|\b[Ff]acts\s+\d|\b[Dd]esign\s+(?:sections?\s+)?["\d]|\b(?:kpo|engines|cases|house|gates)\.md\b
    |\b[Cc]ases?\ [A-L]\d{2}\b|(?<=\w\ )\([A-L]\d{2}[,)]|"{3}[A-L]\d{2}[:.,]""",
    re.VERBOSE,
)
"""Papers and lists of cases that are not in the repository: a rule is cited by its id."""
DECISION = re.compile(r"\bADR[ -](\d{4})\b")
CITING: Final = (
    *("dpone", "dpone_core", "dpone_airflow", "dag_factories", "schemas"),
    *("tests", "docs", "benchmarks", "examples"),
)
WRITTEN: Final = frozenset({".py", ".md", ".yaml", ".yml", ".json", ".toml", ".sql", ".txt", ".sh"})


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table, without its borders."""

    line: int
    cells: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.cells[0]

    @property
    def prefix(self) -> str:
        return self.id.partition("-")[0]

    @property
    def tests(self) -> list[tuple[str, str]]:
        return TEST.findall(self.cells[-1])


@dataclass(frozen=True, slots=True)
class Chapter:
    """A row of the first table: the prefix of its ids, its title, and whether it is a safety chapter."""

    prefix: str
    title: str
    safety: bool


@dataclass(frozen=True, slots=True)
class Page:
    """The contract as it is written: chapters in order and the rows below each title."""

    chapters: tuple[Chapter, ...]
    rows: dict[str, list[Row]]

    @property
    def all_rows(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows]

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(row.id for row in self.all_rows)


def read_page(text: str) -> Page:
    """Chapters stand in the table above the first `## ` line, rows in the tables below each of them."""
    head, *sections = text.split("\n## ")
    chapters = tuple(
        Chapter(prefix=row.cells[0].strip("[`").partition("`")[0], title=row.cells[1], safety=row.cells[2] == "yes")
        for row in read_rows(head)
    )
    first_line = head.count("\n") + 2
    rows: dict[str, list[Row]] = {}
    for section in sections:
        title = section.partition("\n")[0]
        rows[title] = [Row(line=first_line + row.line - 1, cells=row.cells) for row in read_rows(section)]
        first_line += section.count("\n") + 1
    return Page(chapters=chapters, rows=rows)


def read_rows(text: str) -> list[Row]:
    """Table lines, without heads and rules. `line` counts from 1."""
    found: list[Row] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        following = lines[number] if number < len(lines) else ""
        if line.startswith("|") and not line.startswith("| ---") and not following.startswith("| ---"):
            cells = line.removeprefix("|").rstrip().removesuffix("|").split(" | ")
            found.append(Row(line=number, cells=tuple(cell.strip() for cell in cells)))
    return found


CONTRACT = read_page(PAGE.read_text(encoding="utf-8"))


def find_id_problems(page: Page) -> list[str]:
    """Ids that are malformed, given twice or in a foreign chapter, and chapters without rows."""
    titles = {chapter.title: chapter.prefix for chapter in page.chapters}
    problems = [f"{title} has no rows" for title in titles if not page.rows.get(title)]
    for title, rows in page.rows.items():
        for row in rows:
            if not ID.fullmatch(row.id):
                problems.append(f"line {row.line}: {row.id} is no id")
            elif row.prefix != titles.get(title):
                problems.append(f"line {row.line}: {row.id} stands in the chapter {title}")
    counts = Counter(row.id for row in page.all_rows)
    return problems + [f"{identity} is given {count} times" for identity, count in counts.items() if count > 1]


def find_test_problems(row: Row) -> list[str]:
    """Rows without a test, and tests that nobody wrote or runs."""
    if not row.tests:
        return [f"line {row.line} has no test"]
    problems = []
    for path, name in row.tests:
        if not (ROOT / path).is_file():
            problems.append(f"line {row.line}: {path} does not exist")
        elif name not in read_names(path):
            problems.append(f"line {row.line}: {path} has no {name}")
        elif path.startswith("dpone_core/") and find_suite(path, name) not in read_suites_in_use():
            problems.append(f"line {row.line}: no module runs the suite of {name}")
    return problems


@cache
def read_names(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))


@cache
def read_suites_in_use() -> str:
    """Text of the modules that run conformance suites."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "connectors").glob("*.py")))


def find_suite(path: str, name: str) -> str:
    """The base in the class line of whoever runs a conformance test."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for suite in tree.body:
        if isinstance(suite, ast.ClassDef) and name in {getattr(item, "name", "") for item in suite.body}:
            return f"({suite.name})"
    return "a test outside a suite"


def find_cited(text: str, prefixes: Iterable[str]) -> set[str]:
    """Ids of known chapters in a text. Any number of digits counts, so that a typing error is found."""
    return set(re.findall(rf"\b(?:{'|'.join(prefixes)})-\d+\b", text))


def read_citing_files() -> Iterator[tuple[str, str]]:
    """Path and text of every file that may cite the contract, the contract itself and run-time results left out."""
    roots = [ROOT / name for name in CITING]
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    files += [path for root in roots for path in sorted(root.rglob("*")) if path.suffix in WRITTEN and path.is_file()]
    for path in files:
        if "__pycache__" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace")


def find_foreign(text: str, decisions: Iterable[str]) -> list[str]:
    """What a text cites and the repository does not hold. `decisions` are the numbers of docs/adr."""
    foreign = [match.group() for match in FOREIGN.finditer(text)]
    return foreign + [f"ADR {number}" for number in DECISION.findall(text) if number not in decisions]


def find_unguarded(page: Page, guards: Iterable[Mutation]) -> list[str]:
    """Ids of rows in safety chapters that no guard names."""
    safety = {chapter.prefix for chapter in page.chapters if chapter.safety}
    named = {identity for guard in guards for identity in guard.contract}
    return [row.id for row in page.all_rows if row.prefix in safety and row.id not in named]


def judge_ratchet(unguarded: list[str], allowed: int) -> str:
    """The empty text, or what to do about a number that differs."""
    if len(unguarded) > allowed:
        return f"{len(unguarded)} rows name no guard, {allowed} may: add a guard for one of {', '.join(unguarded)}"
    if len(unguarded) < allowed:
        return f"only {len(unguarded)} rows name no guard: lower WITHOUT_GUARD to {len(unguarded)}"
    return ""


def test_every_id_is_well_formed_unique_and_in_its_chapter() -> None:
    assert find_id_problems(CONTRACT) == []
    assert len(CONTRACT.ids) > 400


def test_every_row_names_tests_that_exist() -> None:
    assert [problem for row in CONTRACT.all_rows for problem in find_test_problems(row)] == []


def test_no_sentence_stands_twice() -> None:
    counts = Counter(row.cells[1] for row in CONTRACT.all_rows)
    assert [sentence for sentence, count in counts.items() if count > 1] == []


def test_every_cited_id_is_in_the_contract() -> None:
    prefixes = [chapter.prefix for chapter in CONTRACT.chapters]
    unknown = {
        f"{path}: {identity}"
        for path, text in read_citing_files()
        for identity in find_cited(text, prefixes) - CONTRACT.ids
    }
    assert unknown == set()


def test_nothing_is_cited_that_is_not_in_the_repository() -> None:
    decisions = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("*.md")}
    found = [f"{path}: {cited}" for path, text in read_citing_files() for cited in find_foreign(text, decisions)]
    assert found == []


def test_every_id_of_a_guard_is_in_the_contract() -> None:
    unknown = {str(guard): identity for guard in mutations() for identity in set(guard.contract) - CONTRACT.ids}
    assert unknown == {}


def test_the_rows_of_safety_chapters_without_a_guard_become_fewer() -> None:
    problem = judge_ratchet(find_unguarded(CONTRACT, mutations()), WITHOUT_GUARD)
    assert problem == "", problem


PLANTED = """# Page

| chapter | what it is about | safety |
| --- | --- | --- |
| [`AB`](#a-b) | A b | yes |
| [`CD`](#c-d) | C d |  |

## A b

| id | sentence | test |
| --- | --- | --- |
| AB-01 | One. | `tests/docs/test_contract.py::test_no_sentence_stands_twice` |
| AB-02 | Two. | `tests/docs/test_contract.py::test_no_sentence_stands_twice` |

## C d

| id | sentence | test |
| --- | --- | --- |
| CD-101 | Three. | `tests/docs/test_contract.py::test_no_sentence_stands_twice` |

## Not proven yet

- Nothing.
"""


def test_a_planted_page_is_read_as_it_is_written() -> None:
    page = read_page(PLANTED)
    assert page.chapters == (Chapter("AB", "A b", True), Chapter("CD", "C d", False))
    assert [(row.line, row.id) for row in page.all_rows] == [(12, "AB-01"), (13, "AB-02"), (19, "CD-101")]
    assert find_id_problems(page) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("AB-02", "AB-01", "AB-01 is given 2 times"),
        ("AB-02", "AB-2", "line 13: AB-2 is no id"),
        ("AB-02", "ab-02", "line 13: ab-02 is no id"),
        ("AB-02", "CD-02", "line 13: CD-02 stands in the chapter A b"),
        ("## C d", "## Elsewhere", "C d has no rows"),
    ],
)
def test_a_bad_id_is_found(old: str, new: str, problem: str) -> None:
    assert problem in find_id_problems(read_page(PLANTED.replace(old, new)))


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("no test at all", "has no test"),
        ("`tests/spec/absent.py::test_x`", "does not exist"),
        ("`tests/docs/test_contract.py::test_nobody_wrote`", "has no test_nobody_wrote"),
        ("`dpone_core/testing/builders.py::orders`", "no module runs the suite"),
    ],
)
def test_a_row_without_its_test_is_found(cell: str, problem: str) -> None:
    (row,) = read_rows(f"| id | sentence | test |\n| --- | --- | --- |\n| AB-01 | a sentence | {cell} |")
    (found,) = find_test_problems(row)
    assert problem in found


def test_a_cited_id_is_found_wherever_it_stands() -> None:
    text = "Contract: AB-01, CD-7. `AB-012` (CD-101) XAB-03 AB-x EF-01"
    assert find_cited(text, ["AB", "CD"]) == {"AB-01", "CD-7", "AB-012", "CD-101"}


@pytest.mark.parametrize(
    "cited",
    [
        *("S" + '0 "Failure ordering"', "(S" + "1)", "S" + '3 "CLI"', "Facts" + " 4.4", "design" + " 12"),
        *("Design" + ' "Quality"', "design" + " section 7", "kpo" + ".md 3", "case" + " C36", "a rule (C" + "36)"),
        *('""' + '"C' + "36: a rule", "ADR" + " 0025", "design" + '\n"GitOps"'),
    ],
)
def test_a_paper_that_is_not_in_the_repository_is_found(cited: str) -> None:
    (found,) = find_foreign(f"A rule. Source: {cited}.", ["0001"])
    assert found.removesuffix(",") in f"Source: {cited}."


def test_ordinary_words_are_no_papers() -> None:
    text = f"a bucket of S{3}, physical_design, ADR 0001, in any case, E76 = 1, f(E76), PG-04, by design"
    assert find_foreign(text, ["0001"]) == []


def test_the_files_that_may_cite_the_contract_are_read() -> None:
    paths = {path for path, _ in read_citing_files()}
    assert {"tests/docs/test_contract.py", "tests/guards/mutations.yaml", "docs/index.md", "README.md"} <= paths
    assert any(path.startswith("dpone_core/loading/") for path in paths)


def guard(*contract: str) -> Mutation:
    return Mutation(file="a.py", old="1", new="2", why="", tests=(), contract=contract)


def test_only_rows_of_safety_chapters_need_a_guard() -> None:
    page = read_page(PLANTED)
    assert find_unguarded(page, []) == ["AB-01", "AB-02"]
    assert find_unguarded(page, [guard("AB-02", "CD-101")]) == ["AB-01"]
    assert find_unguarded(page, [guard("AB-02"), guard("AB-01")]) == []


def test_the_ratchet_turns_one_way() -> None:
    assert judge_ratchet(["AB-01"], 1) == ""
    assert "add a guard for one of AB-01" in judge_ratchet(["AB-01"], 0)
    assert "lower WITHOUT_GUARD to 1" in judge_ratchet(["AB-01"], 2)
