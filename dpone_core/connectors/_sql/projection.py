"""Checks in the staged rows themselves which lineage columns hold the values of this load."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.model.lineage import ROW_ID
from dpone_core.ports.sink import LineageColumns, LineageProjection


def observe_projection(
    lineage: LineageColumns,
    relation: str,
    *,
    constant: Callable[[str, str], str],
    is_row_id: str,
    first_row: Callable[[str], Sequence[object]],
) -> LineageProjection:
    """The lineage columns whose value is right in every row of `relation`, found by one query. `constant` renders the
    expected value of a column as SQL; `is_row_id` is the SQL condition that a text is 64 hex digits."""
    conditions = {name: f"{quote_ansi(name)} = {constant(name, text)}" for name, text in lineage.constants.items()}
    if lineage.row_id_columns:
        conditions[ROW_ID] = is_row_id
    if not conditions:
        return LineageProjection(columns=(), rows=0)
    every = " AND ".join(conditions.values())
    counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in (every, *conditions.values()))
    total, whole, *counts_held = first_row(f"SELECT count(*), {counts} FROM {relation}")
    columns = tuple(name for name, count in zip(conditions, counts_held, strict=True) if count == total)
    return LineageProjection(columns=columns, rows=int(str(whole)))
