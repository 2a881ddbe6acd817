"""Quotes T-SQL names, and finds the end of a query's common table expressions."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[A-Za-z_]+")
_ENDINGS: Final = {"'": "'", '"': '"', "[": "]"}


def quote_name(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


def split_with(query: str) -> tuple[str, str]:
    """(`WITH .. AS (..)` or '', the rest of the query). T-SQL allows WITH only at the front of a statement, so it must
    come before a query that becomes a subquery. Text that is not a valid clause is part of the rest, for the server to
    refuse."""
    start = _skip_space(query, 0)
    if _word_at(query, start).upper() != "WITH":
        return "", query
    position, depth = start + len("WITH"), 0
    while position < len(query):
        character = query[position]
        if character in _ENDINGS or query.startswith(("--", "/*"), position):
            position = _after(query, position)
            continue
        depth += (character == "(") - (character == ")")
        position += 1
        if character == ")" and depth == 0:
            following = _skip_space(query, position)
            if query[following : following + 1] != "," and _word_at(query, following).upper() != "AS":
                return query[:position] + "\n", query[following:]
    return "", query


def _skip_space(text: str, position: int) -> int:
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text.startswith(("--", "/*"), position):
            position = _after(text, position)
        else:
            break
    return position


def _word_at(text: str, position: int) -> str:
    found = _WORD.match(text, position)
    return found.group() if found else ""


def _after(text: str, position: int) -> int:
    """The position after the quoted text, quoted name or comment that begins here."""
    if text.startswith("--", position):
        ending, start = "\n", position + 2
    elif text.startswith("/*", position):
        ending, start = "*/", position + 2
    else:
        ending, start = _ENDINGS[text[position]], position + 1
    found = text.find(ending, start)
    return len(text) if found < 0 else found + len(ending)
