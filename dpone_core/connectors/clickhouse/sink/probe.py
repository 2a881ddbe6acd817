"""Acceptance metrics of a staged or published ClickHouse table."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.sink_probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.connectors.clickhouse.catalog import schema_of
from dpone_core.connectors.clickhouse.ddl import qualified
from dpone_core.connectors.clickhouse.session import Session


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


def nulls(name: str) -> str:
    return f"countIf(isNull({quote_backtick(name)}))"


def distincts(name: str) -> str:
    return f"uniqExact({quote_backtick(name)})"
