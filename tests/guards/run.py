"""Removes one guard at a time from a copy of the sources and demands that a named test notices.

Not random mutation: `mutations.yaml` lists guards by hand, each with the tests that stand for it. `python
tests/guards/run.py [WORD]` runs all, or those whose file or reason holds WORD; the working tree is never touched.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LISTED: Final = Path(__file__).with_name("mutations.yaml")
COPIED: Final = ("dpone", "dpone_core", "dpone_airflow", "schemas", "dag_factories", "tests")
WORKERS: Final = 2
_COMMAND: Final = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", "--no-header")
_TESTS_FAILED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """`old` stands exactly once in `file`; `tests` are node ids of which at least one must fail without it.

    `contract` holds the ids of docs/reference/contract.md that the guard keeps true.
    """

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    contract: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: {self.why}"

    def applied(self, source: str) -> str:
        """Raises ValueError when the guard is not there any more, or not only there."""
        count = source.count(self.old)
        if count != 1 or self.new == self.old:
            raise ValueError(f"{self}: the old text occurs {count} times")
        return source.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`caught` by a failing test; a run that could not even collect its tests counts for nothing.

    `unverified`: every named test was skipped, because what it needs is not on this machine.
    """

    mutation: Mutation
    caught: bool
    unverified: bool
    output: str


def mutations() -> tuple[Mutation, ...]:
    listed = yaml.load(LISTED.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tuple(
        Mutation(**{**entry, "tests": tuple(entry["tests"]), "contract": tuple(entry.get("contract", ()))})
        for entry in listed
    )


def survivors(chosen: tuple[Mutation, ...]) -> tuple[Verdict, ...]:
    """Mutations that no named test noticed, those without any test to run included.

    Raises AssertionError when a named test fails without any mutation.
    """
    with _copies() as copies:
        _require_green(copies, chosen)

        def judged(mutation: Mutation) -> Verdict:
            copy = copies.get()
            try:
                return _judged(copy, mutation)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(WORKERS) as pool:
            return tuple(verdict for verdict in pool.map(judged, chosen) if not verdict.caught)


@contextmanager
def _copies() -> Iterator[queue.Queue[Path]]:
    """One copy per worker, compiled once; a changed file is recognised by its content, not by its time."""
    with tempfile.TemporaryDirectory(prefix="dpone-guards-") as directory:
        copies: queue.Queue[Path] = queue.Queue()
        first = Path(directory) / "0"
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, first / name, ignore=ignored)
        shutil.copy(REPOSITORY / "pyproject.toml", first)
        compiling = (sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(first))
        subprocess.run(compiling, check=False, capture_output=True)
        copies.put(first)
        for number in range(1, WORKERS):
            copies.put(shutil.copytree(first, Path(directory) / str(number)))
        yield copies


def _require_green(copies: queue.Queue[Path], chosen: tuple[Mutation, ...]) -> None:
    copy = copies.get()
    named = sorted({test for mutation in chosen for test in mutation.tests})
    finished = _pytest(copy, named)
    copies.put(copy)
    assert finished.returncode == 0, f"named tests fail or are not found:\n{finished.stdout}{finished.stderr}"


def _judged(copy: Path, mutation: Mutation) -> Verdict:
    path = copy / mutation.file
    source = path.read_text("utf-8")
    path.write_text(mutation.applied(source), encoding="utf-8")
    try:
        finished = _pytest(copy, mutation.tests)
    finally:
        path.write_text(source, encoding="utf-8")
    caught = finished.returncode == _TESTS_FAILED
    closing = finished.stdout.strip().rpartition("\n")[2]
    unverified = finished.returncode == 0 and "skipped" in closing and "passed" not in closing
    output = finished.stdout[-2000:] + finished.stderr[-2000:]
    return Verdict(mutation=mutation, caught=caught, unverified=unverified, output=output)


def _pytest(copy: Path, tests: tuple[str, ...] | list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run([*_COMMAND, *tests], cwd=copy, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = tuple(mutation for mutation in mutations() if word in str(mutation))
    if not chosen:
        print(__doc__)
        return 2
    uncaught = survivors(chosen)
    for verdict in uncaught:
        print(f"{'UNVERIFIED' if verdict.unverified else 'SURVIVED'} {verdict.mutation}\n{verdict.output}")
    unverified = sum(verdict.unverified for verdict in uncaught)
    survived = len(uncaught) - unverified
    caught = len(chosen) - len(uncaught)
    print(f"guards removed: {len(chosen)}, caught: {caught}, survived: {survived}, UNVERIFIED: {unverified}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
