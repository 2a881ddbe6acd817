"""`--shard=I/N` runs one part of the tests; `--ledger=DIRECTORY` keeps how it ended. See tests/shards.py.

The equals sign is needed: pytest reads its arguments once before this file, and would take a word alone for a path.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tests.shards import ShardRun, chosen, shard_of, write

_STARTED: Final = pytest.StashKey[float]()
_OUTCOMES: Final = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("shards")
    group.addoption("--shard", metavar="I/N", help="run the tests of this shard only")
    group.addoption("--ledger", metavar="DIRECTORY", help="write how the run ended into this directory")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STARTED] = time.time()
    if (shard := config.getoption("shard")) is not None:
        try:
            shard_of(shard)
        except ValueError as error:
            raise pytest.UsageError(f"--shard: {error}") from None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Behind the markers, so that the size of a module is that of what would run."""
    if (shard := config.getoption("shard")) is None:
        return
    kept = chosen(shard_of(shard), [item.nodeid for item in items])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if (directory := config.getoption("ledger")) is None:
        return
    started = config.stash[_STARTED]
    run = ShardRun(
        commit=_git(config, "rev-parse", "HEAD"),
        changed=_git(config, "status", "--porcelain") != "",
        shard=config.getoption("shard") or "1/1",
        selection=config.getoption("markexpr"),
        started_at=datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        seconds=round(time.time() - started),
        exit_status=int(exitstatus),
        outcomes={name: count for name in _OUTCOMES if (count := len(terminalreporter.stats.get(name, ())))},
        unverified=dict(sorted(Counter(map(_reason, terminalreporter.stats.get("skipped", ()))).items())),
    )
    terminalreporter.write_line(f"ledger: {write(Path(directory), run)}")


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, without file and line; numbers such as ports make no reasons of their own."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return re.sub(r"\d{4,}", "N", reason.removeprefix("Skipped: "))


def _git(config: pytest.Config, *arguments: str) -> str:
    command = ("git", "-C", str(config.rootpath), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
