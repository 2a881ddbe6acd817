"""Applies what the manifest declares about columns to the schema of a file."""

from __future__ import annotations

from dataclasses import replace

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema


def apply_not_null(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    """The schema with the named columns not nullable; `source_schema_inconsistent` for an unknown name."""
    for name in names:
        if schema.find(name) is None:
            raise ConnectorError(
                f"not_null names column {name!r}, which the source does not have", code="source_schema_inconsistent"
            )
    columns = (replace(c, nullable=False) if c.name in names else c for c in schema.columns)
    return TableSchema(columns=tuple(columns))
