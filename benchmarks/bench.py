"""`make bench`: whole processes side by side in one run, medians and ratios, peak memory, sums checked.

    python bench.py [--rows 5000000] [--repeat 3]

Every figure is of a whole process, interpreter start included, by the kernel's own accounting of the ended process.
Ratios compare commands of the same run in turn (A B A B ...); absolute seconds say little about another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = HERE / "data"
BIN = Path(sys.executable).parent
READ_BACK = (
    "import clickhouse_connect, sys\n"
    "client = clickhouse_connect.get_client(interface='chdb', path=sys.argv[1])\n"
    "print(*client.query('SELECT count(), sum(amount), countIf(isNull(note)) FROM raw.bench').result_rows[0])"
)
MANIFEST = """kind: dpone.flow.v1
name: bench
source:
  type: files
  options: {{path: {source}, format: parquet}}
sink:
  type: clickhouse
  connection_ref: warehouse
  table: {{schema: raw, name: bench}}
  staging: {{schema: ops}}
  strategy: {{mode: full_refresh}}
  options:
    physical_design: {{order_by: [id]}}
    load_governance: {{audit: {{state_schema: ops}}}}
quality:
  gates:
    - {{type: row_count_reconciliation}}
    - {{type: min_rows, threshold: 1}}
  acceptance:
    enabled: true
    mode: required
    checks: {{row_count: true, null_counts: all_columns}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    seconds: float
    peak_mib: float
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`command` is made anew for every run, after `reset`."""

    name: str
    command: Callable[[], Sequence[str]]
    reset: Callable[[], None] = lambda: None
    environment: tuple[tuple[str, str], ...] = ()


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
        text = output.read()
    if process.returncode != 0:
        raise RuntimeError(f"{candidate.name} exited with {process.returncode}:\n{text[-2000:]}")
    return Measurement(seconds=seconds, peak_mib=usage.ru_maxrss / 1024, output=text.strip())


def in_turn(candidates: Sequence[Candidate], repeat: int) -> dict[str, list[Measurement]]:
    """One uncounted warm-up each, then A B A B ..."""
    for candidate in candidates:
        measure(candidate)
    found: dict[str, list[Measurement]] = {candidate.name: [] for candidate in candidates}
    for _ in range(repeat):
        for candidate in candidates:
            found[candidate.name].append(measure(candidate))
    return found


def start_up(repeat: int) -> list[dict[str, object]]:
    dpone, example = str(BIN / "dpone"), ROOT / "examples" / "flights"
    plain = DATA / "plain.yaml"
    plain.write_text(MANIFEST.format(source="x.parquet"))
    candidates = [
        Candidate(name="python -c pass", command=lambda: [sys.executable, "-c", "pass"]),
        Candidate(name="dpone --version", command=lambda: [dpone, "--version"]),
        Candidate(name="dpone check (no SQL)", command=lambda: [dpone, "check", str(plain)]),
        Candidate(name="dpone check (with SQL)", command=lambda: [dpone, "check", str(example / "flights.yaml")]),
    ]
    return rows_of(in_turn(candidates, max(repeat, 5)), baseline="python -c pass")


def parquet_to_clickhouse(rows: int, repeat: int) -> list[dict[str, object]]:
    source = DATA / f"source_{rows}.parquet"
    if not source.is_file():
        subprocess.run([sys.executable, str(HERE / "source_data.py"), str(rows), str(source)], check=True)
    manifest = DATA / "bench.yaml"
    manifest.write_text(MANIFEST.format(source=source))
    hand, governed = DATA / "by_hand", DATA / "governed"
    environment = (
        ("DPONE_CONN_WAREHOUSE", f"chdb:///{governed}"),
        ("DPONE_EVIDENCE_DIR", str(DATA / "evidence")),
    )
    candidates = [
        Candidate(
            name="pumped by hand",
            command=lambda: [sys.executable, str(HERE / "by_hand.py"), str(source), str(hand)],
            reset=lambda: shutil.rmtree(hand, ignore_errors=True),
        ),
        Candidate(
            name="dpone, governed",
            command=lambda: [str(BIN / "dpone"), "run", str(manifest), "--progress", "none"],
            reset=lambda: shutil.rmtree(governed, ignore_errors=True),
            environment=environment,
        ),
    ]
    found = in_turn(candidates, repeat)
    loaded = subprocess.run(
        [sys.executable, "-c", READ_BACK, str(governed)], capture_output=True, text=True, check=True
    ).stdout.strip()
    expected = found["pumped by hand"][-1].output.splitlines()[-1]
    if loaded != expected:
        raise RuntimeError(f"the sums differ: by hand {expected}, dpone {loaded}")
    return rows_of(found, baseline="pumped by hand", loaded_rows=rows)


def parse_cost(repeat: int) -> dict[str, object]:
    """DAGs from run-specs against the same DAGs by hand: one process that times itself after its imports."""
    command = [sys.executable, str(HERE / "parse_cost.py"), "--repeat", str(max(repeat, 5))]
    done = measure(Candidate(name="parse cost", command=lambda: command))
    found: dict[str, object] = json.loads(done.output.splitlines()[-1])
    return found


def rows_of(
    found: dict[str, list[Measurement]], *, baseline: str, loaded_rows: int | None = None
) -> list[dict[str, object]]:
    table = []
    for name, runs in found.items():
        seconds = statistics.median(run.seconds for run in runs)
        ratios = [run.seconds / base.seconds for run, base in zip(runs, found[baseline], strict=True)]
        table.append(
            {
                "what": name,
                "median_seconds": round(seconds, 3),
                "ratio": round(statistics.median(ratios), 2),
                "rows_per_second": round(loaded_rows / seconds) if loaded_rows else None,
                "peak_mib": round(max(run.peak_mib for run in runs)),
                "runs": len(runs),
            }
        )
    return table


def show(title: str, table: list[dict[str, object]]) -> None:
    print(f"\n{title}")
    print(f"  {'':26} {'median s':>9} {'ratio':>7} {'rows/s':>12} {'peak MiB':>9}")
    for row in table:
        rate = f"{row['rows_per_second']:,}" if row["rows_per_second"] else "-"
        print(f"  {row['what']:26} {row['median_seconds']:>9} {row['ratio']:>7} {rate:>12} {row['peak_mib']:>9}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    results: dict[str, object] = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "start_up": start_up(arguments.repeat),
    }
    show("Start-up (ratio to `python -c pass`)", results["start_up"])  # type: ignore[arg-type]
    parsed = results["parse_cost"] = parse_cost(arguments.repeat)
    print(f"\nParse cost of {parsed['dags']} DAGs with {parsed['tasks']} steps, imports excluded, CPU time")
    print(f"  by hand {parsed['by_hand_seconds']} s, from run-specs {parsed['run_spec_seconds']} s")
    print(f"  ratio {parsed['ratio']}")
    results["parquet_to_clickhouse"] = parquet_to_clickhouse(arguments.rows, arguments.repeat)
    show(
        f"Parquet -> embedded ClickHouse, {arguments.rows:,} rows x 12 columns, sums equal (ratio to the pump)",
        results["parquet_to_clickhouse"],  # type: ignore[arg-type]
    )
    (DATA / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nWritten: {(DATA / 'results.json').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
