"""SQL text with its hash, and the tokens in it that are bound as parameters and never pasted into the text.

Tokens: `{{ data_interval_start }}`, `{{ data_interval_end }}`, `{{ logical_date }}`, `{{ ds }}`, `{{ run_id }}`, `{{
partition_key }}`. Check refuses any other name between double braces. The statement of a gate reads `{{ staged }}` too:
the table with the rows of the load, whose name no parameter can be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dpone_core.model.fingerprint import sha256_text

INTERVAL_TOKENS: Final = frozenset(
    {"data_interval_start", "data_interval_end", "logical_date", "ds", "run_id", "partition_key"}
)
STAGED_TOKEN: Final = "staged"
GATE_TOKENS: Final = INTERVAL_TOKENS | {STAGED_TOKEN}
_TOKEN: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)


def sql_hash_of(text: str) -> str:
    """Hash of the stripped SQL text; stands for the text wherever evidence must not show it (HOOK-12)."""
    return sha256_text(text.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """One SQL text. `text` never leaves the process and is hidden from repr; `file` is its path relative to the
    manifest, if any.
    """

    text: str = field(repr=False)
    file: str | None = None

    @property
    def sql_hash(self) -> str:
        """Hash of the stripped text."""
        return sql_hash_of(self.text)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Names between double braces in order of appearance, known or not, repeated as they repeat."""
        return tuple(_TOKEN.findall(self.text))


def name_staged(sql: SqlText, relation: str) -> SqlText:
    """The text with `relation`, a quoted name, in place of `{{ staged }}`. Raises ValueError for a name with double
    braces, which would be read as a token.
    """
    if "{{" in relation:
        raise ValueError("the name of the staged rows holds double braces")
    text = _TOKEN.sub(lambda match: relation if match.group(1) == STAGED_TOKEN else match.group(), sql.text)
    return SqlText(text=text, file=sql.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSql:
    """SQL text with the driver's placeholders, and the parameter values in order of appearance."""

    text: str = field(repr=False)
    parameters: tuple[str, ...] = field(default=(), repr=False)


def bind_tokens(sql: SqlText, values: Mapping[str, str], placeholder: Callable[[int], str]) -> BoundSql:
    """Replaces each token by `placeholder(ordinal)`, counted from 0. Raises KeyError naming a token that has no
    value.
    """
    parameters: list[str] = []

    def bind_one(match: re.Match[str]) -> str:
        parameters.append(values[match.group(1)])
        return placeholder(len(parameters) - 1)

    return BoundSql(text=_TOKEN.sub(bind_one, sql.text), parameters=tuple(parameters))
