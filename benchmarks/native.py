"""Key ranges side by side against the same by hand, and what a resume reads when one of sixteen ranges was lost.

The lost range is made by a value that its column does not allow: its row lies in the last range, so the first attempt
stages the others, one after the other, and fails; then the value is put right and the same run goes on.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import routes
from measuring import Candidate, Row

SOURCES: Final = ("sqlite", "postgres")
RANGES: Final = 16
_RUN_ID: Final = "bench-resume"
_BROKEN: Final = {"sqlite": "x'00'", "postgres": "'NaN'"}
_COLUMN: Final = {"sqlite": "name", "postgres": "price"}


def side_by_side(source: str, rows: int, repeat: int) -> list[Row]:
    return routes.compare(route_of(source, rows), repeat, peers=False)


def route_of(source: str, rows: int) -> routes.Route:
    return routes.Route(source=source, sink="clickhouse", rows=rows, is_split=True)


def resumed(source: str, rows: int) -> dict[str, object]:
    """Counters of the two attempts, as their step receipts state them. Raises RuntimeError when they are not as meant:
    nothing published by the first, everything by the second, and only the lost range read again."""
    route = route_of(source, rows)
    routes.prepare(route)
    split = f"partitioning: {{column: id, num_partitions: {RANGES}, workers: 2}}"
    candidate = routes.governed(route, split=split)
    candidate.reset()
    with broken_value(route):
        first = attempt(candidate)
    second = attempt(candidate)
    found: dict[str, object] = {
        "source": source,
        "rows": rows,
        "ranges": RANGES,
        "first_exit_code": first["exit_code"],
        "first_error": first["error_code"],
        "first_target_state": first["target_state"],
        "second_exit_code": second["exit_code"],
        "second_extracted_rows": second["extracted_rows"],
        "second_staged_rows": second["staged_rows"],
        "second_final_rows": second["final_rows"],
        "share_read_again": round(int(str(second["extracted_rows"])) / rows, 4),
    }
    if (first["exit_code"], second["exit_code"], second["final_rows"]) != (1, 0, rows):
        raise RuntimeError(f"the lost range was not resumed as meant: {found}")
    return found


def attempt(candidate: Candidate) -> dict[str, object]:
    """One whole process under the run id of both attempts; its step receipt."""
    receipt = routes.DATA / "receipt.json"
    receipt.unlink(missing_ok=True)
    subprocess.run(
        [*candidate.command(), "--run-id", _RUN_ID, "--receipt-path", str(receipt)],
        env={**os.environ, **dict(candidate.environment)},
        capture_output=True,
        check=False,
    )
    stated: dict[str, object] = json.loads(receipt.read_text())
    return stated


@contextmanager
def broken_value(route: routes.Route) -> Iterator[None]:
    """The row with the greatest id does not fit its column until the block ends."""
    last, column = f"(SELECT max(id) FROM {route.table})", _COLUMN[route.source]
    (kept,) = _executed(route, f"SELECT {column} FROM {route.table} WHERE id = {last}")
    text = str(kept).replace("'", "''")
    _executed(route, f"UPDATE {route.table} SET {column} = {_BROKEN[route.source]} WHERE id = {last}")
    try:
        yield
    finally:
        _executed(route, f"UPDATE {route.table} SET {column} = '{text}' WHERE id = {last}")


def _executed(route: routes.Route, sql: str) -> tuple[object, ...]:
    """The first row, if there is one."""
    if route.source == "sqlite":
        with closing(sqlite3.connect(route.place)) as database, database:
            return tuple(database.execute(sql).fetchone() or ())
    import psycopg

    with psycopg.connect(route.place) as connection:
        cursor = connection.execute(sql.encode())
        return tuple((cursor.fetchone() if cursor.description else None) or ())
