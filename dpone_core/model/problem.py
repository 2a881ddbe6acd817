"""One error found in authored input: its code, field path, position in the file, message and fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpone_core.errors import ETLConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a text file; `line` and `column` count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in a manifest. `path` is the dotted field path (`quality.gates[0].threshold`), "" for the whole
    document.

    `related` holds further positions of the same error, for example the first of two equal keys.
    """

    code: str
    message: str
    path: str = ""
    position: Position | None = None
    fix: str | None = None
    related: tuple[Position, ...] = ()

    def __str__(self) -> str:
        """`file:line:column: CODE path: message`, the one-line form in every listing."""
        where = f"{self.position}: " if self.position is not None else ""
        field = f" {self.path}" if self.path else ""
        return f"{where}{self.code}{field}: {self.message}"


class ManifestInvalidError(ETLConfigurationError):
    """The manifest has errors; `problems` lists all of them in the order of the document."""

    code = "DPONE_MANIFEST_INVALID"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(f"{first}{more}", code=first.code if len(self.problems) == 1 else None, fix=first.fix)
