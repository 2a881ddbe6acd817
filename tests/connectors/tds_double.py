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
from pysqlbridge.tds import result as result_layer
from pysqlbridge.tds import rpc
from pysqlbridge.tds.result import Column, Integer, NVarChar, Query, QueryError, QueryResult
from pysqlbridge.tds.rpc import parse_rpc

from tests.connectors import tds_double_catalog as catalog
from tests.connectors.tds_double_sql import Translated, split, translate
from tests.connectors.tds_double_types import system_type_name, wire_type
from tests.connectors.unixodbc import require_unixodbc

USER = "sa"
PASSWORD = "Str0ng!p}w;{=@"
NOTHING = QueryResult([], [])
Procedure = Callable[["TdsDouble", "TdsSession", Mapping[str, Any]], list[QueryResult]]

_IGNORED = re.compile(r"(?i)^(set\s+(?!@)\w|use\s|print\s|declare\s+@\w+\s+\w+\s*$)")
_BEGIN = re.compile(r"(?i)^begin\s+tran")
_COMMIT = re.compile(r"(?i)^commit")
_ROLLBACK = re.compile(r"(?i)^(if\s+@@trancount\s*>\s*0\s+)?rollback")
_TEXT = r"N?'((?:[^']|'')*)'"
_RENAME = re.compile(rf"(?i)^exec(?:ute)?\s+(?:sys\.|dbo\.)?sp_rename\s+{_TEXT}\s*,\s*{_TEXT}")
_NAME = r"((?:\[(?:[^\]]|\]\])*\]|[#\w]+)(?:\.(?:\[(?:[^\]]|\]\])*\]|[#\w]+))?)"
_TRANSFER = re.compile(rf"(?i)^alter\s+schema\s+{_NAME}\s+transfer\s+{_NAME}$")
_DROP_CONSTRAINT = re.compile(rf"(?i)^alter\s+table\s+{_NAME}\s+drop\s+constraint\s+{_NAME}$")
_REQUIRED = re.compile(rf"(?i)^alter\s+table\s+{_NAME}\s+alter\s+column\s+{_NAME}\s+\S+\s+not\s+null$")
_DROP = re.compile(rf"(?i)^drop\s+table\s+(?:if\s+exists\s+)?{_NAME}$")
_INDEX = re.compile(rf"(?i)^create\s+(?:unique\s+)?(?:nonclustered\s+|clustered\s+)?index\s+\S+\s+on\s+{_NAME}")
_LOCK = re.compile(rf"(?i)@(\w+)\s*=\s*(?:sys\.)?sp_getapplock\s+@Resource\s*=\s*{_TEXT}.*@LockTimeout\s*=\s*(\d+)")
_LOCK_TIMEOUT = re.compile(r"(?i)set\s+lock_timeout\s+(\d+)")
_ROW_LOCK = re.compile(r"(?i)\bupdlock\b")
_PROPERTY = re.compile(r"(?i)^exec(?:ute)?\s+sys\.(sp_\w+extendedproperty)\s")
_NAMED = re.compile(rf"@(\w+)\s*=\s*{_TEXT}")
_ROW_VALUES = re.compile(
    rf"(?i)^insert\s+into\s+{_NAME}\s+\((.*)\)\s+values\s+((?:\((?:@P\d+(?:, )?)+\)(?:, )?)+)$", re.DOTALL
)
_EXEC = re.compile(r"(?i)^\{?\s*(?:call|exec(?:ute)?)\s+([\w.\[\]]+)\s*(.*?)\}?$", re.DOTALL)
_ARGUMENT = re.compile(r"(?:@(\w+)\s*=\s*)?(N?'(?:[^']|'')*'|@?[\w.\-]+)")
_DESCRIBE = re.compile(r"(?i)sys\.dm_exec_describe_first_result_set\s*\(\s*@(\w+)\s*,\s*@(\w+)")
_PARAMETER = re.compile(r"\$\w+")
_PARAMETER_NAME = re.compile(r"\$(\w+)")
_DUCKDB_ERRORS = {
    "CatalogException": 208, "ParserException": 102, "BinderException": 207, "ConstraintException": 2627,
    "TransactionException": 1205, "ConversionException": 245, "OutOfRangeException": 8115,
}  # fmt: skip


@dataclass(slots=True)
class Fault:
    """A batch that matches is refused with `number`, or its socket is dropped, before or after it ran; not before a
    batch like `once_seen` was received."""

    match: str
    stage: str
    number: int | None = None
    times: int = 1
    once_seen: str = ""


@dataclass(slots=True)
class TdsSession:
    """One connection: DuckDB's cursor, open transactions, prepared statements."""

    cursor: duckdb.DuckDBPyConnection
    transactions: int = 0
    state: int | None = None
    prepared: dict[int, tuple[str, str]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    lock_timeout: int = 10_000


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
        finally:
            self.query_handler.ended()


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
        self._sessions: dict[int, TdsSession] = {}
        self._locks = catalog.Locks()
        self._guard = threading.RLock()
        self._database = duckdb.connect()
        for statement in catalog.SETUP:
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
        session = self._sessions.get(threading.get_ident()) or self._new_session()
        self._sessions[threading.get_ident()] = session
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

    def ended(self) -> None:
        """The connection that this thread served is gone: its transaction is rolled back, its locks are free."""
        session = self._sessions.pop(threading.get_ident(), None)
        if session is None:
            return
        with self._guard:
            if session.transactions:
                session.cursor.execute("ROLLBACK")
            session.cursor.close()
        self._locks.released(session)

    def _new_session(self) -> TdsSession:
        cursor = self._database.cursor()
        return TdsSession(cursor=cursor)

    def _answered(self, session: TdsSession, sql: str, parameters: Mapping[str, Any]) -> QueryResult:
        self._wait(session, sql)
        with self._guard:
            self.received.append(sql)
            self._strike(sql, "before")
            answers = self._batch(session, sql, parameters)
            self._strike(sql, "after")
        first, *rest = answers
        if first.error is not None and not rest:
            raise first.error
        return QueryResult(first.columns, first.rows, tuple(rest), first.error)

    def _wait(self, session: TdsSession, sql: str) -> None:
        """Row locks are one lock here: who asks for any waits for the transaction that has it."""
        if timeout := _LOCK_TIMEOUT.search(sql):
            session.lock_timeout = int(timeout.group(1))
        if asked := _LOCK.search(sql):
            granted = self._locks.taken(asked.group(2), session, int(asked.group(3)))
            session.variables[asked.group(1)] = 0 if granted else -1
        if session.transactions and _ROW_LOCK.search(sql) and not self._locks.taken("", session, session.lock_timeout):
            raise QueryError("Lock request time out period exceeded.", number=1222)

    def _strike(self, sql: str, stage: str) -> None:
        for fault in self.faults:
            seen = any(re.search(fault.once_seen, text) for text in self.received)
            if fault.stage == stage and fault.times > 0 and seen and re.search(fault.match, sql):
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
            try:
                return _transaction(session, text)
            finally:
                if not session.transactions:
                    self._locks.released(session)
        if _LOCK.search(text):
            return []
        if self._changed_definition(session, text):
            return [NOTHING]
        if called := _EXEC.match(text):
            return self._called(session, called.group(1), called.group(2), parameters)
        if described := _DESCRIBE.search(text):
            return [self._described(session, str(parameters[described.group(1)]))]
        for name, value in (("@@TRANCOUNT", session.transactions), ("XACT_STATE()", _xact_state(session))):
            text = re.sub(re.escape(name), str(value), text, flags=re.IGNORECASE)
        if many := _ROW_VALUES.match(text):
            return [_inserted(session.cursor, many, parameters)]
        given = {**session.variables, **parameters}
        return [self._executed(session, one, given) for one in self._translated(session, text)]

    def _changed_definition(self, session: TdsSession, text: str) -> bool:
        """Statements that DuckDB has no word for."""
        cursor = session.cursor
        try:
            if found := _RENAME.match(text):
                catalog.renamed(cursor, *(part.replace("''", "'") for part in found.groups()))
            elif found := _TRANSFER.match(text):
                catalog.transferred(cursor, catalog.two_parts(found.group(1))[1], found.group(2))
            elif found := _DROP_CONSTRAINT.match(text):
                catalog.constraint_dropped(cursor, found.group(1), catalog.two_parts(found.group(2))[1])
            elif found := _REQUIRED.match(text):
                catalog.made_required(cursor, found.group(1), catalog.two_parts(found.group(2))[1])
            elif found := _DROP.match(text):
                name = catalog.two_parts(found.group(1))
                exists = "IF EXISTS " if "exists" in text.lower()[:25] else ""
                cursor.execute(f"DROP TABLE {exists}{catalog.duckdb_name(*name)}")
                catalog.dropped(cursor, *name)
            elif found := _INDEX.match(text):
                number = catalog.object_id(cursor, *catalog.two_parts(found.group(1)))
                cursor.execute("INSERT INTO double_sys.indexes VALUES (?, 2)", [number])
            elif found := _PROPERTY.match(text):
                given = {name: value.replace("''", "'") for name, value in _NAMED.findall(text)}
                catalog.property_set(cursor, found.group(1).lower(), given)
            else:
                return False
        except duckdb.Error as error:
            raise _refused(error) from error
        return True

    def _translated(self, session: TdsSession, text: str) -> list[Translated]:
        try:
            return translate(text, catalog.Tables(session.cursor))
        except sqlglot.errors.SqlglotError as error:
            raise QueryError("Incorrect syntax.", number=102) from error

    def _executed(self, session: TdsSession, one: Translated, parameters: Mapping[str, Any]) -> QueryResult:
        used = {name: parameters[name] for name in _PARAMETER_NAME.findall(one.sql) if name in parameters}
        try:
            session.cursor.execute(one.sql, used or None)
            if not one.returns_rows:
                _remember(session.cursor, one)
                return NOTHING
            return _rows_of(session.cursor, one)
        except duckdb.Error as error:
            raise _refused(error) from error

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
            (one,) = self._translated(session, sql)
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


def _inserted(cursor: duckdb.DuckDBPyConnection, many: re.Match[str], parameters: Mapping[str, Any]) -> QueryResult:
    """Rows of parameters only, handed to DuckDB by columns: it plans thousands of parameters slowly."""
    table, names, rows = many.groups()
    values = [parameters[name] for name in re.findall(r"@(\w+)", rows)]
    width = len(values) // rows.count("(")
    columns = ", ".join(
        '"' + name.replace("]]", "]").replace('"', '""') + '"' for name in re.findall(r"\[((?:[^\]]|\]\])*)\]", names)
    )
    lists = {f"c{place}": values[place::width] for place in range(width)}
    chosen = ", ".join(f"unnest(${name})" for name in lists)
    try:
        cursor.execute(
            f"INSERT INTO {catalog.duckdb_name(*catalog.two_parts(table))} ({columns}) SELECT {chosen}", lists
        )
    except duckdb.Error as error:
        raise _refused(error) from error
    return NOTHING


def _remember(cursor: duckdb.DuckDBPyConnection, one: Translated) -> None:
    if one.created is not None:
        made = one.created
        catalog.created(cursor, *made.table, made.columns, made.required, has_key=made.has_key, defaults=made.defaults)
    if one.added is not None:
        more = one.added
        catalog.added(cursor, catalog.object_id(cursor, *more.table), more.columns, more.required)


def _refused(error: duckdb.Error) -> QueryError:
    return QueryError(str(error).splitlines()[0][:200], number=_DUCKDB_ERRORS.get(type(error).__name__, 50_000))


class _NullMax(bytes):
    """A NULL of a MAX type, which the protocol layer would take for an empty value."""

    def decode(self, *_: object, **__: object) -> Any:
        return None


def _read_max(payload: bytes, at: int) -> tuple[bytes, int]:
    value, position = _READ_PLP(payload, at)
    is_null = payload[at : at + 8] == b"\xff" * 8
    return (_NullMax() if is_null else value), position


_READ_PLP = rpc._read_plp
rpc._read_plp = _read_max


def _with_names(payload: bytes, version: int) -> Any:
    """ODBC sends the values of sp_executesql without names; the protocol layer keeps only named ones."""
    call = parse_rpc(payload, version)
    plain = [replace(one, value=None) if isinstance(one.value, _NullMax) else one for one in call.parameters]
    call = replace(call, parameters=plain)
    if not call.is_execute_sql or len(call.parameters) < 3:
        return call
    names = re.findall(r"@\w+", str(call.parameters[1].value))
    values = [replace(value, name=name) for value, name in zip(call.parameters[2:], names, strict=True)]
    return replace(call, parameters=[*call.parameters[:2], *values])


protocol.parse_rpc = _with_names
result_layer._name_length = lambda name: len(name.encode("utf-16-le")) // 2


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
            try:
                session.cursor.execute("COMMIT")
            except duckdb.Error as error:
                raise _refused(error) from error
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
    require_unixodbc()
    double = TdsDouble()
    try:
        yield double
    finally:
        double.close()
