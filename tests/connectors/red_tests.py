"""Runs a conformance suite against a sink and says which of its tests fail."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import product

import pytest

from dpone_core.testing.sink_conformance import OpenSink


def red_tests_of(suite: object, sink: OpenSink) -> set[str]:
    """Names of the suite's tests that fail against this sink, with any value they are parametrized with."""
    red = set()
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if not name.startswith("test_"):
            continue
        for arguments in _arguments(test):
            try:
                test(sink, **arguments)
            except (AssertionError, pytest.fail.Exception, Exception):
                red.add(name)
    return red


def _arguments(test: object) -> Iterator[dict[str, object]]:
    """Every combination of values the test is parametrized with."""
    marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for values in product(*(values for _, values in marks)):
        yield dict(zip((name for name, _ in marks), values, strict=True))
