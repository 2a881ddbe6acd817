"""Acceptance metrics of a staged or published DuckDB table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dpone_core.connectors._sql.probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors.duckdb.catalog import schema_of
from dpone_core.connectors.duckdb.database import Database, qualify, resolve
from dpone_core.connectors.duckdb.source.probe import COUNTS


def sink_probe(database: Database) -> SqlSinkProbe:
    """A probe that counts distinct values in one transaction and with the whole memory limit: loads run with a lower
    one."""
    return SqlSinkProbe(
        SinkProbeDialect(
            resolve=resolve,
            schema_of=partial(schema_of, database.rows),
            qualify=qualify,
            rows=database.rows,
            snapshot=partial(
                database.transaction, code="sink_query_failed", message="DuckDB did not measure the table"
            ),
            counts=replace(COUNTS, full_memory=database.full_memory),
        )
    )
