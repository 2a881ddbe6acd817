"""One error found in authored input: its code, field path, position in the file, message and fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.visible_text import visible


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

    `related` holds further positions of the same error, for example the first of two equal keys. `unlisted`: for how
    many further errors it stands.
    """

    code: str
    message: str
    path: str = ""
    position: Position | None = None
    fix: str | None = None
    related: tuple[Position, ...] = ()
    unlisted: int = 0

    def __str__(self) -> str:
        """`file:line:column: CODE path: message`, the one-line form in every listing; a key may hold any character."""
        where = f"{self.position}: " if self.position is not None else ""
        field = f" {self.path}" if self.path else ""
        return visible(f"{where}{self.code}{field}: {self.message}")

    @property
    def without_code(self) -> str:
        """`file:line:column: path: message`, for a line that begins with the code."""
        return ": ".join(str(part) for part in (self.position, self.path, self.message) if part)


class ManifestInvalidError(ETLConfigurationError):
    """The manifest has errors; `problems` lists all of them in the order of the document."""

    code = "DPONE_MANIFEST_INVALID"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        if len(self.problems) == 1:
            super().__init__(first.without_code, code=first.code, fix=first.fix)
        else:
            super().__init__(f"{first} (and {len(self.problems) - 1} more)", fix=first.fix)
