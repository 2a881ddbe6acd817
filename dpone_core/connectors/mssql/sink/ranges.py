"""How SQL Server stages key ranges. Wire-tested against a TDS double; the same suite runs against a server."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.layout import stored_columns
from dpone_core.connectors._sql.range_staging import RangeDialect, SqlRangeStaging, WholeStaging

from .catalog import TargetTable
from .database import Database
from .publish import publication_dialect
from .staging import ensure_schema, final_columns
from .types import LAYOUT


def range_staging(database: Database) -> SqlRangeStaging[TargetTable]:
    return SqlRangeStaging(
        RangeDialect(
            publication=publication_dialect(database),
            ensure_schema=partial(ensure_schema, database),
            definition=_definition,
        )
    )


def _definition(table: str, staging: WholeStaging[TargetTable]) -> str:
    """The SQL after CREATE for the table of all ranges: the final form of a staging table, which
    may become the target."""
    stored = stored_columns(LAYOUT, staging.request, staging.target, staging.attachments)
    return f"TABLE {table} ({', '.join(final_columns(staging.request, stored).values())})"
