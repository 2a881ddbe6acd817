"""Splits the tests into shards and keeps a ledger of which shard passed on which commit.

A shard is named `I/N`, I from 1 to N. A test belongs to the shard that the CRC-32 of its unit gives, so a new test
moves no other one. A unit is a module, because its tests share fixtures; a module of many cells is split by test.

The ledger is a directory with one JSON file (`dpone.shard.v1`) a run, named after commit and shard. It says what ran
and how it ended; a run of a changed tree says so and counts for nothing.

`python -m tests.shards next N [DIRECTORY]` prints the shard whose turn it is; `table N DIRECTORY` prints what the
ledger proves about the commit that is checked out and ends with 1 unless every shard passed on it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

SCHEMA: Final = "dpone.shard.v1"
MANY_CELLS: Final = 20
"""Tests of one module above which it is split by test."""

_NAME: Final = re.compile(r"^([1-9][0-9]{0,2})/([1-9][0-9]{0,2})$")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """The shard `number` of `of`, 1 <= number <= of."""

    number: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise ValueError(f"a shard is I/N with 1 <= I <= N, not {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, unit: str) -> bool:
        return zlib.crc32(unit.encode("utf-8")) % self.of == self.number - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRun:
    """How one shard ended on one commit. `unverified` counts skipped tests by reason; `seconds` is wall time.

    `selection` holds the marker expression that chose the tests, empty for all.
    """

    commit: str
    changed: bool
    shard: str
    selection: str
    started_at: str
    seconds: int
    exit_status: int
    outcomes: Mapping[str, int]
    unverified: Mapping[str, int]

    @property
    def proves(self) -> bool:
        """Whether every test of the shard passed, or was skipped by name, on the very commit."""
        return self.exit_status == 0 and not self.changed and self.outcomes.get("passed", 0) > 0


def shard_of(name: str) -> Shard:
    """Reads `I/N`; raises ValueError for anything else."""
    matched = _NAME.match(name)
    if matched is None:
        raise ValueError(f"a shard is I/N with 1 <= I <= N, not {name!r}")
    return Shard(int(matched[1]), int(matched[2]))


def chosen(shard: Shard, node_ids: Sequence[str]) -> frozenset[str]:
    """The node ids that the shard holds, of all that were collected."""
    sizes = Counter(map(_module, node_ids))
    return frozenset(
        node_id
        for node_id in node_ids
        if shard.holds(node_id if sizes[_module(node_id)] > MANY_CELLS else _module(node_id))
    )


def write(directory: Path, run: ShardRun) -> Path:
    """Writes one entry of the ledger, over the one of the same commit, shard and selection."""
    directory.mkdir(parents=True, exist_ok=True)
    selection = re.sub(r"[^a-z]+", "-", run.selection) or "all"
    path = directory / f"{run.commit}-{selection}-{run.shard.replace('/', '-of-')}.json"
    path.write_text(json.dumps({"schema": SCHEMA, **asdict(run)}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def read(directory: Path) -> tuple[ShardRun, ...]:
    """All entries of a ledger, oldest first; raises ValueError naming a file that is none."""
    runs = []
    for path in directory.glob("*.json"):
        try:
            stated: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if stated.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            runs.append(ShardRun(**stated))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no entry of a ledger: {error}") from None
    return tuple(sorted(runs, key=lambda run: (run.started_at, run.shard)))


def oldest(runs: Iterable[ShardRun], of: int, turn: int) -> Shard:
    """The shard whose proof is oldest; among those without any, the one that `turn`, a count of commits, gives."""
    proven = {run.shard: run.started_at for run in runs if run.proves}
    turned = [Shard((turn + step) % of + 1, of) for step in range(of)]
    return min(turned, key=lambda shard: proven.get(str(shard), ""))


def _module(node_id: str) -> str:
    return node_id.partition("::")[0]


def table(runs: Iterable[ShardRun], of: int, commit: str) -> tuple[str, bool]:
    """One line a shard with its newest run on the commit, and whether all of them passed there."""
    newest = {run.shard: run for run in runs if run.commit == commit}
    lines, whole = [], True
    for number in range(1, of + 1):
        run = newest.get(str(Shard(number, of)))
        whole = whole and run is not None and run.proves
        lines.append(f"{number}/{of}  not run" if run is None else _line(run))
    return "\n".join(lines), whole


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shards", allow_abbrev=False)
    parser.add_argument("verb", choices=("next", "table"))
    parser.add_argument("of", type=int)
    parser.add_argument("directory", type=Path, nargs="?")
    asked = parser.parse_args(arguments)
    runs = read(asked.directory) if asked.directory is not None else ()
    if asked.verb == "next":
        print(oldest(runs, asked.of, int(_git("rev-list", "--count", "HEAD"))))
        return 0
    text, whole = table(runs, asked.of, _git("rev-parse", "HEAD"))
    print(text)
    return 0 if whole else 1


def _line(run: ShardRun) -> str:
    counted = ", ".join(f"{count} {outcome}" for outcome, count in run.outcomes.items())
    return f"{run.shard}  {'passed' if run.proves else 'NOT PROVEN'}  {run.seconds} s  {counted}"


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
