"""Marks that part the quick suite from the full one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def first_quick(values: Sequence[Any], quick: int = 1, ids: Sequence[str] | None = None) -> list[Any]:
    """Parameters of which the first `quick` belong to the quick suite, the others to the full one.

    A tuple holds the values of several arguments.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=None if ids is None else ids[number],
            marks=() if number < quick else pytest.mark.slow,
        )
        for number, value in enumerate(values)
    ]
