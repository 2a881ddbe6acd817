"""Says in one line which cursor values a load has read, from the JSON of its report."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.evidence.json_view import JsonView
from dpone_core.model.read_window import WindowValues, window_sentence


def describe_window(window: Mapping[str, object] | object) -> str | None:
    """One line; None where there is no window. Values that were kept out are named by what they are."""
    view = JsonView(window)
    column = view.text("column")
    if column is None:
        return None
    if view.text("values") != WindowValues.SHOW:
        lower = "the saved value" if view.at("has_lower_bound").value is True else None
        upper = "the newest value seen at the start" if view.at("has_upper_bound").value is True else None
        return window_sentence(column, lower, upper, next_lower=None) + "; its values are kept out of evidence"
    return window_sentence(column, view.text("from"), view.text("to"), next_lower=view.text("next_from"))
