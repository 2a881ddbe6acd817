"""dlt's SQL database source into a DuckDB file, as its documentation shows it.

python dlt_load.py BACKEND SQLALCHEMY_URL TABLE TARGET.duckdb
"""

from __future__ import annotations

import sys
import tempfile

import dlt
import duckdb
from dlt.sources.sql_database import sql_table


def main(backend: str, url: str, table: str, target: str) -> None:
    options: dict[str, object] = {}
    if backend == "connectorx":
        options = {"backend_kwargs": {"return_type": "arrow_stream"}, "chunk_size": 65536}
    elif backend == "pyarrow":
        options = {"chunk_size": 65536}
    with tempfile.TemporaryDirectory() as working:
        pipeline = dlt.pipeline(
            pipeline_name="bench",
            destination=dlt.destinations.duckdb(target),
            dataset_name="raw",
            pipelines_dir=working,
        )
        resource = sql_table(credentials=url, table=table, backend=backend, **options)
        pipeline.run(resource.with_name("bench"), write_disposition="replace").raise_on_failed_jobs()
    with duckdb.connect(target) as connection:
        row = connection.execute(
            "SELECT count(*), sum(amount), count(*) FILTER (note IS NULL) FROM raw.bench"
        ).fetchone()
    print(*(row or ()))


if __name__ == "__main__":
    main(*sys.argv[1:])
