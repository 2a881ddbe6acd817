"""Key ranges of a SQL Server selection. Connections cannot share a snapshot, so each range has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dpone_core.connectors._sql.extract import range_key
from dpone_core.connectors.mssql.session import Session
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.connectors.mssql.types import reading_expression
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reader import MssqlSource, MssqlStream, key_text
from .selection import CURSOR_KINDS, Condition, compare_to_bound, selection


class MssqlRanges:
    """RangeSourcePort over one server. Text keys (collations) and uniqueidentifier (an order of its
    own) are refused."""

    def __init__(self, session: Session, source: MssqlSource) -> None:
        self._session = session
        self._source = source

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        yield None

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        key = range_key(schema, column, CURSOR_KINDS, "SQL Server")
        chosen = selection(request, schema)
        name = quote_name(key.name)
        counted = f"SELECT COUNT_BIG(*) AS n, MIN({name}) AS low, MAX({name}) AS high {chosen.text}"
        low, high = (reading_expression(replace(key, name=end)) for end in ("low", "high"))
        sql = f"{chosen.head}SELECT n, {low} AS least, {high} AS greatest FROM ({counted}) AS dpone_bounds"
        row = self._session.rows(sql, chosen.parameters)[0]
        return KeyBounds(lower=key_text(key, row[1]), upper=key_text(key, row[2]), rows=int(row[0]))

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> MssqlStream:
        chosen = selection(
            request, schema, also=_conditions(range_key(schema, column, CURSOR_KINDS, "SQL Server"), bounds)
        )
        return self._source.stream_of(request, chosen, schema)


def _conditions(key: Column, bounds: KeyRange) -> tuple[Condition, ...]:
    if bounds.is_null_partition:
        return (Condition(text=f"{quote_name(key.name)} IS NULL"),)
    ends = ((">=", bounds.lower), ("<=" if bounds.include_upper else "<", bounds.upper))
    return tuple(compare_to_bound(key, operator, end) for operator, end in ends if end is not None)
