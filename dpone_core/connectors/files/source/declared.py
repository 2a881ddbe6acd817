"""What the manifest declares about columns, applied to what a file says of itself."""

from __future__ import annotations

from dataclasses import replace

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema


def apply_not_null(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    """The named columns as not nullable, which every reader enforces; ConnectorError for a name that is not there."""
    for name in names:
        if schema.find(name) is None:
            raise ConnectorError(
                f"not_null names column {name!r}, which the source does not have", code="source_schema_inconsistent"
            )
    columns = (replace(c, nullable=False) if c.name in names else c for c in schema.columns)
    return TableSchema(columns=tuple(columns))
