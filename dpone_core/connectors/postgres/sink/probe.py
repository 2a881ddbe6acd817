"""Acceptance metrics of a staged or published PostgreSQL table, counted as on the source side."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors.postgres.catalog import qualify, relation_schema
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.source.probe import COUNTS

from .catalog import resolve


def sink_probe(database: Database) -> SqlSinkProbe:
    return SqlSinkProbe(
        SinkProbeDialect(
            resolve=resolve,
            schema_of=partial(relation_schema, database),
            qualify=qualify,
            rows=database.rows,
            counts=COUNTS,
        )
    )
