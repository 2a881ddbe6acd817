"""PostgreSQL's error codes (SQLSTATE) as safe messages; the text of the driver is never copied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectionLostError, ConnectorError, ETLExecutionError

_LOST_CLASSES: Final = ("08", "57P")
_LOGIN_CLASSES: Final = ("28", "3D")
_SESSION_ERRORS: Final = frozenset({"OperationalError", "InterfaceError"})
"""What psycopg and ADBC raise without a SQLSTATE when no server answers."""

ENGINE: Final = "PostgreSQL"
WRITES: Final = "25006"
"""The SQLSTATE of a statement that would write in a read-only transaction, or on a standby."""

_ABSENT: Final = {"42703": "column", "42P01": "relation", "3D000": "database"}
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
_ABSENT_NAME: Final = re.compile(rf'\b(column|relation|database) "?({_NAME}(?:\.{_NAME}){{0,2}})"? does not exist')
_REASONS: Final = (
    ("42501", "the role lacks a privilege on an object it uses", "grant it, or use another role"),
    ("42P01", "a table it names does not exist", "check the names and the schema"),
    ("42703", "a column it names does not exist", "check the names"),
    ("3F", "a schema it names does not exist", "check the names and the schema"),
    ("57014", "it reached its statement timeout, or somebody cancelled it", "raise statement_timeout, or ask for less"),
    ("55P03", "a lock was not granted within lock_timeout", "wait for the session that holds it, then run again"),
    ("40P01", "it was chosen to end a deadlock", "run again"),
    (
        "40",
        "a concurrent change, or on a standby a conflict with recovery, ended it",
        "run again; on a standby read with hot_standby_feedback, or raise max_standby_streaming_delay",
    ),
    ("25006", "it would write in a read only transaction", "use a statement that only reads"),
    ("54011", "it has more columns than PostgreSQL takes: 1,600 in a table", "leave columns out in options.query"),
    ("54", "it exceeds a limit of PostgreSQL", "ask for fewer columns, or for shorter statements and values"),
    ("0A", "PostgreSQL does not support what it asks", None),
    ("42", "PostgreSQL does not understand it, or a name is wrong", "run it by hand to see the reason"),
    ("22", "a value does not fit the type it is cast to, or a calculation failed", "run it by hand to see the reason"),
    ("23", "a constraint refused a value", None),
    ("53", "the server has no resources left", "free them, then run again"),
)


_CLASSES: Final = {
    "21": "a query gave more rows than one",
    "24": "a cursor is not open",
    "25": "the transaction is in a state that forbids it",
    "26": "a prepared statement does not exist",
    "2B": "a privilege still depends on it",
    "2D": "the transaction may not end here",
    "2F": "a function did what it may not",
    "34": "a cursor does not exist",
    "38": "a function written outside of SQL failed",
    "39": "a function written outside of SQL was called wrongly",
    "44": "a row lies outside of a view that checks it",
    "55": "an object is not in the state it needs, or is in use",
    "57": "the server or somebody intervened",
    "58": "the server's system failed, such as its disk",
    "F0": "the server's configuration is wrong",
    "HV": "a foreign table's server failed",
    "P0": "a function or trigger raised an error of its own",
    "XX": "the server failed internally",
}
"""What the classes of SQLSTATE mean that have no entry above."""
_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")
_DENIED: Final = re.compile(
    r"permission denied for ((?:materialized |foreign )?(?:table|view)|schema|sequence|function|database|type|column)"
    r" ([^\n]{1,190}?)(?=\n|\.? SQLSTATE|$)"
)
"""The kind and the name of an object; neither a row nor the text of a statement."""
_READ_ONLY_SINK: Final = "load into the primary; a standby and a read-only role or database take no load"
_HIDDEN: Final = "row level security hides rows from the role"
_SEES: Final = "use the owner or a role with BYPASSRLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCodes:
    """The stable error codes for one side of a load."""

    unreachable: str
    refused: str


SOURCE: Final = ErrorCodes(unreachable="source_unreachable", refused="source_query_refused")
SINK: Final = ErrorCodes(unreachable="sink_unreachable", refused="sink_query_failed")


def sqlstate_of(error: BaseException) -> str | None:
    """SQLSTATE as psycopg and ADBC give it; None for an error that no server sent."""
    found = getattr(error, "sqlstate", None)
    return found if isinstance(found, str) and found else None


def is_lost(error: BaseException) -> bool:
    """Whether the session ended with this error; whether its last statement took effect may be unknown then."""
    state = sqlstate_of(error)
    if state is None:
        return type(error).__name__ in _SESSION_ERRORS
    return state.startswith(_LOST_CLASSES)


def server_error(error: Exception, message: str, *, code: str, unreachable: str) -> ETLExecutionError:
    """The ConnectorError for a driver's error. `message` names what was tried; the reason follows when its SQLSTATE is
    a known one."""
    if isinstance(error, ETLExecutionError):
        return error
    state = sqlstate_of(error) or ""
    if state == "53100":
        return ConnectorError("no space left where PostgreSQL writes", code="disk_full")
    if state == "53200":
        return ConnectorError("PostgreSQL ran out of memory", code="engine_memory_exceeded")
    if state == WRITES and code == SOURCE.refused:
        return would_write_error(ENGINE)
    if is_lost(error):
        return ConnectionLostError(f"{message}: the connection was lost", code=unreachable)
    if state.startswith(_LOGIN_CLASSES):
        return login_refusal(unreachable, absent_name(error, "database"))
    if state == "42501" and _names_row_security(error):
        if code == SOURCE.refused:
            return hidden_rows()
        return ConnectorError(f"{message}: {_HIDDEN}", code=code, fix=_SEES)
    if state == "42501" and (denied := _DENIED.search(str(error))) is not None:
        reason = f"the role lacks a privilege on {denied.group(1)} {denied.group(2)!r}"
        return ConnectorError(f"{message}: {reason}", code=code, fix="grant it, or use another role")
    if state == "25006" and unreachable == SINK.unreachable:
        return ConnectorError(f"{message}: the server takes no writes", code=code, fix=_READ_ONLY_SINK)
    for prefix, reason, fix in _REASONS:
        if state.startswith(prefix):
            name = absent_name(error, _ABSENT.get(state))
            named = f"{message}: {reason}" if name is None else f"{message}: {reason}: {name!r}"
            return ConnectorError(named, code=code, fix=fix)
    known = foreign_error(error, message, code)
    if known.code != code or _SQLSTATE.fullmatch(state) is None:
        return known
    meaning = _CLASSES.get(state[:2], "an error of the server")
    return ConnectorError(f"{message}: {meaning} (SQLSTATE {state})", code=code, fix="run it by hand to see the reason")


def hidden_rows() -> ConnectorError:
    """The error of a source whose policies would leave rows out without a word."""
    return ConnectorError(
        f"the rows of the source are not read: {_HIDDEN}",
        code="source_rows_hidden",
        fix=f"{_SEES}, or declare source.options.rows: visible to load what the role sees",
    )


def _names_row_security(error: Exception) -> bool:
    """Which check of the server refused; ADBC tells it in the server's words only."""
    check = getattr(getattr(error, "diag", None), "source_function", None)
    return check == "check_enable_rls" or "row-level security" in str(error)


def connect_error(error: Exception, *, unreachable: str) -> ETLExecutionError:
    """The ConnectorError for a failed connection. libpq gives no SQLSTATE while it connects; the word FATAL in its text
    tells a server's refusal from no answer at all."""
    if sqlstate_of(error) is None and "FATAL" not in str(error):
        if "invalid" in str(error) and ("URI" in str(error) or "connection option" in str(error)):
            return ConnectorError(
                "the connection's URI is not one that PostgreSQL's client library reads",
                code="connection_uri_invalid",
                fix="correct where it is set; in a login or password write @ as %40, / as %2F, : as %3A and % as %25",
            )
        message = "the PostgreSQL server does not answer at the connection's address"
        return foreign_error(error, message, unreachable, kind=ConnectionLostError)
    return login_refusal(unreachable, absent_name(error, "database"))


def absent_name(error: BaseException, kind: str | None) -> str | None:
    """The column, relation or database that the server says does not exist. None unless its text has the English form
    and the name is a plain identifier, with its schema and database at most; nothing else of the text is taken."""
    found = _ABSENT_NAME.search(str(error).partition("\n")[0] if kind != "database" else str(error))
    return found.group(2) if found is not None and found.group(1) == kind else None


def login_refusal(unreachable: str, database: str | None = None) -> ConnectionLostError:
    if database is not None:
        return ConnectionLostError(
            f"the PostgreSQL server answers and has no database {database!r}",
            code=unreachable,
            fix="check the name at the end of the connection's URI, or create the database",
        )
    return ConnectionLostError(
        "the PostgreSQL server answers and refuses the login",
        code=unreachable,
        fix="check role, password, database and the server's pg_hba.conf; the server's log names the reason",
    )
