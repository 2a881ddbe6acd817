"""Which moments the readers of a DateTime64 see: asked of the server, because newer ones show more years."""

from __future__ import annotations

from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.types import DOCUMENTED_SECONDS, SHOWN_SECONDS
from dpone_core.model.table_schema import Column, TableSchema


def shown_seconds(session: Session, stored: TableSchema) -> tuple[int, int]:
    """The first and the last second that this server shows of a DateTime64; without such a column it is not asked."""
    if not any(is_moment(column) for column in stored.columns):
        return DOCUMENTED_SECONDS
    shown = ", ".join(f"toString(toDateTime64({second}, 0, 'UTC'))" for second in SHOWN_SECONDS)
    (found,) = session.rows(f"SELECT {shown}")
    return SHOWN_SECONDS if list(found) == ["0000-01-01 00:00:00", "9999-12-31 23:59:59"] else DOCUMENTED_SECONDS


def is_moment(column: Column) -> bool:
    return column.type.native.startswith("DateTime64")
