"""Identifiers, literals and statement splitting for generated SQL and hook scripts. Works on text alone: no engine, no
parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection

Quote = Callable[[str], str]

_DOLLAR_TAG: Final = re.compile(r"\$[A-Za-z_0-9]*\$")


def quote_ansi(name: str) -> str:
    """`"name"` with inner quotes doubled (SQLite, DuckDB)."""
    return '"' + name.replace('"', '""') + '"'


def quote_backtick(name: str) -> str:
    """`name` in backticks, with ClickHouse's backslash escapes."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal_ansi(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literal_backslash(text: str) -> str:
    """A ClickHouse string literal: backslash and quote escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def split_statements(script: str, *, backslash_escapes: bool) -> tuple[str, ...]:
    """Statements between semicolons outside quotes, comments and dollar quotes; pieces without any code are dropped.

    `backslash_escapes` says whether a backslash in a quote escapes the next character (ClickHouse) or is itself.
    """
    statements: list[str] = []
    start, has_code = 0, False
    for kind, begin, end in _pieces(script, backslash_escapes):
        if kind == "end":
            if has_code:
                statements.append(script[start:begin].strip())
            start, has_code = end, False
        elif kind == "code":
            has_code = True
    if has_code:
        statements.append(script[start:].strip())
    return tuple(statements)


def _pieces(script: str, backslash_escapes: bool) -> Iterator[tuple[str, int, int]]:
    position = 0
    while position < len(script):
        kind, end = _piece_at(script, position, backslash_escapes)
        yield kind, position, end
        position = end


def _piece_at(script: str, position: int, backslash_escapes: bool) -> tuple[str, int]:
    character = script[position]
    if character == ";":
        return "end", position + 1
    if character.isspace():
        return "space", position + 1
    if script.startswith("--", position):
        return "space", _after(script, "\n", position)
    if script.startswith("/*", position):
        return "space", _after(script, "*/", position + 2)
    if character in "'\"`":
        return "code", _after_quote(script, position, backslash_escapes)
    tag = _DOLLAR_TAG.match(script, position)
    if tag is not None:
        return "code", _after(script, tag.group(), tag.end())
    return "code", position + 1


def _after(script: str, ending: str, position: int) -> int:
    start_of_ending = script.find(ending, position)
    return len(script) if start_of_ending < 0 else start_of_ending + len(ending)


def _after_quote(script: str, position: int, backslash_escapes: bool) -> int:
    quote = script[position]
    position += 1
    while position < len(script):
        if backslash_escapes and script[position] == "\\":
            position += 2
        elif script[position] == quote:
            return position + 1
        else:
            position += 1
    return len(script)


def require_encoded(connection: Connection) -> None:
    """Raises ConnectorError `connection_uri_invalid` for a login or password with a bare character that ends it: an @
    that is not the last one before the host, or one behind a slash. The message does not show the URI."""
    address = connection.uri.partition("://")[2].partition("?")[0].partition("#")[0]
    authority, _, path = address.partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConnectorError(
            f"connection {connection.ref!r}: the login or password holds a bare @ or /, which ends it",
            code="connection_uri_invalid",
            fix="percent-encode it where it is set: @ is %40, / is %2F, : is %3A, % is %25",
        )
