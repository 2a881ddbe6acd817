"""The page "Contributing" names rooms, modules and functions that exist, and the layers that import-linter checks."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.docs.markdown import links_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contributing.md"
TEXT = PAGE.read_text(encoding="utf-8")
TOPS = ("dpone", "dpone_airflow", "dpone_core", "docs", "schemas", "tests", "tools", ".ci")
PATH = re.compile(rf"`((?:{'|'.join(re.escape(top) for top in TOPS)})/[\w./]*)`")
BELOW_CORE = re.compile(r"`((?:connectors|loading|authoring|declared)/[\w./]*)`")
LINKED = re.compile(r"\[`([^`]+)`\]\(\.\./([^)]+)\)")
NAMES = re.compile(r"\]\(\.\./([^)]+\.py)\):\s((?:`[\w.]+`(?:, )?)+)")
ROOM = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.MULTILINE)
RECEIPT = "dpone_core/use_cases/step_receipt.py"


@cache
def definitions_of(path: str) -> set[str]:
    """Classes, functions, methods and module-level names of a module, qualified."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("path", sorted(set(PATH.findall(TEXT))))
def test_every_path_on_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("path", sorted(set(BELOW_CORE.findall(TEXT))))
def test_every_path_of_the_core_on_the_page_exists(path: str) -> None:
    assert (ROOT / "dpone_core" / path).exists()


@pytest.mark.parametrize(("shown", "target"), sorted(set(LINKED.findall(TEXT))))
def test_a_linked_path_is_the_one_that_is_shown(shown: str, target: str) -> None:
    assert (ROOT / target).exists()
    assert f"/{target}".endswith(f"/{shown.rstrip('/')}")


@pytest.mark.parametrize(("path", "names"), sorted(set(NAMES.findall(TEXT))))
def test_every_name_beside_a_module_is_defined_there(path: str, names: str) -> None:
    assert set(re.findall(r"`([\w.]+)`", names)) - definitions_of(path) == set()


def test_the_rooms_stand_in_the_order_of_the_layers() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (contract["layers"] for contract in linter["contracts"] if contract["id"] == "layers")
    stated = [(str(row), room) for row, layer in enumerate(layers, start=1) for room in layer.split(" | ")]
    assert sorted(ROOM.findall(TEXT)) == sorted(stated)
    rows = [int(row) for row, _ in ROOM.findall(TEXT)]
    assert rows == sorted(rows)


def test_the_place_where_a_gate_result_becomes_a_receipt_field_is_one_click_away() -> None:
    assert f"../{RECEIPT}" in links_of(PAGE)
    source = (ROOT / RECEIPT).read_text(encoding="utf-8")
    assert re.search(r"\bgates_passed=\w+\.gate_counts\.passed\b", source)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_page_is_linked_from_the_front_pages(page: str) -> None:
    targets = {((ROOT / page).parent / link.partition("#")[0]).resolve() for link in links_of(ROOT / page)}
    assert PAGE in targets
