"""Writes the benchmark's source: N rows x 12 columns with NULLs, exact decimals and timestamps, as one Parquet file.

python source_data.py ROWS OUTPUT.parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

QUERY = """
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


REQUIRED = ("id", "customer_id", "price", "status", "name", "created_at", "is_active", "region_id")


def main(rows: int, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'; SET threads = 2; SET preserve_insertion_order = true")
    reader = connection.execute(QUERY.format(rows=rows)).to_arrow_reader(122880)
    schema = pa.schema([field.with_nullable(field.name not in REQUIRED) for field in reader.schema])
    building = target.with_suffix(".building")
    with pq.ParquetWriter(building, schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema), row_group_size=122880)
    building.rename(target)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
