"""Sinks, read without dpone: the rows of the target, what dead loads left, the saved cursor, and leases."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow.parquet as pq

from tests.live.cutting_proxy import CuttingProxy
from tests.live.servers import scratch_postgres
from tests.soak.model import Row
from tests.soak.processes import CHECKOUT
from tests.soak.sources import proxied

ARTIFACTS: Final = ("__dpone__stg", "__dpone__shadow", "__dpone__scratch", "__dpone__aside")
Ask = Callable[[str], list[tuple[Any, ...]]]
_SETTLING_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`rows` are sorted; `leases` counts rows of leases, whoever has them."""

    rows: list[Row]
    leftovers: list[str]
    cursor: int | None
    leases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """`look` waits until nothing that a dead client sent is at work any more.

    `is_shared`: several processes may load at once, and a lease ends with time. `data` is the directory that can be
    full. `faults` plans those of the HTTP endpoint.
    """

    kind: str
    uri: str
    look: Callable[[], Seen]
    is_shared: bool = False
    data: Path | None = None
    proxy: CuttingProxy | None = None
    faults: Callable[[list[dict[str, object]]], None] | None = None


@contextmanager
def duckdb_sink(root: Path) -> Iterator[Sink]:
    path = root / "dwh.duckdb"

    def look() -> Seen:
        if not path.is_file():
            return NOTHING
        with duckdb.connect(str(path), read_only=True) as database:
            names = "SELECT table_schema || '.' || table_name FROM information_schema.tables"
            return _seen(lambda sql: database.execute(sql).fetchall(), names)

    yield Sink(kind="duckdb", uri=f"duckdb:///{path}", look=look, data=root)


@contextmanager
def files_sink(root: Path) -> Iterator[Sink]:
    lake = root / "lake"
    target = lake / "raw" / "orders"

    def look() -> Seen:
        rows = [
            (row["id"], str(row["day"]), row["value"], row["updated_at"])
            for part in target.glob("part-*")
            for row in pq.read_table(part).to_pylist()
        ]
        cursors = _newest(lake / "etl_state" / "__dpone__cursor_state.jsonl", "state_key")
        leases = _newest(lake / "etl_state" / "__dpone__leases.jsonl", "lease_key")
        return Seen(
            rows=sorted(rows),
            leftovers=sorted(path.name[1:] for path in target.glob(".__dpone__*")),
            cursor=int(cursors[0]["cursor_value"]) if cursors else None,
            leases=len(leases),
        )

    yield Sink(kind="files", uri=f"file:///{lake}", look=look, data=root)


@contextmanager
def postgres_sink(root: Path) -> Iterator[Sink]:
    import psycopg

    with scratch_postgres() as uri, proxied(uri) as (through, proxy):

        def look() -> Seen:
            with psycopg.connect(uri, autocommit=True) as server:
                end = time.monotonic() + _SETTLING_SECONDS
                others = (
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
                while server.execute(others).fetchone() != (0,) and time.monotonic() < end:
                    time.sleep(0.05)
                names = "SELECT schemaname || '.' || tablename FROM pg_tables"
                return _seen(lambda sql: server.execute(sql.encode()).fetchall(), names)

        yield Sink(kind="postgres", uri=through, look=look, is_shared=True, proxy=proxy)


_CHDB: Final = """
import chdb, json, sys
engine = chdb.connect(sys.argv[1])
for sql in sys.stdin:
    text = engine.query(sql, "JSONCompactEachRow").bytes().decode()
    print(json.dumps([json.loads(line) for line in text.splitlines()]), flush=True)
"""


@contextmanager
def embedded_clickhouse_sink(root: Path) -> Iterator[Sink]:
    house = root / "house"

    def look() -> Seen:
        if not house.exists():
            return NOTHING
        with subprocess.Popen(
            [sys.executable, "-c", _CHDB, str(house)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            asked, answers = process.stdin, process.stdout
            assert asked is not None and answers is not None

            def ask(sql: str) -> list[tuple[Any, ...]]:
                asked.write(sql + "\n")
                asked.flush()
                return [tuple(row) for row in json.loads(answers.readline())]

            return _seen(ask, "SELECT concat(database, '.', name) FROM system.tables", final=" FINAL")

    yield Sink(kind="clickhouse", uri=f"chdb:///{house}", look=look, data=root)


@contextmanager
def http_clickhouse_sink(root: Path) -> Iterator[Sink]:
    double = CHECKOUT / "tests" / "connectors" / "clickhouse_http_double.py"
    with subprocess.Popen(
        [sys.executable, str(double), str(root / "served")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        def post(path: str, body: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data=body.encode(), timeout=30) as answer:
                return str(answer.read().decode())

        def ask(sql: str) -> list[tuple[Any, ...]]:
            lines = post("/", f"{sql} FORMAT JSONCompactEachRow").splitlines()
            return [tuple(json.loads(line)) for line in lines]

        def look() -> Seen:
            time.sleep(0.3)
            return _seen(ask, "SELECT concat(database, '.', name) FROM system.tables", final=" FINAL")

        def plan(faults: list[dict[str, object]]) -> None:
            post("/_faults", json.dumps(faults))

        uri = f"clickhouse://default@127.0.0.1:{port}/default"
        try:
            with proxied(uri) as (through, proxy):
                yield Sink(kind="clickhouse", uri=through, look=look, is_shared=True, proxy=proxy, faults=plan)
        finally:
            process.kill()


NOTHING: Final = Seen(rows=[], leftovers=[], cursor=None, leases=0)


def _seen(ask: Ask, names: str, *, final: str = "") -> Seen:
    tables = {str(name) for (name,) in ask(names)}
    rows: Sequence[tuple[Any, ...]] = ()
    cursors: Sequence[tuple[Any, ...]] = ()
    leases = 0
    if "raw.orders" in tables:
        rows = ask("SELECT id, day, value, updated_at FROM raw.orders")
    if "etl_state.__dpone__cursor_state" in tables:
        cursors = ask(f"SELECT cursor_value FROM etl_state.__dpone__cursor_state{final}")
    if "etl_state.__dpone__leases" in tables:
        leases = int(ask(f"SELECT count(*) FROM etl_state.__dpone__leases{final}")[0][0])
    return Seen(
        rows=sorted((int(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in rows),
        leftovers=sorted(
            name for _, _, name in (table.partition(".") for table in tables) if name.startswith(ARTIFACTS)
        ),
        cursor=int(cursors[0][0]) if cursors else None,
        leases=leases,
    )


def _newest(path: Path, key: str) -> list[dict[str, Any]]:
    """The last row of every key; a last line without its line feed was torn, and a deleted row is none."""
    rows: dict[str, dict[str, Any]] = {}
    for text in path.read_text("ascii").split("\n")[:-1] if path.is_file() else ():
        line = json.loads(text)
        if "deleted" in line:
            rows.pop(line["deleted"][key], None)
        if "row" in line:
            rows[line["row"][key]] = line["row"]
    return list(rows.values())


OpenSink = Callable[[Path], AbstractContextManager[Sink]]
SINKS: Final[dict[str, OpenSink]] = {
    "duckdb": duckdb_sink,
    "files": files_sink,
    "postgres": postgres_sink,
    "chdb": embedded_clickhouse_sink,
    "clickhouse": http_clickhouse_sink,
}
