"""Cursor state and lease are compare-and-set records: who comes second is told so and changes nothing.

Contract: EVID-07, STATE-03, STATE-11, STATE-22, STATE-23.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpone_core.errors import LoadInProgressError
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.state import CursorStateMovedError, SavedCursor
from dpone_core.state.cursor import CursorStore, state_key
from dpone_core.state.evidence_files import EvidenceFilesError, LocalEvidenceFiles
from dpone_core.state.lease import LEASE_DURATION, LeaseStore, lease_key
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import MemoryControlTables, MemoryWarehouse
from tests.spec.builders import Project, append_flow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def config_of(directory: Path, **changes: object) -> LoadConfig:
    path = Project(directory).written(append_flow(**changes))
    return load_manifest(path, project_root=directory).processes[0]


@pytest.fixture
def cursor() -> CursorStore:
    return CursorStore(control=MemoryControlTables(MemoryWarehouse()), schema="etl_state")


@pytest.fixture
def lease() -> LeaseStore:
    return LeaseStore(control=MemoryControlTables(MemoryWarehouse()), schema="etl_state", exclusive_process=False)


def test_a_cursor_is_read_as_it_was_advanced(tmp_path: Path, cursor: CursorStore) -> None:
    config = config_of(tmp_path)
    assert cursor.read(config) is None
    cursor.advance(config, load_identity("L1"), None, "10", NOW)
    assert cursor.read(config) == SavedCursor(column="updated_at", value="10", load_id="L1")


def test_a_cursor_that_moved_since_it_was_read_is_not_overwritten(tmp_path: Path, cursor: CursorStore) -> None:
    config = config_of(tmp_path)
    cursor.advance(config, load_identity("L1"), None, "10", NOW)
    with pytest.raises(CursorStateMovedError):
        cursor.advance(config, load_identity("L2"), None, "20", NOW + timedelta(seconds=1))
    assert cursor.read(config) == SavedCursor(column="updated_at", value="10", load_id="L1")


def test_the_same_value_of_another_load_counts_as_moved(tmp_path: Path, cursor: CursorStore) -> None:
    config = config_of(tmp_path)
    cursor.advance(config, load_identity("L1"), None, "10", NOW)
    seen = cursor.read(config)
    cursor.advance(config, load_identity("L2"), seen, "10", NOW + timedelta(seconds=1))
    with pytest.raises(CursorStateMovedError):
        cursor.advance(config, load_identity("L3"), seen, "11", NOW + timedelta(seconds=2))


@pytest.mark.parametrize(
    "other",
    [
        {"name": "orders_2"},
        {"source__table": {"name": "orders_2"}},
        {"sink__table": {"schema": "raw", "name": "orders_2"}},
        {"sink__table": {"schema": "raw2", "name": "orders"}},
    ],
)
def test_process_source_and_target_each_make_another_state(tmp_path: Path, other: dict[str, object]) -> None:
    assert state_key(config_of(tmp_path / "a")) != state_key(config_of(tmp_path / "b", **other))


def test_a_lease_is_of_the_target_whatever_process_loads_it(tmp_path: Path) -> None:
    assert lease_key(config_of(tmp_path / "a")) == lease_key(config_of(tmp_path / "b", name="another_process"))


def test_the_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path, lease: LeaseStore) -> None:
    config = config_of(tmp_path)
    lease.acquire(config, load_identity("L1"), NOW)
    with pytest.raises(LoadInProgressError, match="load L1 holds the lease"):
        lease.acquire(config, load_identity("L2"), NOW + timedelta(minutes=1))


def test_a_released_or_expired_lease_can_be_taken(tmp_path: Path, lease: LeaseStore) -> None:
    config = config_of(tmp_path)
    lease.release(lease.acquire(config, load_identity("L1"), NOW))
    held = lease.acquire(config, load_identity("L2"), NOW)
    taken = lease.acquire(config, load_identity("L3"), NOW + LEASE_DURATION)
    lease.release(held)
    with pytest.raises(LoadInProgressError, match="load L3"):
        lease.acquire(config, load_identity("L4"), NOW + LEASE_DURATION + timedelta(minutes=1))
    lease.release(taken)


def test_a_renewed_lease_lasts_from_its_renewal_on(tmp_path: Path, lease: LeaseStore) -> None:
    config, later = config_of(tmp_path), NOW + LEASE_DURATION - timedelta(seconds=1)
    held = lease.acquire(config, load_identity("L1"), NOW)
    assert lease.renew(held, later)
    with pytest.raises(LoadInProgressError, match="load L1"):
        lease.acquire(config, load_identity("L2"), later + LEASE_DURATION - timedelta(seconds=1))
    lease.acquire(config, load_identity("L3"), later + LEASE_DURATION)


def test_a_lease_that_went_to_another_is_not_renewed(tmp_path: Path, lease: LeaseStore) -> None:
    config, expired = config_of(tmp_path), NOW + LEASE_DURATION
    held = lease.acquire(config, load_identity("L1"), NOW)
    taken = lease.acquire(config, load_identity("L2"), expired)
    assert not lease.renew(held, expired + timedelta(minutes=1))
    lease.acquire(config, load_identity("L3"), expired + LEASE_DURATION)
    assert not lease.renew(taken, NOW)


def test_a_released_lease_is_not_renewed_into_being(tmp_path: Path, lease: LeaseStore) -> None:
    config = config_of(tmp_path)
    held = lease.acquire(config, load_identity("L1"), NOW)
    lease.release(held)
    assert not lease.renew(held, NOW)
    lease.acquire(config, load_identity("L2"), NOW)


def test_evidence_is_published_whole_or_not_at_all(tmp_path: Path) -> None:
    files = LocalEvidenceFiles(root=tmp_path)
    files.publish("runs/a/run.json", b"{}")
    assert files.read("runs/a/run.json", 2) == b"{}"
    assert [path.name for path in (tmp_path / "runs/a").iterdir()] == ["run.json"]
    with pytest.raises(EvidenceFilesError) as error:
        files.read("runs/a/run.json", 1)
    assert error.value.code == "evidence_too_large"
    assert files.read("runs/b/run.json", 10) is None


def test_files_that_belong_together_appear_together(tmp_path: Path) -> None:
    """The second name is a directory, which no file can replace; its temporary file can still be written."""
    files = LocalEvidenceFiles(root=tmp_path)
    (tmp_path / "runs/a/taken/x").mkdir(parents=True)
    with pytest.raises(EvidenceFilesError):
        files.publish_together({"runs/a/run.json": b"{}", "runs/a/" + "n" * 300: b"", "runs/a/report.md": b""})
    assert sorted(path.name for path in (tmp_path / "runs/a").iterdir()) == ["taken"]
    files.publish_together({"runs/a/run.json": b"{}", "runs/b/report.md": b""})
    assert files.read("runs/a/run.json", 2) == b"{}" and files.read("runs/b/report.md", 2) == b""


def test_an_evidence_directory_that_is_a_file_is_a_coded_failure(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("not a directory")
    with pytest.raises(EvidenceFilesError) as error:
        LocalEvidenceFiles(root=tmp_path / "evidence").publish("runs/a/run.json", b"{}")
    assert error.value.code == "evidence_publication_failed" and str(tmp_path) not in str(error.value)
