"""One ClickHouse endpoint, embedded or a server: a client per thread, fixed settings, driver errors as ConnectorError.

The client's own retries are off, and insert bodies are memoryviews, so that the client cannot send one twice. Answers
are read as JSON in one piece, so an error in the middle of a result is raised here.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.exceptions import DatabaseError

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.declared.clickhouse import MAX_PARTITIONS_PER_INSERT, MEMORY_LIMIT_BYTES
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

SETTINGS: Final[Mapping[str, str | int]] = {
    "session_timezone": "UTC",
    "insert_null_as_default": 0,
    "input_format_null_as_default": 0,
    "async_insert": 0,
    "optimize_on_insert": 0,
    "max_partitions_per_insert_block": MAX_PARTITIONS_PER_INSERT,
    "max_memory_usage": MEMORY_LIMIT_BYTES,
    "mutations_sync": 2,
    "output_format_json_quote_64bit_integers": 0,
}
_READ_ONLY: Final = 1
READ_ONLY_WITH_SETTINGS: Final = 2
WRITES: Final = 164
"""The number of a statement that read-only mode refuses."""
_SETTINGS_WORD: Final = re.compile(r"\bSETTINGS\b", re.IGNORECASE)
_ENGINE_CODE: Final = re.compile(r"Code: (\d+)")
TOO_MANY_PARTITIONS: Final = 252
_UNDECIDED_CODES: Final = frozenset({159, 209, 210, 232, 319, 394, 999})
"""Timeout, socket timeout, network, part already there (CH-10), unknown status, cancelled, Keeper: the answer does not
say what happened."""
_VALUE_CODES: Final = frozenset({6, 53, 70, 321, 349, 407, 469})
"""Cannot parse, type mismatch, cannot convert, out of range, NULL, decimal overflow, constraint."""


class Session:
    """Creates a client on first use in a thread; `close` closes all of them. Tables without a schema are in
    `default_schema`."""

    def __init__(self, connect: Callable[[], Client], *, default_schema: str, embedded: bool) -> None:
        self._connect = connect
        self._local = threading.local()
        self._clients: list[Client] = []
        self._guard = threading.Lock()
        self._readers: list[Session] = []
        self.default_schema = default_schema
        self.embedded = embedded

    def resolve(self, table: TableName) -> TableName:
        return TableName(schema=table.schema or self.default_schema, name=table.name)

    def command(self, sql: str, *, code: str = "sink_statement_refused", message: str = "ClickHouse refused") -> None:
        """Runs one statement; ConnectorError `code` with `message` when it does not succeed."""
        try:
            self.client().command(sql)
        except Exception as error:
            raise foreign_error(error, message, code) from error

    def attempt(self, sql: str) -> Exception | None:
        """Runs one statement and returns its error, None on success; the caller decides what it means
        (`answer_is_lost`)."""
        try:
            self.client().command(sql)
        except Exception as error:  # noqa: BLE001 - the caller must know, whatever it was
            return error
        return None

    def rows(self, sql: str, parameters: Mapping[str, str] | None = None) -> list[list[Any]]:
        """Rows of a small result; 64-bit integers as int, everything else as ClickHouse's JSON shows it."""
        try:
            body = self.client().raw_query(sql, parameters=dict(parameters or {}), fmt="JSONCompact")
            found: list[list[Any]] = json.loads(body)["data"]
        except Exception as error:
            raise foreign_error(error, "ClickHouse did not answer a query", "sink_query_failed") from error
        return found

    def arrow(self, sql: str, *, code: str, message: str) -> pa.Table:
        """The whole result as one Arrow table, text and bytes as binary. The caller limits its size."""
        try:
            found: pa.Table = self.client().query_arrow(sql, settings={"output_format_arrow_string_as_string": 0})
        except Exception as error:
            raise foreign_error(error, message, code) from error
        return found

    def insert(self, table: str, batches: Sequence[pa.RecordBatch], *, token: str | None, message: str) -> None:
        """Inserts all batches in one ArrowStream request; repeating the same insert with the same `token` changes
        nothing. One thread writes the block, whatever the user's profile says: blocks with one token that several
        threads write can be taken for each other and be dropped (CH-15)."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        settings: dict[str, str | int] = {"max_insert_threads": 1}
        settings |= {"insert_deduplicate": 0} if token is None else {"insert_deduplication_token": token}
        block = memoryview(stream.getvalue())
        self._raw_insert(table, batches[0].schema.names, block, "ArrowStream", settings, message)

    def insert_json(self, table: str, names: Sequence[str], lines: Sequence[str], *, message: str) -> None:
        """One insert of a few rows, each a JSON object; a NULL that a column cannot hold is refused."""
        settings: dict[str, str | int] = {"insert_deduplicate": 0, "input_format_null_as_default": 0}
        block = memoryview("\n".join(lines).encode())  # the client would send bytes again behind our back
        self._raw_insert(table, names, block, "JSONEachRow", settings, message)

    def _raw_insert(
        self,
        table: str,
        names: Sequence[str],
        block: memoryview,
        fmt: str,
        settings: dict[str, str | int],
        message: str,
    ) -> None:
        try:
            self.client().raw_insert(table, column_names=names, insert_block=block, fmt=fmt, settings=settings)
        except Exception as error:
            if engine_code(error) == TOO_MANY_PARTITIONS:
                raise ConnectorError(
                    f"one block of rows spans more than {MAX_PARTITIONS_PER_INSERT} partitions",
                    code="partition_limit_exceeded",
                    fix="choose a coarser partition_by granularity",
                ) from error
            raise foreign_error(error, message, _insert_code(error)) from error

    def client(self) -> Client:
        found: Client | None = getattr(self._local, "client", None)
        if found is None:
            found = self._connect()
            self._local.client = found
            with self._guard:
                self._clients.append(found)
        return found

    def reading(self) -> Session:
        """A session in the engine's read-only mode; closed with this one. Statements may bring settings of their
        own."""
        found = Session(
            lambda: _read_only(self._connect(), READ_ONLY_WITH_SETTINGS, embedded=self.embedded),
            default_schema=self.default_schema,
            embedded=self.embedded,
        )
        self._readers.append(found)
        return found

    @contextmanager
    def own_client(
        self, *, reading: str | None = None, most_rows: int | None = None, most_seconds: float | None = None
    ) -> Iterator[Client]:
        """A client whose session state (USE, SET, temporary tables) ends with the block. In read-only mode if it is for
        `reading` a statement; settings of the statement's own need the mode that lets it create temporary tables.
        `most_rows` limits every answer, `most_seconds` the time it takes."""
        client = self._connect()
        try:
            if most_rows is not None:
                _set(client, "limit", most_rows, embedded=self.embedded)
            if most_seconds is not None:
                _set(client, "max_execution_time", most_seconds, embedded=self.embedded)
            if reading is not None:
                level = READ_ONLY_WITH_SETTINGS if _SETTINGS_WORD.search(reading) else _READ_ONLY
                _read_only(client, level, embedded=self.embedded)
            yield client
        finally:
            client.close()

    def close(self) -> None:
        while self._readers:
            self._readers.pop().close()
        with self._guard:
            while self._clients:
                self._clients.pop().close()
        self._local = threading.local()


def _read_only(client: Client, level: int, *, embedded: bool) -> Client:
    """Puts the client into read-only mode for the rest of its life. The embedded engine keeps settings in the session;
    a server has none, so they go along with every request."""
    _set(client, "readonly", level, embedded=embedded)
    return client


def _set(client: Client, name: str, value: float, *, embedded: bool) -> None:
    if embedded:
        client.command(f"SET {name} = {value}")
    else:
        client.set_client_setting(name, value)


def answer_is_lost(error: BaseException) -> bool:
    """Whether a statement that failed here may have been executed: true unless the engine itself reported the error."""
    code = engine_code(error) if isinstance(error, DatabaseError) else None
    return code is None or code in _UNDECIDED_CODES


def engine_code(error: BaseException) -> int | None:
    """ClickHouse's error number; None when the error did not come from the engine."""
    match = _ENGINE_CODE.search(str(error))
    return int(match.group(1)) if match else None


def _insert_code(error: BaseException) -> str:
    code = engine_code(error)
    if code is None:
        return "sink_unreachable"
    return "staged_value_refused" if code in _VALUE_CODES else "sink_statement_refused"


def connect_embedded(path: str) -> Client:
    """Starts an embedded engine in this process: one directory per process, and never before a fork."""
    return clickhouse_connect.get_client(interface="chdb", path=path, settings=dict(SETTINGS))


def connect_http(*, host: str, port: int, username: str, password: str, database: str, secure: bool) -> Client:
    return clickhouse_connect.get_client(
        interface="https" if secure else "http",
        host=host,
        port=port,
        username=username,
        password=password,
        database=database,
        settings=dict(SETTINGS),
        query_retries=0,
        autogenerate_session_id=False,
    )
