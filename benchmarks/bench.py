"""`make bench`: whole processes side by side in one run, medians and ratios, peak memory, sums checked.

    python bench.py [--only start_up parse_cost routes governance rules native memory] [--rows 1000000 5000000]

Several `--rows` measure every route once each; governance, rules and native take the greatest.
Results go to `results.json` in `benchmarks/data`, or where DPONE_BENCH_DATA says; `python benchmarks/report.py` makes
the page in docs of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path

import native
import routes
from measuring import Candidate, Row, in_turn, measure, rows_of, show

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = routes.DATA
PARTS = ("start_up", "parse_cost", "routes", "governance", "rules", "native", "memory")
LIBRARIES = ("chdb", "clickhouse-connect", "duckdb", "pyarrow", "adbc-driver-postgresql", "adbc-driver-sqlite")
MEMORY_ROWS = (1_000_000, 5_000_000, 20_000_000)


def start_up(repeat: int) -> list[Row]:
    dpone, example = str(routes.BIN / "dpone"), ROOT / "examples" / "flights"
    plain = DATA / "plain.yaml"
    plain.write_text(
        "kind: dpone.flow.v1\nname: plain\nsource: {type: files, options: {path: x.parquet, format: parquet}}\n"
        "sink: {type: duckdb, connection_ref: warehouse, table: {name: t}, strategy: {mode: full_refresh}}\n"
    )
    candidates = [
        Candidate(name="python -c pass", command=lambda: [sys.executable, "-c", "pass"]),
        Candidate(name="dpone --version", command=lambda: [dpone, "--version"]),
        Candidate(name="dpone check (no SQL)", command=lambda: [dpone, "check", str(plain)]),
        Candidate(name="dpone check (with SQL)", command=lambda: [dpone, "check", str(example / "flights.yaml")]),
    ]
    return rows_of(in_turn(candidates, max(repeat, 5)), baseline="python -c pass")


def parse_cost(repeat: int) -> dict[str, object]:
    """DAGs from run-specs against the same DAGs by hand: one process that times itself after its imports."""
    command = [sys.executable, str(HERE / "parse_cost.py"), "--repeat", str(max(repeat, 5))]
    done = measure(Candidate(name="parse cost", command=lambda: command))
    found: dict[str, object] = json.loads(done.last_line)
    return found


def governance(rows: int, repeat: int) -> list[Row]:
    """What evidence costs: the same load with everything off that can be switched off, then step by step on."""
    route = routes.Route(source="parquet", sink="clickhouse", rows=rows)
    routes.prepare(route)
    bare = "staged and published only"
    candidates = [
        routes.governed(route, name=bare, audit=False, quality=False),
        routes.governed(route, name="and audit tables", audit=True, quality=False),
        routes.governed(route, name="and gates, counts and nulls", audit=True, quality=True),
    ]
    return rows_of(in_turn(candidates, repeat), baseline=bare, loaded_rows=rows)


def rules(sink: str, rows: int, repeat: int) -> list[Row]:
    """What rules about columns cost: the governed load alone, then with a gate of each type."""
    route = routes.Route(source="parquet", sink=sink, rows=rows)
    routes.prepare(route)
    bare = "two gates about counts"
    candidates = [
        routes.governed(route, name=bare),
        routes.governed(route, name="and five about columns", rules=routes.RULES),
    ]
    table = rows_of(in_turn(candidates, repeat), baseline=bare, loaded_rows=rows)
    show(f"What rules about columns cost, Parquet -> {routes.SHOWN_SINKS[sink]}, {rows:,} rows", table)
    return table


def memory(source: str, sink: str, sizes: Sequence[int]) -> list[Row]:
    """Peak of one governed run each; the source of the largest one needs a few GiB of disk."""
    table: list[Row] = []
    for rows in sizes:
        route = routes.Route(source=source, sink=sink, rows=rows)
        routes.prepare(route)
        done = measure(routes.governed(route))
        table.append(
            {
                "what": f"{source} -> {sink}, {rows:,} rows",
                "median_seconds": round(done.seconds, 3),
                "ratio": round(rows / sizes[0], 2),
                "cpu_seconds": round(done.cpu_seconds, 2),
                "rows_per_second": round(rows / done.seconds),
                "peak_mib": round(done.peak_mib),
                "runs": 1,
            }
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000])
    parser.add_argument("--memory-rows", type=int, nargs="+", default=MEMORY_ROWS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sources", nargs="+", choices=routes.SOURCES, default=routes.SOURCES)
    parser.add_argument("--sinks", nargs="+", choices=routes.SINKS, default=routes.SINKS)
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    results_path = DATA / "results.json"
    results: dict[str, object] = json.loads(results_path.read_text()) if results_path.is_file() else {}
    results["machine"] = {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    results["versions"] = {name: version(name) for name in ("dpone", *LIBRARIES)}

    def keep(name: str, found: object) -> None:
        results[name] = found
        results_path.write_text(json.dumps(results, indent=2) + "\n")

    if "start_up" in arguments.only:
        table = start_up(arguments.repeat)
        show("Start-up (ratio to `python -c pass`)", table)
        keep("start_up", table)
    if "parse_cost" in arguments.only:
        parsed = parse_cost(arguments.repeat)
        print(f"\nParse cost of {parsed['dags']} DAGs with {parsed['tasks']} steps, imports excluded, CPU time")
        print(f"  by hand {parsed['by_hand_seconds']} s, from run-specs {parsed['run_spec_seconds']} s")
        print(f"  ratio {parsed['ratio']}")
        keep("parse_cost", parsed)
    if "routes" in arguments.only:
        for rows, source, sink in product(arguments.rows, arguments.sources, arguments.sinks):
            route = routes.Route(source=source, sink=sink, rows=rows)
            table = routes.compare(route, arguments.repeat, peers=not arguments.no_peers)
            show(f"{route.title}, sums checked (ratio to the pump)", table)
            keep(f"route {route.title}", table)
    most = max(arguments.rows)
    if "governance" in arguments.only:
        table = governance(most, arguments.repeat)
        show(f"What governance costs, Parquet -> embedded ClickHouse, {most:,} rows", table)
        keep("governance", table)
    if "rules" in arguments.only:
        for sink in arguments.sinks:
            keep(f"rules {sink}, {most:,} rows", rules(sink, most, arguments.repeat))
    if "native" in arguments.only:
        for source in native.SOURCES:
            table, title = native.side_by_side(source, most, arguments.repeat), native.route_of(source, most).title
            show(f"{title}, sums checked (ratio to the pump)", table)
            keep(f"native {title}", table)
        found = [native.resumed(source, most) for source in native.SOURCES]
        print(f"\nOne of {native.RANGES} ranges lost, then the same run again")
        for each in found:
            print(f"  {each['source']}: {each['second_extracted_rows']:,} of {each['rows']:,} rows read again")
        keep("resume", found)
    if "memory" in arguments.only:
        table = [row for sink in arguments.sinks for row in memory("parquet", sink, arguments.memory_rows)]
        show("Peak memory of a governed load (ratio of rows)", table)
        keep("memory", table)
    print(f"\nWritten: {results_path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
