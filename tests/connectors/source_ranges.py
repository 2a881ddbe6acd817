"""What key ranges of every SQL server promise, over a table `t` that each server fills in its own words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.testing.range_conformance import KEY, bounds_of, keys_of, plan_source_ranges, require_each_key_once

T = ExtractRequest(table=TableName(schema=None, name="t"))
WINDOWED_ROWS = "(1, 1), (2, 2), (3, 3), (NULL, 2), (9, NULL)"
"""Rows of key and cursor for `require_the_window_in_every_range`."""


def inserted(values: tuple[str, ...]) -> str:
    """The literals of one column as rows, and two rows of NULL."""
    return ", ".join(f"({value})" for value in (*values, "NULL", "NULL"))


def require_every_row_once(
    ports: SourcePorts, column: str, values: tuple[str, ...], ends: tuple[str, str], *, has_snapshot: bool
) -> None:
    """Requires of a table with the rows `inserted(values)`: these ends, each row in one range, NULL keys in the first.

    `has_snapshot`: whether the source exports the moment that its readers share.
    """
    assert ports.ranges is not None
    with ports.ranges.snapshot() as snapshot:
        assert (snapshot is not None) is has_snapshot
    bounds = bounds_of(ports, T, column)
    assert ((bounds.lower, bounds.upper), bounds.rows) == (ends, len(values) + 2)
    parts = require_each_key_once(ports, T, 3, column)
    assert parts[0] == [None, None] and len(parts) > 1


def require_the_window_in_every_range(ports: SourcePorts, *requests: ExtractRequest) -> None:
    """Requires of a selection of `WINDOWED_ROWS` (k, c) that a window over c bounds the keys and every range."""
    for request in requests:
        windowed = replace(request, window=CursorWindow(column="c", lower="2", upper="4"))
        bounds = bounds_of(ports, windowed)
        assert (bounds.lower, bounds.upper, bounds.rows) == ("2", "3", 3)
        plan = plan_source_ranges(ports, windowed, 2)
        assert [keys_of(ports, windowed, part) for part in plan] == [[None], [2], [3]]


def require_the_key_refused(ports: SourcePorts, code: str) -> None:
    """Requires that the key of `t` is refused with `code`, and that the message names it or says what cannot split."""
    with pytest.raises(ConnectorError) as raised:
        bounds_of(ports, T)
    assert raised.value.code == code
    assert f"'{KEY}'" in str(raised.value) or "cannot split" in str(raised.value)
