"""The same rows pumped by hand: Parquet -> one reader thread -> embedded ClickHouse. No staging, gates or evidence.

    python by_hand.py SOURCE.parquet DIRECTORY

Prints `rows sum(amount) nulls(note)`, which the benchmark compares with what dpone loaded.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator

import clickhouse_connect
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = """(id Int64, customer_id Int32, amount Nullable(Decimal(18, 4)), price Decimal(18, 4), status String,
name String, note Nullable(String), created_at DateTime64(6, 'UTC'), updated_at Nullable(DateTime64(6)),
is_active Bool, score Nullable(Float64), region_id Int16)"""


def main(source: str, directory: str) -> None:
    client = clickhouse_connect.get_client(interface="chdb", path=directory)
    client.command("CREATE DATABASE IF NOT EXISTS dwh")
    client.command("DROP TABLE IF EXISTS dwh.by_hand")
    client.command(f"CREATE TABLE dwh.by_hand {COLUMNS} ENGINE = MergeTree ORDER BY id")
    for batch in read_ahead(source):
        client.raw_insert("dwh.by_hand", insert_block=memoryview(ipc(batch)), fmt="ArrowStream")
    print(*client.query("SELECT count(), sum(amount), countIf(isNull(note)) FROM dwh.by_hand").result_rows[0])


def read_ahead(source: str) -> Iterator[pa.RecordBatch]:
    batches: queue.Queue[pa.RecordBatch | None] = queue.Queue(2)

    def read() -> None:
        for batch in pq.ParquetFile(source).iter_batches(65536):
            batches.put(batch)
        batches.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (batch := batches.get()) is not None:
        yield batch


def ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
