"""Every broken sink turns the conformance suite red, and by the test that names its fault."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpone_core.testing.fakes import MemoryTarget, MemoryWarehouse
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance
from tests.connectors.faulty import FAULTS, ForgetsLeftovers, Passing, ports_with
from tests.connectors.sessions import APPEND, FULL_REFRESH, memory_sink

EXPECTED = {
    "SharedStagingName": "test_two_loads_of_one_target_do_not_share_staging",
    "StagingLeftBehind": "test_a_failing_reader_leaves_no_staging",
    "AppendsInsteadOfReplacing": "test_full_refresh_replaces",
    "WritesThroughStaging": "test_staging_leaves_the_target_untouched",
    "CleansNothing": "test_an_aborted_load_leaves_nothing",
    "CountsWhatItWasTold": "test_staged_rows_are_the_rows_sent",
    "DropsEqualBatches": "test_equal_batches_stay_apart",
    "PublishesAgain": "test_publishing_twice_publishes_once",
}


def red_tests(sink: OpenSink) -> set[str]:
    """Names of the suite's tests that fail against this sink."""
    suite = StagedSinkConformance()
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
    if "strategy" in inspect.signature(test).parameters:  # type: ignore[arg-type]
        yield from ({"strategy": strategy} for strategy in (FULL_REFRESH, APPEND))
    else:
        yield {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_turns_the_suite_red(fault: type[Passing]) -> None:
    warehouse = MemoryWarehouse()
    sink = replace(memory_sink(warehouse), ports=ports_with(warehouse, fault(warehouse)))
    assert EXPECTED[fault.__name__] in red_tests(sink)


def test_forgotten_leftovers_turn_the_suite_red() -> None:
    warehouse = MemoryWarehouse()
    target = ForgetsLeftovers(MemoryTarget(warehouse))
    sink = replace(memory_sink(warehouse), ports=ports_with(warehouse, Passing(warehouse), target))
    assert "test_leftovers_are_those_of_this_target" in red_tests(sink)


def test_a_sound_sink_stays_green() -> None:
    warehouse = MemoryWarehouse()
    sink = replace(memory_sink(warehouse), ports=ports_with(warehouse, Passing(warehouse)))
    assert red_tests(sink) == set()
