"""Every broken sink turns the conformance suite red, and by the test that names its fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone_core.testing.fakes import MemoryTarget, MemoryWarehouse
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance
from tests.connectors.faulty import FAULTS, ForgetsLeftovers, Passing, ports_with
from tests.connectors.red_tests import red_tests_of
from tests.connectors.sessions import memory_sink

EXPECTED = {
    "SharedStagingName": "test_two_loads_of_one_target_do_not_share_staging",
    "StagingLeftBehind": "test_a_failing_reader_leaves_no_staging",
    "AppendsInsteadOfReplacing": "test_full_refresh_replaces",
    "WritesThroughStaging": "test_staging_leaves_the_target_untouched",
    "CleansNothing": "test_an_aborted_load_leaves_nothing",
    "CountsWhatItWasTold": "test_staged_rows_are_the_rows_sent",
    "DropsEqualBatches": "test_equal_batches_stay_apart",
    "PublishesAgain": "test_publishing_twice_publishes_once",
    "MergesByTheFirstKeyColumn": "test_a_key_of_several_columns_is_compared_as_a_whole",
    "MergesWithoutLooking": "test_a_target_that_repeats_a_staged_key_is_refused_and_stays",
    "CountsUpdatesAsInserts": "test_a_merge_updates_and_inserts_and_counts_both",
    "ForgetsColumnsOfTheTarget": "test_a_column_of_the_target_alone_keeps_its_values",
    "TakesRepeatedKeys": "test_a_repeated_key_is_refused_before_the_commit",
    "TakesNullKeys": "test_a_null_key_is_refused_before_the_commit",
    "ReplacesTheWholeTarget": "test_partitions_of_the_load_are_replaced_and_others_stay",
    "ReplacesWhereAppended": "test_one_partition_is_replaced_too",
    "TakesEveryDayForAMonth": "test_a_partition_is_what_its_granularity_says",
}


def red_tests(sink: OpenSink) -> set[str]:
    return red_tests_of(StagedSinkConformance(), sink)


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
