"""Splits a script of PostgreSQL statements at the semicolons that end a statement."""

from __future__ import annotations

import re
from typing import Final

_DOLLAR: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_ESCAPE_STRING: Final = re.compile(r"[eE]'")
_WORD: Final = re.compile(r"[^\W\d][\w$]*")


def split_statements(script: str) -> tuple[str, ...]:
    """The statements without their semicolons; parts that hold only space and comments are dropped.

    It understands quotes, E'' strings, dollar quotes and nested comments. It does not understand BEGIN ATOMIC: such a
    body is split at its semicolons, and PostgreSQL refuses the parts. Write such a function with a dollar quote.
    """
    statements: list[str] = []
    start = position = 0
    has_code = False
    while position < len(script):
        if script[position] == ";":
            if has_code:
                statements.append(script[start:position].strip())
            position += 1
            start, has_code = position, False
            continue
        end, is_code = _piece(script, position)
        has_code = has_code or is_code
        position = end
    if has_code:
        statements.append(script[start:].strip())
    return tuple(statements)


def _piece(script: str, position: int) -> tuple[int, bool]:
    """Where the piece at `position` ends, and whether it is code (not space, not comment)."""
    character = script[position]
    if character.isspace():
        return position + 1, False
    if script.startswith("--", position):
        end = script.find("\n", position)
        return (len(script) if end < 0 else end), False
    if script.startswith("/*", position):
        return _after_comment(script, position), False
    if _ESCAPE_STRING.match(script, position):
        return _after_quote(script, position + 1, backslash=True), True
    if character in "'\"":
        return _after_quote(script, position, backslash=False), True
    word = _WORD.match(script, position)
    if word is not None:
        return word.end(), True
    dollar = _DOLLAR.match(script, position)
    if dollar is not None:
        end = script.find(dollar.group(), dollar.end())
        return (len(script) if end < 0 else end + len(dollar.group())), True
    return position + 1, True


def _after_comment(script: str, position: int) -> int:
    depth = 0
    while position < len(script):
        if script.startswith("/*", position):
            depth, position = depth + 1, position + 2
        elif script.startswith("*/", position):
            depth, position = depth - 1, position + 2
            if depth == 0:
                return position
        else:
            position += 1
    return position


def _after_quote(script: str, position: int, *, backslash: bool) -> int:
    quote = script[position]
    position += 1
    while position < len(script):
        if backslash and script[position] == "\\":
            position += 2
        elif script[position] == quote:
            return position + 1
        else:
            position += 1
    return len(script)
