"""Results of ClickHouse as Arrow batches, one block in memory at a time. A result counts as complete only when its end
is proved.

The embedded engine gives each block as an Arrow stream of its own and raises at an error. A server sends one Arrow
stream, which is complete only with its end mark: a connection that closes between two batches looks like an end too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

import pyarrow as pa

from dpone_core.connectors.clickhouse.session import READ_ONLY_WITH_SETTINGS, Session
from dpone_core.declared.clickhouse import MEMORY_LIMIT_BYTES

OpenBlocks = Callable[[str, Mapping[str, str]], Iterator[pa.RecordBatch]]
"""Runs a SELECT with bound text parameters; raises whatever the driver raises, `ClickHouseStreamCut` included."""

BLOCK_ROWS: Final = 16_384
"""The engine holds several blocks at a time: with rows of 1 kB, 65,536 of them cost 480 MiB and these 50."""
_SETTINGS: Final[Mapping[str, str | int]] = {
    "session_timezone": "UTC",
    "max_memory_usage": MEMORY_LIMIT_BYTES,
    "max_block_size": BLOCK_ROWS,
    "output_format_arrow_string_as_string": 0,
    "output_format_arrow_fixed_string_as_fixed_byte_array": 1,
    "output_format_arrow_low_cardinality_as_dictionary": 0,
    "output_format_arrow_date_as_uint16": 0,
}
"""Text leaves as bytes: ClickHouse does not promise UTF-8, so the cast to text has to look."""


class ClickHouseStreamCut(Exception):
    """The server's answer ended before its end mark."""


def embedded_blocks(path: str) -> OpenBlocks:
    """Opens results of an embedded engine. Each result has an engine handle of its own, so no other
    call waits for it."""

    def blocks(sql: str, parameters: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        import chdb

        statement = f"{sql}\nSETTINGS {_clause({'output_format_arrow_compression_method': 'none'})}"
        with closing(chdb.connect(path)) as connection:
            connection.query(f"SET readonly = {READ_ONLY_WITH_SETTINGS}")
            bound = {name: _escape(value) for name, value in parameters.items()}
            with closing(connection.send_query(statement, "ArrowStream", params=bound)) as result:
                for block in result:
                    content = block.bytes()
                    if content:
                        with pa.ipc.open_stream(content) as reader:
                            yield from reader

    return blocks


def served_blocks(session: Session) -> OpenBlocks:
    """Opens results of a server. Each result has a client of its own, because a client with an open result refuses
    other calls."""

    def blocks(sql: str, parameters: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        statement = f"{sql}\nSETTINGS {_clause({})}"
        with session.own_client() as client:
            body: Any = client.raw_stream(statement, parameters=dict(parameters), fmt="ArrowStream")
            with closing(body):
                yield from whole_stream(body)

    return blocks


def whole_stream(body: io.IOBase) -> Iterator[pa.RecordBatch]:
    """The batches of one Arrow stream. Raises ClickHouseStreamCut unless the end mark arrived and nothing after it."""
    watched = _WatchedBody(body)
    with _arrow_reader(watched) as reader:
        yield from reader
    if watched.ended or watched.read(1):
        raise ClickHouseStreamCut


@contextmanager
def _arrow_reader(watched: _WatchedBody) -> Iterator[pa.RecordBatchReader]:
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(watched, "r"))
    except pa.ArrowInvalid as error:
        raise ClickHouseStreamCut from error
    with reader:
        yield reader


class _WatchedBody:
    """The body of an answer; it records whether its end was reached, because the Arrow reader stops before it."""

    closed = False

    def __init__(self, body: Any) -> None:
        self._body = body
        self.ended = False

    def read(self, size: int = -1) -> bytes:
        pieces: list[bytes] = []
        wanted = size
        while wanted:
            piece = self._body.read(wanted)
            if not piece:
                self.ended = size > 0
                break
            pieces.append(piece)
            wanted -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        self.closed = True


def _clause(more: Mapping[str, str | int]) -> str:
    return ", ".join(
        f"{name} = {value}" if isinstance(value, int) else f"{name} = '{value}'"
        for name, value in {**_SETTINGS, **more}.items()
    )


def _escape(value: str) -> str:
    """A parameter's text escaped as ClickHouse reads it: as a tab-separated field."""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
