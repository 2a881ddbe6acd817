"""`dpone explain CODE`"""

from __future__ import annotations

from dpone_core.authoring.validate import closest
from dpone_core.cli.dispatch import CommandContext
from dpone_core.error_catalogue import catalogue
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.recovery import boundary_advice
from dpone_core.model.vocabulary import Boundary


class CodeUnknownError(ETLConfigurationError):
    code = "DPONE_CODE_UNKNOWN"


def execute(context: CommandContext) -> int:
    """What a code means and what to do, at the boundary a report or receipt names."""
    code = context.arguments.code
    entry = catalogue().entry_of(code)
    if entry is None:
        guess = closest(code, [known.code for known in catalogue().entries])
        raise CodeUnknownError(
            "there is no such code", fix=f"did you mean {guess}?" if guess else "see docs/reference/error-codes.md"
        )
    lines = [entry.code, f"  area     {entry.area}", f"  meaning  {entry.meaning}", f"  action   {entry.action}"]
    if context.arguments.boundary is not None:
        boundary = Boundary(context.arguments.boundary)
        lines += [f"  {boundary.value}: {sentence}" for sentence in boundary_advice(boundary)]
    context.console.result("\n".join(lines))
    return 0
