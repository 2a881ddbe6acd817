"""Finds what a text calls: every name before a parenthesis must be a function that the engine brings itself and that
only reads, or a word of its grammar (HOOK-30).

The tokens decide, not the parser's classes: a parser of many dialects gives its own class to a name that one dialect
does not know, and there the function is a user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dpone_core.model.connector import SqlNames, SqlSyntax, SqlTraits
from dpone_core.sql_guard import nodes

_UNKNOWN: Final = "it calls a function that is none of the engine's own, or one that acts"
_QUALIFIED: Final = "it calls a function of a schema, which may be a user's"
_QUOTED: Final = "it calls a function by a quoted name, which may be a user's"
_ATTRIBUTE: Final = "it reads an attribute of a value in parentheses, which may call a function"
_FILE: Final = "it reads a file that is not named by a path of this machine"
_TYPE: Final = "it casts to a type that may be a user's"


def call_obstacle(tokens: Sequence[Any], statement: Any, sql: SqlTraits) -> str | None:
    """What one of the calls in the text may be instead of a function that reads; None when all of them are known."""
    parsed = _ParsedPlaces(statement)
    for index, token in enumerate(tokens):
        kind = token.token_type.name
        if kind == "L_PAREN" and index:
            obstacle = _call(tokens, index, parsed, sql.names)
        elif kind == "DOT" and SqlSyntax.ATTRIBUTES_CALL in sql.syntax:
            obstacle = _attribute(tokens, index)
        elif kind == "DCOLON":
            obstacle = _cast_target(tokens, index + 1, sql.names)
        elif token.text.upper() == "CAST":
            obstacle = _cast_target(tokens, _target_of_cast(tokens, index + 1), sql.names)
        else:
            obstacle = None
        if obstacle is not None:
            return obstacle
    if sql.names.file_functions and any("://" in name for name in parsed.tables):
        return _FILE
    return None


def type_obstacle(statement: Any, sql: SqlTraits) -> str | None:
    """Says so where a type of the statement is none of the engine's own; None for an engine without users' casts."""
    from sqlglot import exp

    names = sql.names
    if names.types is None:
        return None
    for node in statement.find_all(exp.DataType):
        name = str(node.sql(dialect=sql.dialect)).lower().partition("(")[0].partition(" ")[0].partition("[")[0]
        schema, _, bare = name.rpartition(".")
        if bare not in names.types or (schema and schema not in names.schemas):
            return _TYPE
    return None


class _ParsedPlaces:
    """Where the parser saw names that no function bears, and where it saw functions: offsets in the text."""

    def __init__(self, statement: Any) -> None:
        from sqlglot import exp

        self.functions = {
            node.meta["start"]
            for node in statement.find_all(exp.Func)
            if "start" in node.meta and node.find_ancestor(exp.WithTableHint) is None
        }
        self.tables: list[str] = []
        self.table_functions = {
            node.meta["start"]
            for node in statement.find_all(exp.Func)
            if "start" in node.meta and isinstance(node.parent, (exp.Table, exp.Lateral))
        }
        self.names: set[int] = set()
        for node in statement.find_all(exp.TableAlias, exp.Table):
            if isinstance(node, exp.Table):
                self.tables.append(str(node.name))
            named = node.this
            if isinstance(named, exp.Identifier) and (node.args.get("columns") or node.args.get("hints")):
                self.names.add(named.meta.get("start", -1))


def _call(tokens: Sequence[Any], index: int, parsed: _ParsedPlaces, names: SqlNames) -> str | None:
    """Judges the parenthesis at `index` by what stands before it."""
    before = tokens[index - 1]
    kind, text = before.token_type.name, str(before.text)
    if before.start in parsed.names:
        return None
    if kind == "IDENTIFIER" or "STRING" in kind:
        return _QUOTED
    if not _is_word(before):
        return None
    if index > 1 and tokens[index - 2].token_type.name == "DOT":
        return _qualified_call(tokens, index, names)
    if text.lower() in names.file_functions:
        return None if _names_files_of_this_machine(tokens, index) else _FILE
    if has_function(text, names) or _is_table_function(tokens, index, parsed, names):
        return None
    if before.start not in parsed.functions and _is_grammar(tokens, index, names):
        return None
    return _UNKNOWN


def has_function(name: str, names: SqlNames) -> bool:
    """Whether a call of this name, as it is written, can only be a function of the engine that reads."""
    lowered = name.lower()
    return name in names.spelled or lowered in names.functions or _is_combined_aggregate(name, names)


def _is_table_function(tokens: Sequence[Any], index: int, parsed: _ParsedPlaces, names: SqlNames) -> bool:
    """Whether the call stands where a table does; elsewhere the same name may be a user's function."""
    before = tokens[index - 1]
    if str(before.text) not in names.table_functions and str(before.text).lower() not in names.table_functions:
        return False
    behind = _last_word(tokens[index - 2]) if index > 1 else ""
    return before.start in parsed.table_functions or behind in ("FROM", "JOIN", "LATERAL", "APPLY")


def _is_combined_aggregate(name: str, names: SqlNames) -> bool:
    while name not in names.aggregates and name.lower() not in names.aggregates:
        combinator = next((one for one in names.combinators if name.endswith(one)), None)
        if combinator is None or name == combinator:
            return False
        name = name.removesuffix(combinator)
    return True


def _qualified_call(tokens: Sequence[Any], index: int, names: SqlNames) -> str | None:
    text = str(tokens[index - 1].text)
    if text.lower() in names.methods:
        return None
    alone = index < 4 or tokens[index - 4].token_type.name != "DOT"
    schema = str(tokens[index - 3].text).lower()
    return None if alone and schema in names.schemas and has_function(text, names) else _QUALIFIED


def _is_grammar(tokens: Sequence[Any], index: int, names: SqlNames) -> bool:
    """Whether the word before the parenthesis at `index` is no call: a keyword, a type, a method of sampling."""
    from sqlglot.parser import Parser

    before, behind = tokens[index - 1], tokens[index - 2] if index > 1 else None
    word = _last_word(before)
    if word in nodes.RESERVED_WORDS or word in nodes.PREFIX_WORDS:
        return True
    if word == "APPLY":
        return (
            _is_word(behind) and _last_word(behind) in ("CROSS", "OUTER") if word == str(before.text).upper() else True
        )
    if word in nodes.WORDS_BEHIND_OPERANDS:
        return _follows_an_operand(tokens, index - 1)
    if word in nodes.GROUPINGS:
        return _is_in_group_by(tokens, index - 1)
    if word in nodes.QUANTIFIERS:
        return behind is not None and (not _is_word(behind) or _last_word(behind) in ("LIKE", "ILIKE"))
    if word in nodes.SAMPLING_METHODS:
        return behind is not None and behind.token_type.name == "TABLE_SAMPLE"
    if names.types is not None:
        return str(before.text).lower().partition(" ")[0] in names.types
    return before.token_type in Parser.TYPE_TOKENS


def _is_word(token: Any) -> bool:
    return str(token.text)[:1].isalpha() or str(token.text)[:1] == "_"


def _last_word(token: Any) -> str:
    """Of `GROUP BY` and other tokens of several words the last."""
    return str(token.text).upper().rpartition(" ")[2]


def _follows_an_operand(tokens: Sequence[Any], index: int) -> bool:
    """Whether what stands before `index` ends a value, a table or a query, so that no expression begins here."""
    if index == 0:
        return False
    before = tokens[index - 1]
    kind = before.token_type.name
    if kind in ("R_PAREN", "R_BRACKET", "R_BRACE", "STAR", "NUMBER", "IDENTIFIER", "PARAMETER") or "STRING" in kind:
        return True
    if not _is_word(before):
        return False
    if _last_word(before) == "NOT":
        return _follows_an_operand(tokens, index - 1) or _last_word(tokens[index - 2]) == "AS"
    return _last_word(before) not in nodes.EXPRESSIONS_BEGIN_BEHIND


def _is_in_group_by(tokens: Sequence[Any], index: int) -> bool:
    for token in reversed(tokens[:index]):
        if token.token_type.name in ("GROUP_BY", "SELECT", "FROM", "WHERE", "HAVING", "ORDER_BY"):
            return bool(token.token_type.name == "GROUP_BY")
    return False


def _attribute(tokens: Sequence[Any], index: int) -> str | None:
    """`(value).name`; `(value).*` reads every attribute and calls nothing."""
    behind = tokens[index - 1].token_type.name if index else ""
    ahead = tokens[index + 1].token_type.name if index + 1 < len(tokens) else ""
    return _ATTRIBUTE if behind in ("R_PAREN", "R_BRACKET") and ahead != "STAR" else None


def _names_files_of_this_machine(tokens: Sequence[Any], index: int) -> bool:
    """Whether the first argument behind the parenthesis at `index` is a literal path, or a list of them."""
    depth, first = 0, []
    for token in tokens[index:]:
        kind = token.token_type.name
        depth += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
        if depth == 0 or (depth == 1 and kind == "COMMA"):
            break
        first.append(token)
    inside = [one for one in first[1:] if one.token_type.name not in ("L_BRACKET", "R_BRACKET", "COMMA")]
    return bool(inside) and all(one.token_type.name == "STRING" and "://" not in one.text for one in inside)


def _target_of_cast(tokens: Sequence[Any], index: int) -> int:
    """Index of the type in `CAST(value AS type)`, whose parenthesis is at `index`; the end where there is none."""
    depth = 0
    for place in range(index, len(tokens)):
        kind = tokens[place].token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 1 and kind == "ALIAS":
            return place + 1
        if depth <= 0:
            break
    return len(tokens)


def _cast_target(tokens: Sequence[Any], index: int, names: SqlNames) -> str | None:
    if names.types is None or index >= len(tokens):
        return None
    if index + 2 < len(tokens) and tokens[index + 1].token_type.name == "DOT":
        if str(tokens[index].text).lower() not in names.schemas:
            return _TYPE
        index += 2
    quoted = tokens[index].token_type.name == "IDENTIFIER"
    known = str(tokens[index].text).lower().partition(" ")[0] in names.types
    return None if known and not quoted else _TYPE
