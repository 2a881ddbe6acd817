"""Which cursor values an incremental load has read, as its report shows it. Contract: EVID-25."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_VALUE_CHARACTERS: Final = 256


class WindowValues(StrEnum):
    """Whether reports show the cursor values of a window; they are data of the source."""

    SHOW = "show"
    HIDE = "hide"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWindow:
    """The rows with `lower <= column < upper`; None = no bound. A success saves `next_lower` for the next load.

    Values are text as `CursorWindow` has them.
    """

    column: str
    lower: str | None
    upper: str | None
    next_lower: str | None

    def as_json(self, values: WindowValues) -> dict[str, object]:
        """The window in evidence. Values that are kept out are null, and whether there is a bound stays said."""
        shown = values is WindowValues.SHOW
        bounds = {"from": self.lower, "to": self.upper, "next_from": self.next_lower}
        return {
            "column": self.column,
            "values": values.value,
            "has_lower_bound": self.lower is not None,
            "has_upper_bound": self.upper is not None,
            **{name: _bounded(value) if shown else None for name, value in bounds.items()},
        }


def window_sentence(column: str, lower: str | None, upper: str | None, *, next_lower: str | None) -> str:
    """`updated_at from 2026-01-01 (included) to 2026-02-01 (left to the next load)`, from values or names of them."""
    begin = "from the beginning" if lower is None else f"from {lower} (included)"
    end = f"to {upper} (left to the next load)" if upper is not None else "to the end"
    saved = f"; the next load begins at {next_lower}" if upper is None and next_lower is not None else ""
    return f"{column} {begin} {end}{saved}"


def _bounded(value: str | None) -> str | None:
    return value if value is None or len(value) <= MAX_VALUE_CHARACTERS else f"{value[:MAX_VALUE_CHARACTERS]}…"
