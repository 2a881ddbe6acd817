"""The documentation runs: what a page tells a reader to do works, and prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_core.api import check
from dpone_core.gitops.platform import read_platform
from tests.docs.markdown import anchors_of, blocks_of, links_of
from tests.docs.runner import run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "dpone_airflow/local/README.md", *sorted((ROOT / "docs").rglob("*.md")))
EXECUTED = ("python", "console")
RUNNING = tuple(page for page in PAGES if any(block.language in EXECUTED for block in blocks_of(page)))
KNOWN_LANGUAGES = {"python", "console", "yaml", "sql", "text", "mermaid", "json", "make", "toml"}
FOREIGN_INSTALL = re.compile(r"pip3? install (?:-\S+ )*['\"]?dpone\b")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", RUNNING, ids=name_of)
def test_every_command_and_script_of_a_page_does_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    assert run_page(blocks_of(page), tmp_path) > 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_whole_document_of_a_page_is_judged_as_the_page_says(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    for block in blocks:
        if block.title is not None:
            target = tmp_path / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
    for block in blocks:
        if block.language != "yaml" or block.document_kind is None:
            continue
        if block.document_kind == "dpone.platform.v1":
            read_platform(block.text.encode(), name_of(page))
            continue
        manifest = tmp_path / (block.title or f"block_{block.line}.yaml")
        manifest.write_text(block.text, encoding="utf-8")
        report = check(manifest, project_dir=tmp_path, environment={})
        findings = [str(problem) for problem in report.errors]
        assert report.passed is not block.refused, f"line {block.line}: {findings}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_between_pages_resolves(page: Path) -> None:
    for link in links_of(page):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors_of(file), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_does_not_run_says_so_by_its_language(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= KNOWN_LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_installs_the_package_of_the_same_name_that_belongs_to_someone_else(page: Path) -> None:
    assert FOREIGN_INSTALL.search(page.read_text(encoding="utf-8")) is None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_but_the_decisions_can_be_reached_from_the_index(page: Path) -> None:
    reached, pending = set(), [ROOT / "README.md"]
    while pending:
        current = pending.pop()
        if current in reached or current.suffix != ".md" or not current.is_file():
            continue
        reached.add(current)
        pending += [(current.parent / link.partition("#")[0]).resolve() for link in links_of(current)]
    assert page in reached


def test_the_reference_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
