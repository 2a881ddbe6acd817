"""SQL text with its hash, and the interval tokens that are bound as parameters, never pasted into the text.

Tokens: `{{ data_interval_start }}`, `{{ data_interval_end }}`, `{{ logical_date }}`, `{{ ds }}`, `{{ run_id }}`,
`{{ partition_key }}`. Anything else between double braces is an error at check.
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
_TOKEN: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)


def sql_hash_of(text: str) -> str:
    """Hash of the stripped SQL text; stands for the text wherever evidence must not show it (HOOK-12)."""
    return sha256_text(text.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """`text` never leaves the process and is hidden from repr; `file` is the manifest-relative origin, if any."""

    text: str = field(repr=False)
    file: str | None = None

    @property
    def sql_hash(self) -> str:
        return sql_hash_of(self.text)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Names between double braces in order of appearance, known or not, repeated as they repeat."""
        return tuple(_TOKEN.findall(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSql:
    """Text with driver placeholders and their values in order of appearance."""

    text: str = field(repr=False)
    parameters: tuple[str, ...] = field(default=(), repr=False)


def bind_tokens(sql: SqlText, values: Mapping[str, str], placeholder: Callable[[int], str]) -> BoundSql:
    """Replaces each token by `placeholder(ordinal)`; raises KeyError naming a token without value."""
    parameters: list[str] = []

    def bound(match: re.Match[str]) -> str:
        parameters.append(values[match.group(1)])
        return placeholder(len(parameters) - 1)

    return BoundSql(text=_TOKEN.sub(bound, sql.text), parameters=tuple(parameters))
