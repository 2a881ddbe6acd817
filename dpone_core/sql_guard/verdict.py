"""The allow-list SQL guard: a text is read-only only if it is provably one SELECT of known parts.

Everything else counts as mutating: other statements, several statements, unknown node classes of the parser, functions,
operators and types that the engine does not bring itself, unparsable text, comments that engines read differently. No
text can show what overloads, views and policies of a database call: what is read-only here also runs in the engine's
read-only mode (HOOK-31). sqlglot is imported on the first call. Contract: HOOK-05, HOOK-30. The corpus in
tests/spec/planning pins the verdicts across sqlglot versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from dpone_core.declared.registry import descriptor_of
from dpone_core.model.connector import ConnectorType, SqlSyntax, SqlTraits
from dpone_core.model.sql import SqlText, bind_tokens, name_staged
from dpone_core.model.vocabulary import HookKind
from dpone_core.sql_guard.calls import call_obstacle, type_obstacle
from dpone_core.sql_guard.lexing import ambiguity, code_of, go_lines, has_quoted_token, unknown_operator
from dpone_core.sql_guard.nodes import ALLOWED_NODES, EFFECT_FUNCTION_NODES, PART_WORDS, STATEMENT_WORDS

MUTATION_NOT_DECLARED: Final = "DPONE_HOOK_MUTATION_NOT_DECLARED"
PROBE_NOT_READ_ONLY: Final = "DPONE_HOOK_PROBE_NOT_READ_ONLY"
MAINTENANCE_KINDS: Final = frozenset({HookKind.TARGET_MAINTENANCE, HookKind.SOURCE_MAINTENANCE})


class SqlEffect(StrEnum):
    """What a SQL text may do; a text that cannot be proven harmless is `mutating`."""

    READ_ONLY = "read_only"
    MAINTENANCE = "maintenance"
    MUTATING = "mutating"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRefusal:
    """Why a SQL text is refused regardless of what it does, for example a GO separator."""

    code: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlVerdict:
    """Result of the guard. `reason` explains it in words of SQL, without the text and without names of the parser."""

    effect: SqlEffect
    reason: str
    refusal: SqlRefusal | None = None

    def needs_declaration(self, kind: HookKind) -> bool:
        """Whether a hook of this kind must say `mutates_source: true` to run the text (HOOK-04)."""
        if self.effect is SqlEffect.MAINTENANCE:
            return kind not in MAINTENANCE_KINDS
        return self.effect is not SqlEffect.READ_ONLY


def classify(text: str, connector: ConnectorType) -> SqlVerdict:
    """What the text may do on an engine of this type. Interval tokens stand for literals."""
    sql = descriptor_of(connector).sql
    if sql is None:
        return SqlVerdict(effect=SqlEffect.MUTATING, reason=f"{connector} executes no SQL")
    refusal = _refusal(text, sql)
    if refusal is not None:
        return SqlVerdict(effect=SqlEffect.MUTATING, reason=refusal.message, refusal=refusal)
    if is_maintenance(text, sql):
        return SqlVerdict(effect=SqlEffect.MAINTENANCE, reason="it is a maintenance statement")
    unclear = ambiguity(text, sql) or unknown_operator(text, sql)
    if unclear is not None:
        return SqlVerdict(effect=SqlEffect.MUTATING, reason=unclear)
    return _parsed_verdict(_with_literals(text), sql)


def hook_refusal(text: str, connector: ConnectorType, kind: HookKind, *, mutates_source: bool) -> SqlRefusal | None:
    """Why a hook of this kind may not run this text, or None (HOOK-04)."""
    verdict = classify(text, connector)
    if verdict.refusal is not None:
        return verdict.refusal
    if kind is HookKind.DATA_QUALITY_PROBE and verdict.effect is not SqlEffect.READ_ONLY:
        return SqlRefusal(
            code=PROBE_NOT_READ_ONLY,
            message=f"a probe is one read-only SELECT, and this is not provably one: {verdict.reason}",
            fix="write one SELECT that answers with a count, or choose another kind",
        )
    if verdict.needs_declaration(kind) and not mutates_source:
        return SqlRefusal(
            code=MUTATION_NOT_DECLARED,
            message=f"the SQL may change something: {verdict.reason}",
            fix="add 'mutates_source: true' if that is intended",
        )
    return None


def is_maintenance(text: str, sql: SqlTraits) -> bool:
    """One known statement that changes no row: OPTIMIZE, ANALYZE, VACUUM, UPDATE STATISTICS."""
    if sql.maintenance is None or ambiguity(text, sql) is not None:
        return False
    bare = code_of(text, sql).bare.strip()
    return re.fullmatch(sql.maintenance, bare.removesuffix(";").rstrip(), re.IGNORECASE) is not None


def _refusal(text: str, sql: SqlTraits) -> SqlRefusal | None:
    if SqlSyntax.GO_LINES in sql.syntax:
        for line in go_lines(text, sql):
            return SqlRefusal(
                code="DPONE_SQL_GO_SEPARATOR",
                message=f"line {line} is a GO separator, which is a client command and not SQL",
                fix="put each batch into a hook of its own",
            )
    if has_quoted_token(text, sql):
        return SqlRefusal(
            code="DPONE_SQL_TOKEN_QUOTED",
            message="a token stands inside quotes or a comment, where it cannot be bound as a parameter",
            fix="remove the quotes around the token",
        )
    return None


def _with_literals(text: str) -> str:
    """Unknown tokens are reported elsewhere; here any token is a text literal, and the staged rows are a table."""
    sql = name_staged(SqlText(text=text), "dpone_staged")
    return bind_tokens(sql, dict.fromkeys(sql.tokens, ""), lambda ordinal: f"'token{ordinal}'").text


@lru_cache(maxsize=64)
def _parsed_verdict(text: str, sql: SqlTraits) -> SqlVerdict:
    try:
        parsed = _parse(text, sql.dialect)
    except ImportError:
        missing = SqlRefusal(
            code="DPONE_EXTRA_MISSING",
            message="SQL text cannot be judged without sqlglot",
            fix="install the extra 'sql' of dpone from your checkout or wheel",
        )
        return SqlVerdict(effect=SqlEffect.MUTATING, reason=missing.message, refusal=missing)
    if parsed is None:
        return SqlVerdict(effect=SqlEffect.MUTATING, reason="it cannot be parsed")
    statements, tokens = parsed
    if len(statements) != 1:
        reason = "it holds several statements" if statements else "it holds no statement"
        return SqlVerdict(effect=SqlEffect.MUTATING, reason=reason)
    obstacle = _obstacle(statements[0], tokens, sql)
    if obstacle is None:
        obstacle = call_obstacle(tokens, statements[0], sql) or type_obstacle(statements[0], sql)
    effect = SqlEffect.READ_ONLY if obstacle is None else SqlEffect.MUTATING
    return SqlVerdict(effect=effect, reason=obstacle or "it is one SELECT of known parts")


def _parse(text: str, dialect: str) -> tuple[list[Any], list[Any]] | None:
    """Statements and tokens, or None where the text is not understood. The parser's log would hold SQL text: it is kept
    still."""
    import sqlglot
    import sqlglot.parser

    log = sqlglot.parser.logger
    was_disabled, log.disabled = log.disabled, True
    try:
        tokens = list(sqlglot.tokenize(text, dialect=dialect))
        parsed = sqlglot.parse(text, dialect=dialect)
    except Exception:  # noqa: BLE001 - beside its own errors the parser raises IndexError, TypeError and more
        return None
    finally:
        log.disabled = was_disabled
    return [one for one in parsed if one is not None and type(one).__name__ != "Semicolon"], tokens


def _obstacle(statement: Any, tokens: list[Any], sql: SqlTraits) -> str | None:
    """The first part of the statement that is not known to be read-only; None when every part is."""
    from sqlglot import exp

    if not isinstance(statement, (exp.Select, exp.SetOperation)):
        return _other_statement(statement, tokens)
    for node in statement.walk():
        name = type(node).__name__
        if isinstance(node, exp.Func):
            if name in EFFECT_FUNCTION_NODES:
                return f"it calls {PART_WORDS.get(name) or node.sql_name()}"
        elif name not in ALLOWED_NODES:
            return f"it holds {_part(name)}"
        if name == "Identifier" and _is_statement_word(node, sql):
            return "it holds a T-SQL statement word in place of a name"
    return None


def _other_statement(statement: Any, tokens: list[Any]) -> str:
    """Names the statement by its first word, behind WITH by its kind; an unknown word may be a name: not shown."""
    for word in (str(tokens[0].text).upper().partition(" ")[0], type(statement).__name__.upper()):
        if word in STATEMENT_WORDS:
            return f"it is no SELECT but {word}"
    return "it is no SELECT"


def _part(name: str) -> str:
    word = name.upper()
    return PART_WORDS.get(name) or (word if word in STATEMENT_WORDS else "a part that may do more than read")


def _is_statement_word(node: Any, sql: SqlTraits) -> bool:
    return not node.args.get("quoted") and str(node.this).upper() in sql.statement_words
