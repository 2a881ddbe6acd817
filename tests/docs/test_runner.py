"""The page runner itself: it fails where a page lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import blocks_of
from tests.docs.runner import assert_shown, run_page


def page(directory: Path, text: str) -> Path:
    path = directory / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("shown", "actual"),
    [
        (("a", "b"), "a\nb\n"),
        (("a", "...", "d"), "a\nb\nc\nd\n"),
        (("a", "...", "b"), "a\nb\n"),
        (("run ... took ... s",), "run 01AB took 1.2 s\n"),
        ((), ""),
    ],
)
def test_shown_output_matches_with_wildcards(shown: tuple[str, ...], actual: str) -> None:
    assert_shown(shown, actual, "here")


@pytest.mark.parametrize(
    ("shown", "actual"),
    [(("a",), "a\nb\n"), (("a", "b"), "a\n"), (("a.b",), "axb\n"), ((), "anything\n"), (("x ...",), "y 1\n")],
)
def test_shown_output_that_differs_is_a_failure(shown: tuple[str, ...], actual: str) -> None:
    with pytest.raises(AssertionError):
        assert_shown(shown, actual, "here")


def test_files_commands_and_scripts_of_a_page_share_one_directory(tmp_path: Path) -> None:
    text = (
        '```yaml title="a.yaml"\nx: 1\n```\n\n'
        "```console\n$ cat a.yaml\nx: 1\n$ exit 0\n```\n\n"
        "```console exit=3\n$ exit 3\n```\n\n"
        "```python\nprint(open('a.yaml').read(), end='')\n```\n\n```text output\nx: ...\n```\n"
    )
    assert run_page(blocks_of(page(tmp_path, text)), tmp_path) == 4


@pytest.mark.parametrize(
    "block",
    [
        "```console\n$ exit 3\n```\n",
        "```console exit=3\n$ exit 0\n```\n",
        "```console\n$ echo a\nb\n```\n",
        "```python\nraise SystemExit(1)\n```\n",
        "```python\nprint('a')\n```\n\n```text output\nb\n```\n",
    ],
)
def test_a_page_that_lies_fails(tmp_path: Path, block: str) -> None:
    with pytest.raises(AssertionError):
        run_page(blocks_of(page(tmp_path, block)), tmp_path)
