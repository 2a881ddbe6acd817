"""A TDS double: Microsoft's driver talks to pysqlbridge's protocol layer, DuckDB answers, faults come on demand.

It proves driver calls, types on the wire, the shape of our SQL, order of statements and error handling: "wire-tested
against a TDS double". It proves nothing about SQL Server's semantics, locks, isolation, plans, collations or speed.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import sqlglot
from pysqlbridge.server import BridgeServer
from pysqlbridge.tds import connection as protocol
from pysqlbridge.tds.result import Column, Integer, NVarChar, Query, QueryError, QueryResult
from pysqlbridge.tds.rpc import parse_rpc

from tests.connectors.tds_double_sql import Translated, split, translate
from tests.connectors.tds_double_types import Declared, system_type_name, wire_type

USER = "sa"
PASSWORD = "Str0ng!p}w;{=@"
NOTHING = QueryResult([], [])
Procedure = Callable[["TdsDouble", "TdsSession", Mapping[str, Any]], list[QueryResult]]

_IGNORED = re.compile(r"(?i)^(set\s+(?!@)\w|use\s|print\s|declare\s+@\w+\s+\w+\s*$)")
_BEGIN = re.compile(r"(?i)^begin\s+tran")
_COMMIT = re.compile(r"(?i)^commit")
_ROLLBACK = re.compile(r"(?i)^(if\s+@@trancount\s*>\s*0\s+)?rollback")
_RENAME = re.compile(r"(?i)^exec(?:ute)?\s+(?:sys\.|dbo\.)?sp_rename\s+N?'([^']+)'\s*,\s*N?'([^']+)'")
_EXEC = re.compile(r"(?i)^\{?\s*(?:call|exec(?:ute)?)\s+([\w.\[\]]+)\s*(.*?)\}?$", re.DOTALL)
_ARGUMENT = re.compile(r"(?:@(\w+)\s*=\s*)?(N?'(?:[^']|'')*'|@?[\w.\-]+)")
_DESCRIBE = re.compile(r"(?i)sys\.dm_exec_describe_first_result_set\s*\(\s*@(\w+)\s*,\s*@(\w+)")
_PARAMETER = re.compile(r"\$\w+")
_DUCKDB_ERRORS = {"CatalogException": 208, "ParserException": 102, "BinderException": 207, "ConstraintException": 2627}


@dataclass(slots=True)
class Fault:
    """A batch that matches is refused with `number`, or its socket is dropped, before or after it ran."""

    match: str
    stage: str
    number: int | None = None
    times: int = 1


@dataclass(slots=True)
class TdsSession:
    """One connection: DuckDB's cursor, open transactions, prepared statements."""

    cursor: duckdb.DuckDBPyConnection
    transactions: int = 0
    state: int | None = None
    prepared: dict[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _RpcAnswer:
    """The last DONE becomes DONEINPROC; then the return status, the handle and DONEPROC."""

    base: QueryResult
    handle: int | None

    def encode(self, tds_version: int, server: str = "") -> bytes:
        body = bytearray(self.base.encode(tds_version, server=server))
        body[-13], body[-12] = 0xFF, body[-12] | 1
        value = b""
        if self.handle is not None:
            head = b"\xac" + (0).to_bytes(2, "little") + b"\x00\x01" + bytes(6)
            value = head + b"\x26\x04\x04" + self.handle.to_bytes(4, "little")
        return bytes(body) + b"\x79" + bytes(4) + value + b"\xfe" + bytes(12)


class _Dropped(BaseException):
    """The client will never hear of it; no `except Exception` of the protocol layer may answer for us."""


class _Server(BridgeServer):
    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            super().finish_request(request, client_address)
        except _Dropped:
            return


class _Logins:
    configured = True

    def admits(self, user: str, password: str) -> bool:
        return (user, password) == (USER, PASSWORD)


class TdsDouble:
    """`procedures` answer EXEC; `received` lists every batch; `faults` strike once each."""

    def __init__(self) -> None:
        self.procedures: dict[str, Procedure] = {}
        self.faults: list[Fault] = []
        self.received: list[str] = []
        self.catalog: dict[str, dict[str, Declared]] = {}
        self._guard = threading.RLock()
        self._database = duckdb.connect()
        for statement in _CATALOG:
            self._database.execute(statement)
        logging.getLogger("pysqlbridge").setLevel(logging.CRITICAL)
        self._server = _Server(port=0, query_handler=self, logins=_Logins())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._own = self._new_session()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def uri(self) -> str:
        from urllib.parse import quote

        user = f"{USER}:{quote(PASSWORD, safe='')}"
        return f"mssql://{user}@127.0.0.1:{self.port}/double?trust_server_certificate=yes"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._database.close()

    def run(self, *batches: str) -> list[tuple[Any, ...]]:
        """T-SQL without the wire; the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        for batch in batches:
            answers = self._batch(self._own, batch, {})
            if answers[-1].error is not None:
                raise answers[-1].error
            rows = [tuple(row) for row in answers[-1].rows]
        return rows

    def native(self, sql: str) -> list[tuple[Any, ...]]:
        """DuckDB's own SQL, for many rows at once."""
        return self._own.cursor.execute(sql).fetchall()

    def __call__(self, query: Query) -> Any:
        session = query.session.setdefault("double", None) or self._new_session()
        query.session["double"] = session
        procedure = (query.procedure or "").lower().replace("[", "").replace("]", "").split(".")[-1]
        match procedure:
            case "sp_prepexec" | "sp_prep_exec":
                _, definitions, statement, *values = query.arguments
                handle = len(session.prepared) + 1
                session.prepared[handle] = (str(definitions), str(statement))
                return _RpcAnswer(self._answered(session, str(statement), _bound(str(definitions), values)), handle)
            case "sp_prepare":
                _, definitions, statement, *_rest = query.arguments
                handle = len(session.prepared) + 1
                session.prepared[handle] = (str(definitions or ""), str(statement))
                return _RpcAnswer(NOTHING, handle)
            case "sp_execute":
                handle, *values = query.arguments
                definitions, statement = session.prepared[int(str(handle))]
                return _RpcAnswer(self._answered(session, statement, _bound(definitions, values)), None)
            case "sp_unprepare":
                return _RpcAnswer(NOTHING, None)
            case "":
                named = {name.lstrip("@"): value for name, value in query.parameters.items()}
                return self._answered(session, query.sql, named)
            case _:
                return QueryResult([Column("unknown", Integer(4))], [])

    def _new_session(self) -> TdsSession:
        cursor = self._database.cursor()
        return TdsSession(cursor=cursor)

    def _answered(self, session: TdsSession, sql: str, parameters: Mapping[str, Any]) -> QueryResult:
        with self._guard:
            self.received.append(sql)
            self._strike(sql, "before")
            answers = self._batch(session, sql, parameters)
            self._strike(sql, "after")
        first, *rest = answers
        if first.error is not None and not rest:
            raise first.error
        return QueryResult(first.columns, first.rows, tuple(rest), first.error)

    def _strike(self, sql: str, stage: str) -> None:
        for fault in self.faults:
            if fault.stage == stage and fault.times > 0 and re.search(fault.match, sql):
                fault.times -= 1
                if fault.number is None:
                    raise _Dropped
                raise QueryError("injected", number=fault.number)

    def _batch(self, session: TdsSession, sql: str, parameters: Mapping[str, Any]) -> list[QueryResult]:
        """Every answer in order; the first error ends the batch, behind the answers before it."""
        answers: list[QueryResult] = []
        try:
            for statement in split(sql):
                answers += self._statement(session, statement.strip(), parameters)
        except QueryError as error:
            answers.append(QueryResult([], [], error=error))
        return answers or [NOTHING]

    def _statement(self, session: TdsSession, text: str, parameters: Mapping[str, Any]) -> list[QueryResult]:
        if not text or _IGNORED.match(text):
            return []
        if _BEGIN.match(text) or _COMMIT.match(text) or _ROLLBACK.match(text):
            return _transaction(session, text)
        if renamed := _RENAME.match(text):
            old, new = renamed.group(1).split(".")[-1].strip("[]"), renamed.group(2)
            session.cursor.execute(f'ALTER TABLE "{old}" RENAME TO "{new}"')
            self.catalog[new.lower()] = self.catalog.pop(old.lower(), {})
            return [NOTHING]
        if called := _EXEC.match(text):
            return self._called(session, called.group(1), called.group(2), parameters)
        if described := _DESCRIBE.search(text):
            return [self._described(session, str(parameters[described.group(1)]))]
        for name, value in (("@@TRANCOUNT", session.transactions), ("XACT_STATE()", _xact_state(session))):
            text = re.sub(re.escape(name), str(value), text, flags=re.IGNORECASE)
        return [self._executed(session, one, parameters) for one in self._translated(text)]

    def _translated(self, text: str) -> list[Translated]:
        try:
            return translate(text, self.catalog)
        except sqlglot.errors.SqlglotError as error:
            raise QueryError("Incorrect syntax.", number=102) from error

    def _executed(self, session: TdsSession, one: Translated, parameters: Mapping[str, Any]) -> QueryResult:
        used = {k: v for k, v in parameters.items() if re.search(rf"\${re.escape(k)}\b", one.sql)}
        try:
            session.cursor.execute(one.sql, used or None)
            if not one.returns_rows:
                self._remember(one)
                return NOTHING
            return _rows_of(session.cursor, one)
        except duckdb.Error as error:
            number = _DUCKDB_ERRORS.get(type(error).__name__, 50_000)
            raise QueryError(str(error).splitlines()[0][:200], number=number) from error

    def _remember(self, one: Translated) -> None:
        if one.created is None:
            return
        table, columns, required = one.created
        self.catalog[table] = columns
        self._database.execute("DELETE FROM double_catalog.columns WHERE lower(table_name) = ?", [table])
        for ordinal, (name, kind) in enumerate(columns.items(), 1):
            self._database.execute(
                "INSERT INTO double_catalog.columns VALUES ('dbo', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [table, name, ordinal, *_catalog_row(kind), "NO" if name in required else "YES"],
            )

    def _called(self, session: TdsSession, name: str, given: str, parameters: Mapping[str, Any]) -> list[QueryResult]:
        short = name.replace("[", "").replace("]", "").split(".")[-1].lower()
        if short not in self.procedures:
            raise QueryError(f"Could not find stored procedure '{name}'.", number=2812)
        arguments = {}
        for position, (label, value) in enumerate(_ARGUMENT.findall(given)):
            plain = parameters.get(value[1:]) if value.startswith("@") else value.removeprefix("N").strip("'")
            arguments[label or str(position)] = plain
        return self.procedures[short](self, session, arguments)

    def _described(self, session: TdsSession, sql: str) -> QueryResult:
        columns = [Column(name, NVarChar(128)) for name in ("name", "system_type_name", "user_type_name")]
        columns.append(Column("error_number", Integer(4)))
        try:
            (one,) = self._translated(sql)
            unbound = _PARAMETER.sub("NULL", one.sql)
            session.cursor.execute(f"SELECT * FROM ({unbound}) AS q LIMIT 0")
        except QueryError as error:
            return QueryResult(columns, [[None, None, None, error.number]])
        except duckdb.Error as error:
            return QueryResult(columns, [[None, None, None, _DUCKDB_ERRORS.get(type(error).__name__, 50_000)]])
        rows = []
        for position, found in enumerate(session.cursor.description or ()):
            named = one.named[position] if position < len(one.named) else None
            rows.append([found[0], named or system_type_name(str(found[1])), None, None])
        return QueryResult(columns, rows)


_CATALOG = (
    "CREATE SCHEMA double_catalog",
    "CREATE TABLE double_catalog.columns (TABLE_SCHEMA VARCHAR, TABLE_NAME VARCHAR, COLUMN_NAME VARCHAR,"
    " ORDINAL_POSITION INTEGER, DATA_TYPE VARCHAR, CHARACTER_MAXIMUM_LENGTH INTEGER, NUMERIC_PRECISION UTINYINT,"
    " NUMERIC_SCALE INTEGER, DATETIME_PRECISION SMALLINT, IS_NULLABLE VARCHAR)",
    "CREATE SCHEMA double_sys",
    "CREATE TABLE double_sys.databases AS SELECT 'double' AS name, 0::UTINYINT AS snapshot_isolation_state,"
    " FALSE AS is_read_committed_snapshot_on",
    "CREATE MACRO db_name() AS 'double'",
)


def _catalog_row(kind: Declared) -> tuple[str, int | None, int | None, int | None, int | None]:
    if kind.name == "decimal":
        return kind.name, None, kind.length, kind.scale, None
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        return kind.name, None, None, None, kind.length
    return kind.name, kind.length, None, None, None


def _with_names(payload: bytes, version: int) -> Any:
    """ODBC sends the values of sp_executesql without names; the protocol layer keeps only named ones."""
    call = parse_rpc(payload, version)
    if not call.is_execute_sql or len(call.parameters) < 3:
        return call
    names = re.findall(r"@\w+", str(call.parameters[1].value))
    values = [replace(value, name=name) for value, name in zip(call.parameters[2:], names, strict=True)]
    return replace(call, parameters=[*call.parameters[:2], *values])


protocol.parse_rpc = _with_names


def _bound(definitions: str, values: list[Any]) -> dict[str, Any]:
    return dict(zip(re.findall(r"@(\w+)", definitions), values, strict=False))


def _xact_state(session: TdsSession) -> int:
    return session.state if session.state is not None else int(session.transactions > 0)


def _transaction(session: TdsSession, text: str) -> list[QueryResult]:
    if _BEGIN.match(text):
        session.transactions += 1
        if session.transactions == 1:
            session.cursor.execute("BEGIN")
    elif _COMMIT.match(text):
        if session.transactions == 0:
            raise QueryError("The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.", number=3902)
        session.transactions -= 1
        if session.transactions == 0:
            session.cursor.execute("COMMIT")
    elif session.transactions:
        session.transactions, session.state = 0, None
        session.cursor.execute("ROLLBACK")
    return [NOTHING]


def _rows_of(cursor: duckdb.DuckDBPyConnection, one: Translated) -> QueryResult:
    columns, texts = [], []
    for position, found in enumerate(cursor.description or ()):
        stated = one.wire[position] if position < len(one.wire) else None
        kind = stated or wire_type(str(found[1]))
        columns.append(Column(found[0], kind))
        texts.append(isinstance(kind, NVarChar))
    rows = [
        [str(value) if text and value is not None else value for value, text in zip(row, texts, strict=True)]
        for row in cursor.fetchall()
    ]
    return QueryResult(columns, rows)


def integers(*values: int) -> QueryResult:
    """One result set of one integer column, for procedures."""
    return QueryResult([Column("v", Integer(4))], [[value] for value in values])


@contextmanager
def tds_double() -> Iterator[TdsDouble]:
    double = TdsDouble()
    try:
        yield double
    finally:
        double.close()
