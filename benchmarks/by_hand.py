"""The same rows pumped by hand: one reader thread, one writer, no staging, gates or evidence.

    python by_hand.py parquet|sqlite|postgres SOURCE clickhouse|duckdb TARGET [TABLE [ranges]]

With `ranges` two ranges of `id` are pumped side by side, each by a reader and a writer of its own, from SQLite or
PostgreSQL into ClickHouse. Decimals stay exact on every route. Prints `rows sum(amount) nulls(note)`, which the
benchmark compares with what the other candidates loaded.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

BATCH_ROWS: Final = 65536
CLICKHOUSE_TABLE: Final = """CREATE TABLE dwh.by_hand (id Int64, customer_id Int32, amount Nullable(Decimal(18, 4)),
price Decimal(18, 4), status String, name String, note Nullable(String), created_at DateTime64(6, 'UTC'),
updated_at Nullable(DateTime64(6)), is_active Bool, score Nullable(Float64), region_id Int16)
ENGINE = MergeTree ORDER BY id"""
DUCKDB_TABLE: Final = """CREATE TABLE by_hand (id BIGINT NOT NULL, customer_id INTEGER NOT NULL, amount DECIMAL(18, 4),
price DECIMAL(18, 4) NOT NULL, status VARCHAR NOT NULL, name VARCHAR NOT NULL, note VARCHAR,
created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMP, is_active BOOLEAN NOT NULL, score DOUBLE,
region_id SMALLINT NOT NULL)"""
SUMS: Final = "SELECT count(*), sum(amount), sum(CASE WHEN note IS NULL THEN 1 ELSE 0 END) FROM {table}"


def parquet(source: str, table: str, where: str = "") -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    yield from pq.ParquetFile(source, pre_buffer=False).iter_batches(BATCH_ROWS)


def sqlite(source: str, table: str, where: str = "") -> Iterator[pa.RecordBatch]:
    """Decimals as text, so that no amount goes through a double on its way."""
    import adbc_driver_sqlite.dbapi as adbc

    query = (
        "SELECT id, customer_id, CAST(amount AS TEXT) AS amount, CAST(price AS TEXT) AS price, status, name, note,"
        f" created_at, updated_at, is_active, score, region_id FROM {table} {where}"
    )
    with adbc.connect(source) as connection:
        cursor = connection.cursor(adbc_stmt_kwargs={"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        cursor.execute(query)
        yield from cursor.fetch_record_batch()


def postgres(source: str, table: str, where: str = "") -> Iterator[pa.RecordBatch]:
    """Decimals as scaled integers, reinterpreted without a copy."""
    import adbc_driver_postgresql.dbapi as adbc

    query = (
        "SELECT id, customer_id, (amount * 10000)::int8 AS amount, (price * 10000)::int8 AS price, status, name, note,"
        f" created_at, updated_at, is_active, score, region_id FROM {table} {where}"
    )
    with adbc.connect(source) as connection:
        cursor = connection.cursor(adbc_stmt_kwargs={"adbc.postgresql.batch_size_hint_bytes": str(4 << 20)})
        cursor.execute(query)
        for batch in cursor.fetch_record_batch():
            yield pa.RecordBatch.from_arrays(
                [
                    pa.Array.from_buffers(pa.decimal64(18, 4), len(column), column.buffers(), offset=column.offset)
                    if name in ("amount", "price")
                    else column
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                ],
                names=batch.schema.names,
            )


READERS: Final[dict[str, Callable[..., Iterator[pa.RecordBatch]]]] = {
    "parquet": parquet,
    "sqlite": sqlite,
    "postgres": postgres,
}


def read_ahead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(2)

    def read() -> None:
        try:
            for batch in batches:
                waiting.put(batch)
        except BaseException as error:  # noqa: BLE001 - raised again by the writer
            waiting.put(error)
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (item := waiting.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


def into_clickhouse(batches: Iterator[pa.RecordBatch], directory: str) -> tuple[object, ...]:
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=directory)
    client.command("CREATE DATABASE IF NOT EXISTS dwh")
    client.command("DROP TABLE IF EXISTS dwh.by_hand")
    client.command(CLICKHOUSE_TABLE)
    insert(client, batches)
    return tuple(client.query(SUMS.format(table="dwh.by_hand")).result_rows[0])


def insert(client: Client, batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        client.raw_insert("dwh.by_hand", insert_block=memoryview(ipc(batch)), fmt="ArrowStream")


def ranges_into_clickhouse(kind: str, source: str, directory: str, table: str) -> tuple[object, ...]:
    """Two ranges at a time; a failure of either is raised by `result`."""
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=directory)
    client.command("CREATE DATABASE IF NOT EXISTS dwh")
    client.command("DROP TABLE IF EXISTS dwh.by_hand")
    client.command(CLICKHOUSE_TABLE)
    middle = middle_of(kind, source, table)

    def pump(where: str) -> None:
        own = clickhouse_connect.get_client(interface="chdb", path=directory)
        insert(own, read_ahead(READERS[kind](source, table, where)))

    with ThreadPoolExecutor(2) as threads:
        for pumped in [threads.submit(pump, f"WHERE id {side} {middle}") for side in ("<", ">=")]:
            pumped.result()
    return tuple(client.query(SUMS.format(table="dwh.by_hand")).result_rows[0])


def middle_of(kind: str, source: str, table: str) -> int:
    import adbc_driver_postgresql.dbapi as of_postgres
    import adbc_driver_sqlite.dbapi as of_sqlite

    connect = {"sqlite": of_sqlite.connect, "postgres": of_postgres.connect}[kind]
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT min(id), max(id) FROM {table}")
        first, last = cursor.fetchone() or (0, 0)
        return (int(first) + int(last)) // 2 + 1


def into_duckdb(batches: Iterator[pa.RecordBatch], path: str) -> tuple[object, ...]:
    import duckdb

    connection = duckdb.connect(path, config={"threads": 2})
    connection.execute("SET timezone = 'UTC'")
    connection.execute(DUCKDB_TABLE)
    first = next(batches)

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    connection.register("incoming", pa.RecordBatchReader.from_batches(first.schema, all_batches()))
    connection.execute("INSERT INTO by_hand SELECT * FROM incoming")
    connection.execute("CHECKPOINT")
    row = connection.execute(SUMS.format(table="by_hand")).fetchone()
    connection.close()
    return tuple(row or ())


def ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def main(kind: str, source: str, sink: str, target: str, table: str = "source", ranges: str = "") -> None:
    if ranges:
        print(*ranges_into_clickhouse(kind, source, target, table))
        return
    writer = {"clickhouse": into_clickhouse, "duckdb": into_duckdb}[sink]
    print(*writer(read_ahead(READERS[kind](source, table)), target))


if __name__ == "__main__":
    main(*sys.argv[1:])
