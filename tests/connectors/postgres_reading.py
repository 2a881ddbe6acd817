"""How the suites of the PostgreSQL source ask for rows, and what a refusal must say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest

Server = Callable[..., list[tuple[Any, ...]]]


@contextmanager
def statements(uri: str) -> Iterator[Server]:
    """Runs one statement of the server itself, and returns its rows."""
    with psycopg.connect(uri, autocommit=True) as opened:

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor = opened.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


def query(text: str, **tokens: str) -> ExtractRequest:
    return ExtractRequest(query=SqlText(text=text), token_values=tokens)


def table(name: str, schema: str | None = "public", window: CursorWindow | None = None) -> ExtractRequest:
    return ExtractRequest(table=TableName(schema=schema, name=name), window=window)


def read(source: SourcePorts, request: ExtractRequest, schema: TableSchema | None = None) -> pa.Table:
    stream = source.source.open_stream(request, schema or source.source.describe(request))
    try:
        return pa.Table.from_batches(list(stream.batches()), schema=None)
    finally:
        stream.close()


def values(source: SourcePorts, request: ExtractRequest) -> list[object]:
    return read(source, request).column(0).to_pylist()


@contextmanager
def refused(code: str, *words: str) -> Iterator[None]:
    with pytest.raises(ConnectorError) as raised:
        yield
    assert raised.value.code == code
    for word in words:
        assert word in f"{raised.value} {raised.value.fix}"
