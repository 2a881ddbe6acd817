"""The size gates hold for this tree, each of them fails in a tree that breaks it, and the figures have one shape."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.fitness import FILE_NAME, SCHEMA, broken_gates, circles, figures, limits_of, main, modules_of

ROOT = Path(__file__).resolve().parents[2]
LIMITS = """
[tool.fitness]
packages = ["dpone_core"]
module_lines = 9
function_lines = 4
heart_lines = 12
side_lines = 6
heart = ["loading", "model"]
[tool.fitness.ratchet]
"""
FUNCTION = "def f():\n    a = 1\n    b = 2\n    return a + b\n"
SMALL = {
    "loading/a.py": "from dpone_core.model import b\n",
    "model/__init__.py": "",
    "model/b.py": FUNCTION,
    "connectors/oracle/source/reader.py": "x = 1\n" * 6,
}


def planted(root: Path, files: Mapping[str, str], ratchet: str = "") -> list[str]:
    """The broken gates of a tree of these files of dpone_core, by path."""
    for name, text in {**SMALL, **files}.items():
        path = root / "dpone_core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "pyproject.toml").write_text(LIMITS + ratchet, encoding="utf-8")
    limits = limits_of(root)
    return broken_gates(modules_of(root, limits.packages), limits)


def test_every_gate_holds_for_this_tree(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--check"])
    assert (status, capsys.readouterr().err) == (0, "")


def test_make_check_runs_the_gates() -> None:
    (check,) = (part for part in (ROOT / "Makefile").read_text("utf-8").split("\n\n") if part.startswith("check:"))
    assert "python tools/fitness.py --check" in check


def test_a_small_tree_breaks_no_gate(tmp_path: Path) -> None:
    assert planted(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"cli/long.py": "x = 1\n" * 10}, "module dpone_core/cli/long.py has 10 lines, at most 9 are allowed"),
        ({"cli/f.py": FUNCTION + "    # end\n    c = 3\n"}, "function dpone_core/cli/f.py::f has 6 lines, at most 4"),
        ({"cli/f.py": "class A:\n    async def g(self):\n" + "        a = 1\n" * 4}, "dpone_core/cli/f.py::A.g has 5"),
        ({"loading/c.py": "x = 1\n" * 8}, "heart has 13 lines, at most 12 are allowed"),
        ({"connectors/oracle/source/types.py": "x = 1\n"}, "side oracle/source has 7 lines, at most 6 are allowed"),
        ({"connectors/oracle/sink/deep/er.py": "x = 1\n" * 7}, "side oracle/sink has 7 lines, at most 6 are allowed"),
    ],
    ids=["module", "function", "method", "heart", "side", "side below a folder"],
)
def test_a_tree_over_a_limit_breaks_its_gate(tmp_path: Path, files: Mapping[str, str], sentence: str) -> None:
    (broken,) = planted(tmp_path, files)
    assert sentence in broken


@pytest.mark.parametrize(
    "second",
    [
        "from dpone_core.loading import a\n",
        "from ..loading.a import x\n",
        "import dpone_core.loading.a\n",
        "def f():\n    from dpone_core.loading.a import x\n",
    ],
    ids=["absolute", "relative", "dotted", "inside a function"],
)
def test_two_modules_that_import_each_other_break_the_gate(tmp_path: Path, second: str) -> None:
    assert planted(tmp_path, {"model/b.py": second}) == [
        "these modules import each other in a circle: dpone_core.loading.a, dpone_core.model.b"
    ]


def test_a_circle_through_three_modules_is_found(tmp_path: Path) -> None:
    files = {"cli/x.py": "from . import y", "cli/y.py": "from . import z", "cli/z.py": "from . import x"}
    planted(tmp_path, files)
    assert circles(modules_of(tmp_path, ("dpone_core",))) == [
        ("dpone_core.cli.x", "dpone_core.cli.y", "dpone_core.cli.z")
    ]


def test_an_import_for_the_type_checker_makes_no_circle(tmp_path: Path) -> None:
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dpone_core.loading import a\n"
    assert planted(tmp_path, {"model/b.py": guarded}) == []


BIG = {"connectors/oracle/sink/publish.py": "x = 1\n" * 8}


def test_the_ratchet_allows_what_it_names_at_its_size(tmp_path: Path) -> None:
    assert planted(tmp_path, BIG, '"side oracle/sink" = 8') == []


@pytest.mark.parametrize(
    ("ratchet", "sentence"),
    [
        ('"side oracle/sink" = 7', "has 8 lines, at most 7 are allowed"),
        ('"side oracle/sink" = 59', "lower its ratchet from 59"),
        ('"side oracle/sink" = 8\n"side oracle/source" = 7', "oracle/source is within its limit"),
        ('"side oracle/sink" = 8\n"side db2/sink" = 7', "names side db2/sink, which does not exist"),
    ],
    ids=["grown", "much smaller", "no longer needed", "gone"],
)
def test_the_ratchet_only_goes_down(tmp_path: Path, ratchet: str, sentence: str) -> None:
    (broken,) = planted(tmp_path, BIG, ratchet)
    assert sentence in broken


def test_a_limit_of_an_unknown_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(LIMITS.replace("heart_lines", "heart_line"), encoding="utf-8")
    with pytest.raises(TypeError, match="heart_line"):
        limits_of(tmp_path)


def test_a_broken_gate_ends_the_command_with_1_and_its_sentence(tmp_path: Path) -> None:
    planted(tmp_path, BIG)
    command = [sys.executable, str(ROOT / "tools" / "fitness.py"), "--check", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "fitness: side oracle/sink has 8 lines, at most 6 are allowed\n"


def test_the_figures_of_a_planted_tree_are_counted_by_hand(tmp_path: Path) -> None:
    outside = {
        "declared/oracle.py": "",
        "wiring/connectors.py": "def f():\n    from dpone_core.connectors.oracle.source import reader\n",
        "planning/rules.py": "KNOWN = (ConnectorType.ORACLE,)\n",
        "planning/other.py": 'PLACE = "oracle"\n',
        "errors.py": "",
    }
    planted(tmp_path, outside)
    document = figures(tmp_path)
    assert document["files_outside_connector"] == {"oracle": 3}
    assert document["side_lines"] == {"oracle/source": 6}
    assert document["heart_lines"] == 5
    rooms = {"connectors": 1, "declared": 1, "loading": 1, "model": 2, "planning": 2, "wiring": 1}
    assert document["modules_per_room"] == {".": 1, **rooms}
    assert document["largest_modules"][0] == {"name": "dpone_core/connectors/oracle/source/reader.py", "lines": 6}
    assert document["largest_functions"][0] == {"name": "dpone_core/model/b.py::f", "lines": 4}


def test_the_figures_of_this_tree_have_the_shape_of_the_schema(tmp_path: Path) -> None:
    assert main(["--write", str(tmp_path / "figures")]) == 0
    document = json.loads((tmp_path / "figures" / FILE_NAME).read_text(encoding="utf-8"))
    assert set(document) == {
        *("schema", "commit", "import_contracts", "broken_gates", "largest_modules", "largest_functions"),
        *("heart_lines", "side_lines", "modules_per_room", "files_outside_connector"),
    }
    assert document["schema"] == SCHEMA == "dpone.fitness.v1"
    assert document["broken_gates"] == []
    assert document["commit"] is None or len(document["commit"]) == 40
    assert set(document["import_contracts"]) == {"kept", "broken"}
    assert document["import_contracts"]["broken"] == 0
    for name in ("largest_modules", "largest_functions"):
        assert len(document[name]) == 10
        assert all(set(size) == {"name", "lines"} for size in document[name])
        assert [size["lines"] for size in document[name]] == sorted((s["lines"] for s in document[name]), reverse=True)
    for name in ("side_lines", "modules_per_room", "files_outside_connector"):
        assert document[name]
        assert all(type(count) is int and count > 0 for count in document[name].values())


@pytest.mark.parametrize("directory", [None, "figures of a run"], ids=["not set", "set"])
def test_ci_writes_figures_only_where_a_directory_is_given(tmp_path: Path, directory: str | None) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    calls = tmp_path / "calls"
    programs = {"bin/make": "", "bin/ldconfig": "libodbc.so.2", ".venv/bin/python": "3/24", ".ci/bare": ""}
    for program, says in programs.items():
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{path.name} $*" >> "{calls}"\necho "{says}"\n', encoding="utf-8")
        path.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "DPONE_FITNESS_DIR"}
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    if directory is not None:
        environment["DPONE_FITNESS_DIR"] = directory
    subprocess.run([str(tmp_path / ".ci" / "run")], env=environment, check=True, capture_output=True)
    writing = [] if directory is None else ["make install", f"python tools/fitness.py --write {directory}"]
    called = [line for line in calls.read_text("utf-8").splitlines() if line.startswith(("make", "python"))]
    shard = ["python -m tests.shards next 24", "make test-full SHARD=3/24"]
    assert called == [*writing, "make check", "make test", *shard]
