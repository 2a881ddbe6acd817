"""Separates the code of a SQL text from its strings, quoted names and comments, and finds text that engines read
differently.

Not a parser: its checks must not depend on how one version of a parser reads a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from dpone_core.model.connector import SqlSyntax, SqlTraits

_LINE_COMMENT: Final = r"--[^\n]*"
_HASH_COMMENT: Final = r"|\#[^\n]*"
_BLOCK_COMMENT: Final = r"/\*.*?(?:\*/|\Z)"
_TOKEN: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_GO_LINE: Final = re.compile(r"^[ \t]*go\b[ \t]*[0-9]*[ \t]*;?[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_ODD_BREAKS: Final = re.compile("\r(?!\n)|[\x0b\x0c\x85\u2028\u2029]")
_OPERATOR: Final = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_MAY_END_IN_A_SIGN: Final = re.compile(r"[~!@#%^&|`?]")
_NO_OPERATORS: Final = frozenset({"=>", "!="})
"""An argument's name, and another spelling of `<>`."""
_FULLWIDTH: Final = re.compile("[\uff01-\uff5e]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCode:
    """Two copies of a text, character for character: in `code` comments, strings and quoted names are blanks, in
    `bare` only comments are.
    """

    code: str
    bare: str


def code_of(text: str, sql: SqlTraits) -> SqlCode:
    """Blanks the parts that are not code. Both copies are as long as `text`, so a position in one is a position in
    all.
    """
    code, bare = list(text), list(text)
    for match in _pattern(sql.syntax).finditer(text):
        comment = match.lastgroup == "comment"
        for index in range(match.start(), match.end()):
            if text[index] not in "\r\n":
                code[index] = " "
                if comment:
                    bare[index] = " "
    return SqlCode(code="".join(code), bare="".join(bare))


def ambiguity(text: str, sql: SqlTraits) -> str | None:
    """Describes what engines would read differently in this text; None when there is nothing of that kind."""
    if _ODD_BREAKS.search(text):
        return "it holds a line break that engines disagree on"
    if _FULLWIDTH.search(code_of(text, sql).code):
        return "it holds fullwidth characters outside strings"
    if SqlSyntax.BACKSLASH_BY_MODE in sql.syntax and re.search(r"\\['\"`]", text):
        return "it holds a backslash before a quote, which depends on the session's SQL mode"
    spaced = SqlSyntax.DASH_COMMENTS_NEED_A_SPACE in sql.syntax
    for match in _pattern(sql.syntax).finditer(text):
        found = match.group()
        if match.lastgroup != "comment":
            continue
        if found.startswith("/*") and (
            found.startswith(("/*!", "/*M!")) or "/*" in found[2:] or not found.endswith("*/")
        ):
            return "it holds a nested, open or executable comment"
        if spaced and found.startswith("--") and len(found) > 2 and not found[2].isspace():
            return "it holds '--' without a space after it"
    return None


def unknown_operator(text: str, sql: SqlTraits) -> str | None:
    """Says so where an operator is none of the engine's own; None where there is none, or the engine has no others."""
    known = sql.names.operators
    if known is None:
        return None
    for match in _OPERATOR.finditer(code_of(text, sql).code):
        symbol = match.group()
        if _MAY_END_IN_A_SIGN.search(symbol) is None:
            symbol = symbol[0] + symbol[1:].rstrip("+-")
        if symbol not in known and symbol not in _NO_OPERATORS:
            return "it holds an operator that may be a user's"
    return None


def go_lines(text: str, sql: SqlTraits) -> Iterator[int]:
    """Line numbers (from 1) of GO batch separators, which are client commands and not SQL."""
    code = code_of(text, sql).code
    bare_lines = text.split("\n")
    for match in _GO_LINE.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        if bare_lines[line - 1].strip(" \t\r;").lower().startswith("go"):
            yield line


def has_quoted_token(text: str, sql: SqlTraits) -> bool:
    """Whether a `{{ token }}` stands inside a string, a quoted name or a comment, where it cannot be bound."""
    code = code_of(text, sql).code
    return any(code[match.start()] != "{" for match in _TOKEN.finditer(text))


@cache
def _pattern(syntax: frozenset[SqlSyntax]) -> re.Pattern[str]:
    """Comments, and quoted texts and names."""
    escape = r"\\.|" if SqlSyntax.BACKSLASH_ESCAPES in syntax else ""
    quoted = [rf"{mark}(?:{escape}{mark}{mark}|[^{mark}])*(?:{mark}|\Z)" for mark in ("'", '"', "`")]
    if SqlSyntax.BRACKETED_NAMES in syntax:
        quoted.append(r"\[(?:\]\]|[^\]])*(?:\]|\Z)")
    if SqlSyntax.DOLLAR_QUOTES in syntax:
        quoted.append(r"(?P<tag>\$[A-Za-z_0-9]*\$).*?(?:(?P=tag)|\Z)")
    hashes = _HASH_COMMENT if SqlSyntax.HASH_COMMENTS in syntax else ""
    comment = rf"(?P<comment>{_LINE_COMMENT}{hashes}|{_BLOCK_COMMENT})"
    return re.compile(rf"{comment}|(?P<quoted>{'|'.join(quoted)})", re.DOTALL)
