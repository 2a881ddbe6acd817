"""Acceptance metrics of a staged or published ClickHouse table."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.sink_probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors.clickhouse.catalog import schema_of
from dpone_core.connectors.clickhouse.ddl import qualified
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.source.probe import distincts, nulls


class ClickHouseMetricProbe(SqlSinkProbe):
    def __init__(self, session: Session) -> None:
        super().__init__(
            SinkProbeDialect(
                resolve=session.resolve,
                schema_of=partial(schema_of, session),
                qualified=qualified,
                rows=session.rows,
                count="count()",
                nulls=nulls,
                distincts=distincts,
            )
        )
