"""A lease is renewed while its load runs, over a session of its own, and never made last beyond it (STATE-12)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpone_core.errors import ConnectorError, LoadInProgressError
from dpone_core.loading.lease_renewal import renew_in_background
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.state import Lease
from dpone_core.state.lease import LEASE_DURATION, LeaseStore
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import FixedClock, MemoryControlTables, MemoryWarehouse
from tests.spec.builders import Project, append_flow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
SOON = 0.01


@dataclass(slots=True, kw_only=True)
class Sink:
    """Opens sessions for renewals; the first `broken` of them cannot be opened."""

    broken: int = 0
    opened: int = 0
    closed: threading.Event = field(default_factory=threading.Event)
    leases: LeaseStore = field(
        default_factory=lambda: LeaseStore(
            control=MemoryControlTables(MemoryWarehouse()), schema="etl_state", exclusive_process=False
        )
    )

    @contextmanager
    def session(self) -> Iterator[LeaseStore]:
        self.opened += 1
        if self.opened <= self.broken:
            raise ConnectorError("the sink cannot be reached", code="sink_unreachable")
        try:
            yield self.leases
        finally:
            self.closed.set()


@pytest.fixture
def config(tmp_path: Path) -> LoadConfig:
    return load_manifest(Project(tmp_path).written(append_flow()), project_root=tmp_path).processes[0]


def is_renewed(sink: Sink, config: LoadConfig) -> bool:
    """Whether another load is kept out for longer than the first lease lasted."""
    try:
        sink.leases.acquire(config, load_identity("L2"), NOW + LEASE_DURATION)
    except LoadInProgressError:
        return True
    return False


def taken(sink: Sink, config: LoadConfig) -> Lease:
    return sink.leases.acquire(config, load_identity("L1"), NOW)


def becomes(sink: Sink, *, opened: int) -> bool:
    deadline = time.monotonic() + 20
    while sink.opened < opened and time.monotonic() < deadline:
        time.sleep(SOON)
    return sink.opened >= opened


def test_a_lease_lasts_while_its_load_does_and_its_session_ends_with_it(config: LoadConfig) -> None:
    sink = Sink()
    with renew_in_background(taken(sink, config), sink.session, FixedClock(LATER), SOON):
        assert becomes(sink, opened=1)
        time.sleep(10 * SOON)
        assert is_renewed(sink, config)
        assert not sink.closed.is_set()
    assert sink.closed.is_set()
    assert sink.opened == 1


def test_a_short_load_opens_no_second_session(config: LoadConfig) -> None:
    sink = Sink()
    with renew_in_background(taken(sink, config), sink.session, FixedClock(LATER), 60):
        time.sleep(SOON)
    assert sink.opened == 0
    assert not is_renewed(sink, config)


def test_a_session_that_cannot_be_opened_is_tried_again(config: LoadConfig) -> None:
    sink = Sink(broken=2)
    with renew_in_background(taken(sink, config), sink.session, FixedClock(LATER), SOON):
        assert becomes(sink, opened=3)
        time.sleep(10 * SOON)
        assert is_renewed(sink, config)


def test_a_lease_that_went_to_another_load_is_left_to_it(config: LoadConfig) -> None:
    sink = Sink()
    lost = taken(sink, config)
    other = sink.leases.acquire(config, load_identity("L2"), NOW + LEASE_DURATION)
    with renew_in_background(lost, sink.session, FixedClock(LATER), SOON):
        assert sink.closed.wait(20), "nothing is left to renew"
    assert sink.opened == 1
    assert sink.leases.renew(other, NOW)


def fails(sink: Sink, lease: Lease) -> None:
    with renew_in_background(lease, sink.session, FixedClock(LATER), SOON):
        assert becomes(sink, opened=1)
        raise KeyError


def test_a_failure_inside_ends_the_renewals(config: LoadConfig) -> None:
    sink = Sink()
    with pytest.raises(KeyError):
        fails(sink, taken(sink, config))
    assert sink.closed.is_set()
