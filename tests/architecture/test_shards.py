"""The shards of the whole matrix hold every test exactly once, and the ledger says what was proven and no more."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.shards import MANY_CELLS, Shard, ShardRun, chosen, oldest, read, shard_of, table, write

REPOSITORY = Path(__file__).parents[2]
SMALL = [f"tests/m{module}.py::test_{number}" for module in range(40) for number in range(3)]
LARGE = [f"tests/cells.py::test_cell[{number}]" for number in range(MANY_CELLS + 1)]

PASSED = ShardRun(
    commit="a" * 40,
    changed=False,
    shard="1/2",
    selection="",
    started_at="2026-01-01T00:00:00+00:00",
    seconds=5,
    exit_status=0,
    outcomes={"passed": 3},
    unverified={},
)


@pytest.mark.parametrize("of", [1, 2, 8])
def test_every_test_lies_in_exactly_one_shard(of: int) -> None:
    parts = [chosen(Shard(number, of), SMALL + LARGE) for number in range(1, of + 1)]
    assert sorted(node for part in parts for node in part) == sorted(SMALL + LARGE)
    assert all(parts)


def test_a_module_stays_whole_unless_it_has_many_cells() -> None:
    first = chosen(Shard(1, 2), SMALL + LARGE)
    assert all(len([node for node in first if node.startswith(f"tests/m{m}.py::")]) in (0, 3) for m in range(40))
    assert 0 < len(first.intersection(LARGE)) < len(LARGE)


def test_a_new_test_moves_no_other() -> None:
    assert chosen(Shard(3, 8), SMALL) == chosen(Shard(3, 8), [*SMALL, "tests/new.py::test"]) - {"tests/new.py::test"}


@pytest.mark.parametrize("name", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2"])
def test_what_is_no_shard_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a shard is I/N"):
        shard_of(name)


def test_the_shard_whose_proof_is_oldest_has_its_turn() -> None:
    second = replace(PASSED, shard="2/2", started_at="2026-01-02T00:00:00+00:00")
    assert oldest([PASSED, second], of=2, turn=1) == Shard(1, 2)
    assert oldest([PASSED, replace(second, exit_status=1)], of=2, turn=0) == Shard(2, 2)
    assert [oldest([], of=3, turn=turn) for turn in range(4)] == [Shard(1, 3), Shard(2, 3), Shard(3, 3), Shard(1, 3)]


@pytest.mark.parametrize(
    "run", [replace(PASSED, exit_status=1), replace(PASSED, changed=True), replace(PASSED, outcomes={"skipped": 9})]
)
def test_a_failed_run_a_changed_tree_and_a_run_without_tests_prove_nothing(run: ShardRun) -> None:
    assert not run.proves and PASSED.proves


def test_the_table_is_whole_only_if_every_shard_passed_on_the_commit(tmp_path: Path) -> None:
    second = replace(PASSED, shard="2/2")
    assert table([PASSED, replace(second, commit="b" * 40)], 2, PASSED.commit) == (
        "1/2  passed  5 s  3 passed\n2/2  not run",
        False,
    )
    assert table([PASSED, second], 2, PASSED.commit)[1]
    write(tmp_path, PASSED)
    write(tmp_path, second)
    assert list(read(tmp_path)) == [PASSED, second]


def test_a_file_that_is_no_entry_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.json is no entry of a ledger"):
        read(tmp_path)


def test_a_run_of_one_shard_writes_what_happened(tmp_path: Path) -> None:
    """A repository of its own: two modules, one test fails, one is skipped for what the machine lacks."""
    tree, ledger = tmp_path / "tree", tmp_path / "ledger"
    (tree / "tests").mkdir(parents=True)
    for name in ("__init__.py", "conftest.py", "shards.py"):
        shutil.copy(REPOSITORY / "tests" / name, tree / "tests")
    (tree / "tests/test_good.py").write_text("def test_a(): pass\ndef test_b(): pass\n", encoding="utf-8")
    (tree / "tests/test_bare.py").write_text(
        "import pytest\ndef test_a(): pytest.skip('UNVERIFIED: no server on port 54321')\ndef test_b(): assert 0\n",
        encoding="utf-8",
    )
    (tree / "pytest.ini").write_text("[pytest]\ntestpaths = tests\naddopts = -p no:cacheprovider\n", encoding="utf-8")
    (tree / ".gitignore").write_text("__pycache__\n", encoding="utf-8")
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    for arguments in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "x")):
        subprocess.run(("git", *arguments), cwd=tree, check=True)

    def run(shard: int) -> int:
        command = [sys.executable, "-m", "pytest", "-q", f"--shard={shard}/2", f"--ledger={ledger}"]
        return subprocess.run(command, cwd=tree, capture_output=True, check=False).returncode

    statuses = [run(1), run(2)]
    assert sorted(statuses) == [0, 1]
    by_status = {entry.exit_status: entry for entry in read(ledger)}
    assert dict(by_status[0].outcomes) == {"passed": 2} and by_status[0].proves
    assert dict(by_status[1].outcomes) == {"failed": 1, "skipped": 1} and not by_status[1].proves
    assert dict(by_status[1].unverified) == {"UNVERIFIED: no server on port N": 1}
