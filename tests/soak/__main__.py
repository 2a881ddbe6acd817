"""`python -m tests.soak --seed N --iterations 500 --minutes M`: prints the table, exit 1 when there is a violation."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.forks import Forks
from tests.soak.soak import Soak


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="a new one unless given")
    parser.add_argument("--iterations", type=int, default=500, help="over all lanes")
    parser.add_argument("--minutes", type=float, default=60.0, help="no iteration begins after that")
    parser.add_argument("--only", default="", help="lanes whose name holds this word: a sink, a strategy, a lane")
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first iteration of each lane")
    parser.add_argument("--table", type=Path, help="write the table here, and beside it as .json")
    parser.add_argument("--directory", type=Path, help="where lanes run; what a violation left stays there")
    parser.add_argument("--forks", action="store_true", help="fork runs from one process instead of starting Python")
    given = parser.parse_args(arguments)
    forks = Forks() if given.forks else None
    soak = Soak(
        seed=secrets.randbelow(10**6) if given.seed is None else given.seed,
        iterations=given.iterations,
        seconds=given.minutes * 60,
        only=given.only,
        first=given.first,
        directory=given.directory or Path(tempfile.mkdtemp(prefix="dpone-soak-")),
        forks=forks,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        table = soak.run()
    finally:
        if forks is not None:
            forks.close()
    if given.table is not None:
        given.table.write_text(table.as_text(), encoding="utf-8")
        given.table.with_suffix(".json").write_text(table.as_json(), encoding="utf-8")
    print(table.as_text(), end="")
    return 1 if table.violations else 0


if __name__ == "__main__":
    sys.exit(main())
