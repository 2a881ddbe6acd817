"""Writes the benchmark's sources: N rows x 12 columns with NULLs, exact decimals and timestamps.

python sources.py ROWS parquet|sqlite OUTPUT
python sources.py ROWS postgres URI

The three hold the same rows. A finished source is reused; an unfinished one is never taken for finished.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

QUERY: Final = """
SELECT
  i::BIGINT AS id,
  (hash(i) % 200000)::INTEGER AS customer_id,
  CASE WHEN i % 11 = 0 THEN NULL ELSE (((hash(i * 7) % 1000000000)::BIGINT) / 10000.0)::DECIMAL(18, 4) END AS amount,
  (((hash(i * 3) % 100000000)::BIGINT) / 10000.0)::DECIMAL(18, 4) AS price,
  ['new', 'paid', 'shipped', 'returned', 'cancelled'][1 + (hash(i) % 5)::INT] AS status,
  'customer name ' || (hash(i) % 1000000)::VARCHAR AS name,
  CASE WHEN i % 3 = 0 THEN NULL ELSE 'note ' || md5(i::VARCHAR) END AS note,
  TIMESTAMPTZ '2025-01-01 00:00:00+00' + INTERVAL (i % 31536000) SECOND
    + INTERVAL (hash(i) % 1000000) MICROSECOND AS created_at,
  CASE WHEN i % 5 = 0 THEN NULL ELSE TIMESTAMP '2025-06-01' + INTERVAL (i % 1000000) SECOND END AS updated_at,
  (hash(i * 5) % 2 = 0) AS is_active,
  CASE WHEN i % 13 = 0 THEN NULL ELSE ((hash(i * 11) % 1000000) / 997.0)::DOUBLE END AS score,
  (hash(i) % 100)::SMALLINT AS region_id
FROM range({rows}) t(i)
"""
REQUIRED: Final = ("id", "customer_id", "price", "status", "name", "created_at", "is_active", "region_id")
SQLITE_TABLE: Final = """CREATE TABLE source (
  id INTEGER PRIMARY KEY NOT NULL, customer_id INTEGER NOT NULL, amount DECIMAL(18,4), price DECIMAL(18,4) NOT NULL,
  status VARCHAR(16) NOT NULL, name VARCHAR(64) NOT NULL, note TEXT, created_at TIMESTAMP NOT NULL,
  updated_at TIMESTAMP, is_active BOOLEAN NOT NULL, score DOUBLE, region_id SMALLINT NOT NULL)"""
POSTGRES_TABLE: Final = """CREATE TABLE {name} (
  id BIGINT PRIMARY KEY, customer_id INTEGER NOT NULL, amount NUMERIC(18,4), price NUMERIC(18,4) NOT NULL,
  status VARCHAR(16) NOT NULL, name VARCHAR(64) NOT NULL, note TEXT, created_at TIMESTAMPTZ NOT NULL,
  updated_at TIMESTAMP, is_active BOOLEAN NOT NULL, score DOUBLE PRECISION, region_id SMALLINT NOT NULL)"""


def postgres_table(rows: int) -> str:
    return f"dpone_bench_{rows}"


def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'; SET threads = 2; SET preserve_insertion_order = true")
    return connection


def write_parquet(rows: int, target: Path) -> None:
    reader = engine().sql(QUERY.format(rows=rows)).to_arrow_reader(122880)
    schema = pa.schema([field.with_nullable(field.name not in REQUIRED) for field in reader.schema])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema), row_group_size=122880)


def write_sqlite(rows: int, target: Path) -> None:
    text = (
        "SELECT id, customer_id, amount::DOUBLE, price::DOUBLE, status, name, note,"
        " strftime(created_at, '%Y-%m-%d %H:%M:%S.%f'), strftime(updated_at, '%Y-%m-%d %H:%M:%S'),"
        f" is_active::INT, score, region_id FROM ({QUERY.format(rows=rows)})"
    )
    cursor = engine().execute(text)
    database = sqlite3.connect(target)
    try:
        database.execute("PRAGMA synchronous = off")
        database.execute(SQLITE_TABLE)
        while chunk := cursor.fetchmany(50_000):
            database.executemany(f"INSERT INTO source VALUES ({', '.join('?' * 12)})", chunk)
        database.commit()
    finally:
        database.close()


def write_postgres(rows: int, uri: str) -> None:
    """Under its final name only when complete: created and filled in one transaction."""
    import psycopg

    name = postgres_table(rows)
    with tempfile.TemporaryDirectory() as directory, psycopg.connect(uri) as connection:
        path = Path(directory) / "rows.csv"
        engine().execute(f"COPY ({QUERY.format(rows=rows)}) TO '{path}' (FORMAT csv, HEADER false, NULLSTR '\\N')")
        connection.execute(POSTGRES_TABLE.format(name=name))
        with (
            path.open("rb") as lines,
            connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv, NULL '\\N')") as copy,
        ):
            while chunk := lines.read(1 << 20):
                copy.write(chunk)
        connection.commit()
        connection.execute(f"ANALYZE {name}")


def postgres_is_ready(rows: int, uri: str) -> bool:
    import psycopg

    with psycopg.connect(uri) as connection:
        row = connection.execute("SELECT to_regclass(%s)::text", (postgres_table(rows),)).fetchone()
        return row is not None and row[0] is not None


def ensure(rows: int, kind: str, place: str) -> None:
    if kind == "postgres":
        if not postgres_is_ready(rows, place):
            write_postgres(rows, place)
        return
    writers: dict[str, Callable[[int, Path], None]] = {"parquet": write_parquet, "sqlite": write_sqlite}
    target = Path(place)
    if target.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.with_suffix(".building")
    building.unlink(missing_ok=True)
    writers[kind](rows, building)
    building.rename(target)


if __name__ == "__main__":
    ensure(int(sys.argv[1]), sys.argv[2], sys.argv[3])
