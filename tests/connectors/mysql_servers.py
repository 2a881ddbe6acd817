"""What the MySQL suites ask of a server, MariaDB or MySQL; cells of the other one are UNVERIFIED."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import unquote, urlsplit

import pymysql
import pytest

from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest

T = ExtractRequest(table=TableName(schema=None, name="t"))
READERS = ("auto", "pymysql")
_DIGITS = "(SELECT 0 AS d UNION ALL " + " UNION ALL ".join(f"SELECT {digit}" for digit in range(1, 10)) + ")"


def connected(uri: str) -> pymysql.Connection[pymysql.cursors.Cursor]:
    parts = urlsplit(uri)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path.strip("/"),
        autocommit=True,
    )


def sequence(count: int, alias: str = "numbers") -> str:
    """A derived table of one column `seq`: 1 .. count, a power of ten."""
    width = len(str(count)) - 1
    assert count == 10**width
    value = " + ".join(["1", *(f"{10**place} * d{place}.d" for place in range(width))])
    return f"(SELECT {value} AS seq FROM {', '.join(f'{_DIGITS} AS d{place}' for place in range(width))}) AS {alias}"


def is_mariadb(uri: str) -> bool:
    with closing(connected(uri)) as session, session.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        row = cursor.fetchone()
    return row is not None and "mariadb" in str(row[0]).lower()


def needs_mariadb(uri: str, what: str) -> None:
    if not is_mariadb(uri):
        pytest.skip(f"UNVERIFIED: MySQL has no {what}")


@contextmanager
def without_table(uri: str) -> Iterator[Callable[..., None]]:
    """Runs statements, zero dates allowed; the table `t` does not exist."""
    with closing(connected(uri)) as session, session.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+05:00'")
        cursor.execute("DROP TABLE IF EXISTS t")

        def run(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)

        yield run


def read(ports: SourcePorts, request: ExtractRequest = T) -> list[dict[str, object]]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [row for batch in stream.batches() for row in batch.to_pylist()]


def query(text: str, **tokens: str) -> ExtractRequest:
    return ExtractRequest(query=SqlText(text=text), token_values=tokens)
