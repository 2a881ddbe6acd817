"""How PostgreSQL stages key ranges."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.layout import may_swap
from dpone_core.connectors._sql.range_staging import RangeDialect, SqlRangeStaging, WholeStaging
from dpone_core.connectors.postgres.catalog import qualify
from dpone_core.connectors.postgres.database import Database

from .catalog import TargetTable
from .publish import publication_dialect
from .staging import ensure_schema


def range_staging(database: Database, *, lock_timeout_seconds: float) -> SqlRangeStaging[TargetTable]:
    return SqlRangeStaging(
        RangeDialect(
            publication=publication_dialect(database, lock_timeout_seconds=lock_timeout_seconds),
            ensure_schema=partial(ensure_schema, database),
            definition=_definition,
        )
    )


def _definition(table: str, staging: WholeStaging[TargetTable]) -> str:
    """The SQL after CREATE for the table of all ranges; it is logged when it may become the target, as the staging of
    one reader is."""
    logged = may_swap(staging.request, staging.target, staging.attachments)
    return f"{'' if logged else 'UNLOGGED '}TABLE {table} (LIKE {qualify(staging.part.table)})"
