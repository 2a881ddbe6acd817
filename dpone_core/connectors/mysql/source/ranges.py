"""Key ranges of a MySQL selection. Connections cannot share a snapshot, so each range has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpone_core.connectors._sql.extract import range_key
from dpone_core.connectors.mysql.session import Session
from dpone_core.connectors.mysql.text import quote_name
from dpone_core.connectors.mysql.types import comparison_expression
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reader import MySqlStream, key_text, stream_of
from .selection import CURSOR_KINDS, bound_literal, selection

KEY_KINDS: Final = CURSOR_KINDS
"""Not UUID: MariaDB orders it by its segments from the right."""


class MySqlRanges:
    """RangeSourcePort over one server."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._database = session.address.database

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        yield None

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        key = range_key(schema, column, KEY_KINDS, "MySQL")
        ordered = comparison_expression(key)
        chosen = selection(request, schema, self._database)
        row = self._session.rows(f"SELECT COUNT(*), MIN({ordered}), MAX({ordered}) {chosen}")[0]
        lower, upper = (None if value is None else key_text(key, value) for value in row[1:])
        return KeyBounds(lower=lower, upper=upper, rows=int(row[0]))

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> MySqlStream:
        chosen = selection(
            request, schema, self._database, also=_conditions(range_key(schema, column, KEY_KINDS, "MySQL"), bounds)
        )
        return stream_of(self._session.address, chosen, request, schema)


def _conditions(key: Column, bounds: KeyRange) -> tuple[str, ...]:
    if bounds.is_null_partition:
        return (f"{quote_name(key.name)} IS NULL",)
    ordered = comparison_expression(key)
    ends = ((">=", bounds.lower), ("<=" if bounds.include_upper else "<", bounds.upper))
    return tuple(f"{ordered} {operator} {bound_literal(key, end)}" for operator, end in ends if end is not None)
