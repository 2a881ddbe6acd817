"""Acceptance metrics of a staged or published ClickHouse table, counted as on the source side."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors.clickhouse.catalog import schema_of
from dpone_core.connectors.clickhouse.ddl import qualify
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.source.probe import COUNTS


def sink_probe(session: Session) -> SqlSinkProbe:
    return SqlSinkProbe(
        SinkProbeDialect(
            resolve=session.resolve,
            schema_of=partial(schema_of, session),
            qualify=qualify,
            rows=session.rows,
            counts=COUNTS,
        )
    )
