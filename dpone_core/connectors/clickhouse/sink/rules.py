"""Rules about columns, judged over staged rows by ClickHouse."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.column_rules import RuleDialect, SqlStagedRules
from dpone_core.connectors._sql.text import literal_backslash, quote_backtick, split_statements
from dpone_core.connectors.clickhouse.catalog import schema_of
from dpone_core.connectors.clickhouse.ddl import qualify
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.statements import ClickHouseStatements
from dpone_core.model.special_values import instant_of
from dpone_core.model.table_schema import Column, ColumnKind
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest


def staged_rules(session: Session) -> SqlStagedRules:
    return SqlStagedRules(
        RuleDialect(
            schema_of=partial(schema_of, session),
            qualify=qualify,
            quote=quote_backtick,
            rows=session.rows,
            exact=lambda column: quote_backtick(column.name),
            literal=_literal,
            newest=_newest,
            statements=ClickHouseStatements(session),
            only_statement=partial(split_statements, backslash_escapes=True),
            stays=_stays,
            bucket="ifNull(cityHash64({}) % {}, 0)".format,
            count="count()",
            count_of="countIf({})".format,
        )
    )


def _stays(request: StageRequest, staged: str) -> str:
    """Of a merge the rows whose key is not staged, where a NULL in a key is no key; of a replacement those of other
    partitions: staging is partitioned as the target is."""
    if request.strategy is StrategyMode.PARTITION_REPLACE:
        return f"_partition_id NOT IN (SELECT DISTINCT _partition_id FROM {staged})"
    names = [quote_backtick(name) for name in request.unique_key]
    return f"NOT ifNull(({', '.join(names)}) IN (SELECT {', '.join(names)} FROM {staged}), 0)"


def _literal(column: Column, text: str) -> str:
    if column.type.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        digits = column.type.fraction or 0
        moment = literal_backslash(instant_of(text).isoformat(" "))
        return f"CAST(toDateTime64({moment}, {digits}, 'UTC') AS {column.type.native})"
    return f"CAST({literal_backslash(text)} AS {column.type.native})"


def _newest(column: Column) -> str:
    """NULL without rows, where a plain max would be 1970."""
    greatest = f"maxOrNull({quote_backtick(column.name)})"
    return f"dateDiff('second', toDateTime64('1970-01-01 00:00:00', 0, 'UTC'), toDateTime64({greatest}, 0, 'UTC'))"
