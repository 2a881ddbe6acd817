"""Every broken legacy sink turns the conformance suite red, and by the test that names its fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone_core.testing.fakes import MemoryWarehouse
from dpone_core.testing.legacy_conformance import LegacySinkConformance
from dpone_core.testing.sink_conformance import OpenSink
from tests.connectors.faulty_legacy import FAULTS, Broken
from tests.connectors.red_tests import red_tests_of
from tests.connectors.sessions import memory_legacy_sink


def red_tests(fault: type[Broken]) -> set[str]:
    """Names of the suite's tests that fail against this sink."""
    warehouse = MemoryWarehouse()
    sound = memory_legacy_sink(warehouse)
    sink: OpenSink = replace(sound, ports=replace(sound.ports, legacy=fault(warehouse)))
    return red_tests_of(LegacySinkConformance(), sink)


@pytest.mark.parametrize(("fault", "named_by"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_seeded_fault_turns_the_suite_red(fault: type[Broken], named_by: str) -> None:
    assert named_by in red_tests(fault)


def test_a_sound_sink_stays_green() -> None:
    assert red_tests(Broken) == set()
