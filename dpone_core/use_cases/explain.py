"""`explain`: what a stable code means and what to do about it."""

from __future__ import annotations

from dpone_core.authoring.validate import closest
from dpone_core.error_catalogue import CatalogueEntry, catalogue
from dpone_core.errors import ETLConfigurationError


class CodeUnknownError(ETLConfigurationError):
    """The catalogue has no such code."""

    code = "DPONE_CODE_UNKNOWN"


def explain(code: str) -> CatalogueEntry:
    """Returns the catalogue entry of a code. Raises CodeUnknownError, with the closest known code as a guess."""
    entry = catalogue().entry_of(code)
    if entry is not None:
        return entry
    guess = closest(code, [known.code for known in catalogue().entries])
    raise CodeUnknownError(
        "there is no such code", fix=f"did you mean {guess}?" if guess else "see docs/reference/error-codes.md"
    )
