"""One route: the same rows from one source into one sink, pumped by hand, by dpone, and by the tools people know."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sources
from measuring import Candidate, Row, in_turn, rows_of

HERE: Final = Path(__file__).resolve().parent
DATA: Final = Path(os.environ.get("DPONE_BENCH_DATA", HERE / "data")).absolute()
BIN: Final = Path(sys.executable).parent
POSTGRES_URI: Final = os.environ.get("DPONE_TEST_POSTGRES_URI", "postgresql://postgres@127.0.0.1:5432/postgres")
SOURCES: Final = ("parquet", "sqlite", "postgres")
SINKS: Final = ("clickhouse", "duckdb")
SHOWN_SINKS: Final = {"clickhouse": "embedded ClickHouse", "duckdb": "DuckDB"}
BY_HAND: Final = "pumped by hand"
GOVERNED: Final = "dpone, governed"
_SUMS: Final = "SELECT count(*), sum(amount), sum(CASE WHEN note IS NULL THEN 1 ELSE 0 END) FROM raw.bench"
_READ_BACK: Final = {
    "clickhouse": "import clickhouse_connect, sys\n"
    "client = clickhouse_connect.get_client(interface='chdb', path=sys.argv[1])\n"
    f"print(*client.query({_SUMS!r}).result_rows[0])",
    "duckdb": f"import duckdb, sys\nprint(*duckdb.connect(sys.argv[1], read_only=True).execute({_SUMS!r}).fetchone())",
}
_MANIFEST: Final = """kind: dpone.flow.v1
name: bench
source:
  {source}
sink:
  type: {sink}
  connection_ref: warehouse
  table: {{schema: raw, name: bench}}
  strategy: {{mode: full_refresh}}
  options:
    {design}load_governance: {governance}
"""
_TWO_RANGES: Final = "partitioning: {column: id, num_partitions: 2, workers: 2}"
_QUALITY: Final = """quality:
  gates:
    - {type: row_count_reconciliation}
    - {type: min_rows, threshold: 1}
  acceptance:
    enabled: true
    mode: required
    checks: {row_count: true, null_counts: all_columns}
"""
RULES: Final = """    - {type: not_null, columns: [id, customer_id, created_at]}
    - {type: unique, columns: [id]}
    - {type: accepted_values, column: status, values: [new, paid, shipped, returned, cancelled]}
    - {type: freshness, column: created_at, max_age: P36500D, reference: now}
    - {type: custom_sql, sql: "SELECT count(*) FROM {{ staged }} WHERE price < 0"}
"""
"""One gate of each type about columns; every row keeps them."""
_NOT_STAGED: Final = "    capture: {staged: false}\n"
"""A transfer that is resumed may have published its staging already, so the manifest may not require that side."""
_SOURCE: Final = {
    "parquet": "type: files\n  options: {{path: {place}, format: parquet}}",
    "sqlite": "type: sqlite\n  connection_ref: origin\n  table: {{name: source}}",
    "postgres": "type: postgres\n  connection_ref: origin\n  table: {{schema: public, name: {table}}}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`is_split`: two key ranges side by side, by hand and by dpone."""

    source: str
    sink: str
    rows: int
    is_split: bool = False

    @property
    def title(self) -> str:
        shown = SHOWN_SINKS[self.sink]
        named = {"postgres": "PostgreSQL", "sqlite": "SQLite", "parquet": "Parquet"}[self.source]
        ranges = ", two ranges side by side" if self.is_split else ""
        return f"{named} -> {shown}, {self.rows:,} rows x 12 columns{ranges}"

    @property
    def place(self) -> str:
        return POSTGRES_URI if self.source == "postgres" else str(DATA / f"source_{self.rows}.{self.source}")

    @property
    def table(self) -> str:
        return sources.postgres_table(self.rows) if self.source == "postgres" else "source"


def compare(route: Route, repeat: int, *, peers: bool) -> list[Row]:
    """By hand against dpone in turn; then each peer alone. Raises RuntimeError when dpone's sums differ."""
    prepare(route)
    found = in_turn([by_hand(route), governed(route)], repeat)
    expected = found[BY_HAND][-1].last_line
    if found[GOVERNED][-1].last_line != expected:
        raise RuntimeError(f"the sums differ: by hand {expected}, dpone {found[GOVERNED][-1].last_line}")
    if peers and route.sink == "duckdb":
        for peer in peers_of(route):
            found |= in_turn([peer], min(repeat, 2), warm_up=False)
    table = rows_of(found, baseline=BY_HAND, loaded_rows=route.rows)
    for row in table:
        row["sum_is_exact"] = found[str(row["what"])][-1].last_line == expected
    return table


def prepare(route: Route) -> None:
    subprocess.run([sys.executable, str(HERE / "sources.py"), str(route.rows), route.source, route.place], check=True)


def by_hand(route: Route) -> Candidate:
    target = DATA / f"by_hand.{route.sink}"
    script = [sys.executable, str(HERE / "by_hand.py"), route.source, route.place, route.sink, str(target)]
    ranges = ["ranges"] if route.is_split else []
    return Candidate(name=BY_HAND, command=lambda: [*script, route.table, *ranges], reset=lambda: remove(target))


def governed(
    route: Route,
    *,
    name: str = GOVERNED,
    audit: bool = True,
    quality: bool = True,
    split: str = _TWO_RANGES,
    rules: str = "",
) -> Candidate:
    """`split` is what a route that is split writes under source.options, `rules` are more gates."""
    target = DATA / f"governed.{route.sink}"
    manifest = DATA / f"{route.source}_{route.sink}_{route.rows}_{route.is_split}_{audit}_{quality}_{bool(rules)}.yaml"
    text = _MANIFEST.format(
        source=_SOURCE[route.source].format(place=route.place, table=route.table)
        + (f"\n  options: {{{split}}}" if route.is_split else ""),
        sink=route.sink,
        design="physical_design: {order_by: [id]}\n    " if route.sink == "clickhouse" else "",
        governance="{audit: {state_schema: ops}}" if audit else "{enabled: false}",
    )
    measured = _QUALITY.replace("  acceptance:", f"{rules}  acceptance:") + (_NOT_STAGED if route.is_split else "")
    manifest.write_text(text + (measured if quality else ""))
    scheme = {"clickhouse": "chdb", "duckdb": "duckdb"}[route.sink]
    environment = [("DPONE_CONN_WAREHOUSE", f"{scheme}:///{target}"), ("DPONE_EVIDENCE_DIR", str(DATA / "evidence"))]
    if route.source != "parquet":
        origin = route.place if route.source == "postgres" else f"sqlite:///{route.place}"
        environment.append(("DPONE_CONN_ORIGIN", origin))
    return Candidate(
        name=name,
        command=lambda: [str(BIN / "dpone"), "run", str(manifest), "--progress", "none"],
        reset=lambda: remove(target),
        environment=tuple(environment),
        read_back=lambda: [sys.executable, "-c", _READ_BACK[route.sink], str(target)],
    )


def peers_of(route: Route) -> list[Candidate]:
    """Tools that install from a package index alone, each in an environment of its own; none reads Parquet files."""
    if route.source == "parquet":
        return []
    url = route.place if route.source == "postgres" else f"sqlite:///{route.place}"
    target = DATA / "peer.duckdb"
    found = []
    backends = ("connectorx", "pyarrow") if route.source == "postgres" else ("pyarrow",)
    for backend in backends:
        script = [environment_of("dlt"), str(HERE / "peers" / "dlt_load.py"), backend, url, route.table, str(target)]
        found.append(_peer(f"dlt, {backend}", script, target))
    script = [environment_of("pandas"), str(HERE / "peers" / "pandas_load.py"), url, route.table, str(target)]
    found.append(_peer("pandas in chunks", script, target))
    return found


def _peer(name: str, command: list[str], target: Path) -> Candidate:
    quiet = (("RUNTIME__DLTHUB_TELEMETRY", "false"), ("RUNTIME__LOG_LEVEL", "ERROR"))
    return Candidate(name=name, command=lambda: command, reset=lambda: remove(target), environment=quiet)


def environment_of(peer: str) -> str:
    """The interpreter of the peer's own environment, made from its pinned requirements when it is not there."""
    directory = DATA / "venvs" / peer
    python = directory / "bin" / "python"
    pinned = HERE / "peers" / f"{peer}.txt"
    stamp = directory / f".installed-{pinned.stat().st_mtime_ns}"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        subprocess.run(
            [str(BIN / "uv"), "pip", "install", "-q", "--python", str(python), "-r", str(pinned)], check=True
        )
        stamp.touch()
    return str(python)


def remove(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    for path in target.parent.glob(f"{target.name}*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
