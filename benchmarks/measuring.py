"""Whole processes in turn: seconds and peak memory by the kernel's own accounting of the ended process.

Ratios compare commands of the same run (A B A B ...); absolute seconds say little about another machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """`cpu_seconds` of the process and every child it waited for; `peak_mib` is the greatest resident set of one."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    output: str

    @property
    def last_line(self) -> str:
        return self.output.splitlines()[-1] if self.output else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`command` is made anew for every run, after `reset`; `read_back` prints what the run left, untimed."""

    name: str
    command: Callable[[], Sequence[str]]
    reset: Callable[[], None] = lambda: None
    environment: tuple[tuple[str, str], ...] = ()
    read_back: Callable[[], Sequence[str]] | None = None


def measure(candidate: Candidate) -> Measurement:
    """Runs one whole process. Raises RuntimeError with the end of its output when it fails."""
    candidate.reset()
    command = list(candidate.command())
    with tempfile.TemporaryFile("w+") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **dict(candidate.environment)}
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().strip()
    if process.returncode != 0:
        raise RuntimeError(f"{candidate.name} exited with {process.returncode}:\n{text[-2000:]}")
    if candidate.read_back is not None:
        text = subprocess.run(candidate.read_back(), capture_output=True, text=True, check=True).stdout.strip()
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Measurement(seconds=seconds, cpu_seconds=cpu_seconds, peak_mib=usage.ru_maxrss / 1024, output=text)


def in_turn(candidates: Sequence[Candidate], repeat: int, *, warm_up: bool = True) -> dict[str, list[Measurement]]:
    """One uncounted warm-up each, then A B A B ..."""
    if warm_up:
        for candidate in candidates:
            measure(candidate)
    found: dict[str, list[Measurement]] = {candidate.name: [] for candidate in candidates}
    for _ in range(repeat):
        for candidate in candidates:
            found[candidate.name].append(measure(candidate))
    return found


def rows_of(found: dict[str, list[Measurement]], *, baseline: str, loaded_rows: int | None = None) -> list[Row]:
    """One row per candidate: median seconds, median ratio to the baseline's run of the same turn, greatest peak."""
    table: list[Row] = []
    for name, runs in found.items():
        seconds = statistics.median(run.seconds for run in runs)
        ratios = [run.seconds / base.seconds for run, base in zip(runs, found[baseline], strict=False)]
        table.append(
            {
                "what": name,
                "median_seconds": round(seconds, 3),
                "ratio": round(statistics.median(ratios), 2),
                "cpu_seconds": round(statistics.median(run.cpu_seconds for run in runs), 2),
                "rows_per_second": round(loaded_rows / seconds) if loaded_rows else None,
                "peak_mib": round(max(run.peak_mib for run in runs)),
                "runs": len(runs),
            }
        )
    return table


def show(title: str, table: Sequence[Row]) -> None:
    print(f"\n{title}")
    print(f"  {'':34} {'median s':>9} {'ratio':>7} {'CPU s':>8} {'rows/s':>12} {'peak MiB':>9}")
    for row in table:
        rate = f"{row['rows_per_second']:,}" if row["rows_per_second"] else "-"
        note = "" if row.get("sum_is_exact", True) else "  sum differs: decimals went through a double"
        numbers = (
            f"{row['median_seconds']:>9} {row['ratio']:>7} {row['cpu_seconds']:>8} {rate:>12} {row['peak_mib']:>9}"
        )
        print(f"  {row['what']:34} {numbers}{note}", flush=True)
