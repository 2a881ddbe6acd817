"""pandas in chunks into a DuckDB file: what a script does that nobody has thought about for long.

python pandas_load.py SQLALCHEMY_URL TABLE TARGET.duckdb
"""

from __future__ import annotations

import sys

import duckdb
import pandas as pd
import sqlalchemy as sa


def main(url: str, table: str, target: str) -> None:
    with (
        sa.create_engine(url).connect().execution_options(stream_results=True) as source,
        duckdb.connect(target) as sink,
    ):
        for number, chunk in enumerate(pd.read_sql(sa.text(f"SELECT * FROM {table}"), source, chunksize=100_000)):
            sink.register("chunk", chunk)
            sink.execute(
                "CREATE TABLE bench AS SELECT * FROM chunk" if number == 0 else "INSERT INTO bench SELECT * FROM chunk"
            )
            sink.unregister("chunk")
        row = sink.execute("SELECT count(*), sum(amount), count(*) FILTER (note IS NULL) FROM bench").fetchone()
    print(*(row or ()))


if __name__ == "__main__":
    main(*sys.argv[1:])
