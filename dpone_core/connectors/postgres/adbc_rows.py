"""Small statements on an ADBC connection: the plain protocol instead of COPY, and a signal ends them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import adbc_driver_postgresql.dbapi as adbc

from dpone_core.connectors._sql.interruptible import interruptible

_USE_COPY: Final = "adbc.postgresql.use_copy"


def fetch(connection: adbc.Connection, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement; a statement without rows gives an empty list. Raises the driver's errors."""
    with closing(connection.cursor(adbc_stmt_kwargs={_USE_COPY: "false"})) as cursor:

        def rows() -> list[tuple[Any, ...]]:
            cursor.execute(sql, tuple(parameters) or None)
            return list(cursor.fetchall()) if cursor.description else []

        return interruptible(rows, cursor.adbc_cancel)
