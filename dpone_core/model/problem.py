"""A finding about authored input: stable code, field path, position in the text, sentence and way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpone_core.errors import ETLConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Place in a text file; `line` and `column` count from 1, in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`path` is the dotted field path (`quality.gates[0].threshold`), "" for the document itself.

    `related` names further positions of the same finding, for example the first of two duplicate keys.
    """

    code: str
    message: str
    path: str = ""
    position: Position | None = None
    fix: str | None = None
    related: tuple[Position, ...] = ()

    def __str__(self) -> str:
        """`file:line:col: CODE path: message`, the one-line form of every listing."""
        where = f"{self.position}: " if self.position is not None else ""
        field = f" {self.path}" if self.path else ""
        return f"{where}{self.code}{field}: {self.message}"


class ManifestInvalidError(ETLConfigurationError):
    """One or more problems make the manifest unusable; `problems` holds all of them, in document order."""

    code = "DPONE_MANIFEST_INVALID"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(f"{first}{more}", code=first.code if len(self.problems) == 1 else None, fix=first.fix)
