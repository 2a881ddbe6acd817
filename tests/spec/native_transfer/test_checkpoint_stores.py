"""Checkpoints are durable, the newest counts, and COMMITTED stays. Contract: NAT-10, NAT-11, NAT-50, NAT-64, NAT-65.

Both stores pass the same tests; what only a file can suffer is below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.model.partition import CheckpointStatus, TransferRunState
from dpone_core.native_transfer.checkpoint_file import CheckpointFiles
from dpone_core.native_transfer.checkpoints import (
    CheckpointCounterError,
    CheckpointUnreadableError,
    checkpoint_json,
    parse_checkpoint,
    parse_run,
    run_json,
)
from dpone_core.native_transfer.ledger import CheckpointTerminalError
from tests.spec.native_transfer.builders import (
    APPEND,
    NOW,
    ROUTE,
    OpenStore,
    checkpoint,
    file_store,
    ledger,
    partitions,
    run,
    table_store,
    transferred,
)

MakeStore = Callable[[Path], OpenStore]
FIRST, SECOND, THIRD = partitions()


@pytest.fixture(params=[file_store, table_store], ids=["file", "table"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    make: MakeStore = request.param
    return make(tmp_path)


def test_the_newest_record_of_a_partition_counts_also_for_another_process(opened: OpenStore) -> None:
    opened().append(ROUTE, "r1", [checkpoint(FIRST, CheckpointStatus.PLANNED), checkpoint(SECOND)])
    opened().append(ROUTE, "r1", [checkpoint(FIRST, CheckpointStatus.LOADED, rows_exported=7)])
    found = {record.partition_id: record for record in opened().latest(ROUTE, "r1")}
    assert found[FIRST.id].status is CheckpointStatus.LOADED and found[FIRST.id].rows_exported == 7
    assert found[SECOND.id] == checkpoint(SECOND)
    assert opened().latest(ROUTE, "r2") == ()


def test_a_run_is_open_until_it_is_complete_and_knows_its_plan(opened: OpenStore) -> None:
    opened().save_run(run(), None)
    opened().save_run(run(run_id="r2"), None)
    assert [each.run_id for each in opened().open_runs(ROUTE)] == ["r1", "r2"]
    opened().append(ROUTE, "r1", [checkpoint(FIRST)])
    opened().save_run(replace(run(), state=TransferRunState.COMPLETE), run())
    assert [each.run_id for each in opened().open_runs(ROUTE)] == ["r2"]
    assert opened().run(ROUTE, "r1") == replace(run(), state=TransferRunState.COMPLETE)
    assert [record.partition_id for record in opened().latest(ROUTE, "r1")] == [FIRST.id]
    opened().save_run(run(), replace(run(), state=TransferRunState.COMPLETE))
    assert [each.run_id for each in opened().open_runs(ROUTE)] == ["r1", "r2"], "a run may be opened again"


def test_every_run_of_a_route_is_remembered_whatever_its_state(opened: OpenStore) -> None:
    opened().save_run(run(), None)
    opened().save_run(replace(run(run_id="r2"), state=TransferRunState.COMPLETE), None)
    opened().append(ROUTE, "never-planned", [checkpoint(FIRST)])
    assert {each.run_id: each.state for each in opened().runs(ROUTE)} == {
        "r1": TransferRunState.OPEN,
        "r2": TransferRunState.COMPLETE,
    }
    assert opened().runs(APPEND) == ()


@pytest.mark.parametrize("counter", [True, -1, "12", 1.0])
def test_a_counter_that_is_no_count_is_not_written(counter: Any, opened: OpenStore) -> None:
    with pytest.raises(CheckpointCounterError):
        opened().append(ROUTE, "r1", [checkpoint(FIRST, rows_exported=counter)])
    assert opened().latest(ROUTE, "r1") == ()


def test_a_committed_partition_does_not_fail_any_more(opened: OpenStore) -> None:
    made = ledger(opened())
    commit = made.guard_commit([transferred(FIRST)], {})
    commit.arm()
    commit.commit()
    made.record_failed(FIRST, "late_failure")
    with pytest.raises(CheckpointTerminalError):
        commit.mark_refused("late_failure")
    (record,) = [found for found in opened().latest(ROUTE, "r1") if found.partition_id == FIRST.id]
    assert record.status is CheckpointStatus.COMMITTED


def test_a_planned_partition_keeps_what_it_already_says(opened: OpenStore) -> None:
    made = ledger(opened())
    made.record_loaded(transferred(FIRST))
    made.record_planned(partitions())
    statuses = {record.partition_id: record.status for record in opened().latest(ROUTE, "r1")}
    assert statuses == {
        FIRST.id: CheckpointStatus.LOADED,
        SECOND.id: CheckpointStatus.PLANNED,
        THIRD.id: CheckpointStatus.PLANNED,
    }


@pytest.mark.parametrize("counter", [True, -1, "12", 1.5, None])
def test_a_stored_counter_that_is_no_count_is_unknown(counter: object) -> None:
    document = checkpoint_json(checkpoint(FIRST)) | {"rows_exported": counter}
    assert parse_checkpoint(document).rows_exported is None


LINE_FIELDS = {
    "transfer_partition_id",
    "status",
    "query_hash",
    "schema_hash",
    "source_table",
    "target_table",
    "partition_bounds",
    "started_at",
    "completed_at",
    "rows_exported",
    "bytes_exported",
    "diagnostics",
}


def test_a_line_has_the_documented_fields_and_comes_back_the_same() -> None:
    document = checkpoint_json(checkpoint(SECOND))
    assert set(document) == LINE_FIELDS
    assert parse_checkpoint(json.loads(json.dumps(document))) == checkpoint(SECOND)
    assert parse_run(json.loads(json.dumps(run_json(run())))) == run()


@pytest.mark.parametrize("missing", sorted(LINE_FIELDS))
def test_a_record_without_one_of_its_fields_is_not_guessed(missing: str) -> None:
    document = checkpoint_json(checkpoint(SECOND))
    del document[missing]
    with pytest.raises(CheckpointUnreadableError):
        parse_checkpoint(document)


def written(tmp_path: Path) -> tuple[CheckpointFiles, Path]:
    store = CheckpointFiles(root=tmp_path)
    store.save_run(run(), None)
    store.append(ROUTE, "r1", [checkpoint(FIRST), checkpoint(SECOND, CheckpointStatus.LOADED)])
    store.append(ROUTE, "r1", [checkpoint(THIRD, CheckpointStatus.LOADED, rows_exported=9)])
    (path,) = tmp_path.rglob("*.jsonl")
    return store, path


def test_a_last_record_cut_anywhere_is_left_out_and_the_next_one_stands_on_a_fresh_line(tmp_path: Path) -> None:
    """NAT-11: at every byte, the bytes inside a character of more than one byte included."""
    store, path = written(tmp_path)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    assert any(byte >= 0x80 for byte in whole[last:]), "the last record holds a character of several bytes"
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert store.has_torn_end(ROUTE, "r1") is (cut > last)
        assert {record.partition_id for record in store.latest(ROUTE, "r1")} == {FIRST.id, SECOND.id}
        store.append(ROUTE, "r1", [checkpoint(THIRD, rows_exported=4)])
        assert not store.has_torn_end(ROUTE, "r1")
        found = {record.partition_id: record for record in store.latest(ROUTE, "r1")}
        assert found[THIRD.id].rows_exported == 4 and found[SECOND.id].status is CheckpointStatus.LOADED
        assert path.read_bytes().startswith(whole[:last]) and path.read_bytes().count(b"\n") == whole.count(b"\n")


def test_damage_before_the_last_line_fails_closed(tmp_path: Path) -> None:
    store, path = written(tmp_path)
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for damaged in (
        whole[:second] + b"\n" + whole[second:],
        whole[: second + 5] + whole[second + 6 :],
        whole[:second] + b"\xff" + whole[second + 1 :],
        whole[:second] + b"{}\n" + whole[second:],
        whole[:second] + b"[1]\n" + whole[second:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointUnreadableError):
            store.latest(ROUTE, "r1")
        with pytest.raises(CheckpointUnreadableError):
            store.append(ROUTE, "r1", [checkpoint(FIRST)])
        with pytest.raises(CheckpointUnreadableError):
            store.open_runs(ROUTE)
        assert path.read_bytes() == damaged


def test_run_ids_that_look_alike_have_files_of_their_own(tmp_path: Path) -> None:
    store = CheckpointFiles(root=tmp_path)
    for run_id in ("a.b", "a_b", "a/b"):
        store.append(ROUTE, run_id, [checkpoint(FIRST)])
    assert len(list(tmp_path.rglob("*.jsonl"))) == 3


WRITER = """
import sys
from pathlib import Path
from dpone_core.native_transfer.checkpoint_file import CheckpointFiles
from tests.spec.native_transfer.builders import ROUTE, checkpoint, partitions
store = CheckpointFiles(root=Path(sys.argv[1]))
for number in range(50):
    store.append(ROUTE, "r1", [checkpoint(partitions()[0], rows_exported=number)] * 3)
"""


def test_two_processes_never_write_into_each_others_lines(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
        )
        for _ in range(2)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    (path,) = tmp_path.rglob("*.jsonl")
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 300 and all(set(json.loads(line)) == LINE_FIELDS for line in lines)


def test_a_moment_without_zone_is_no_moment(tmp_path: Path) -> None:
    from dpone_core.model.partition import TransitionTimestampError

    with pytest.raises(TransitionTimestampError):
        checkpoint(FIRST, started_at=NOW.replace(tzinfo=None))
    with pytest.raises(TransitionTimestampError):
        checkpoint(FIRST, completed_at=NOW.replace(year=2025))
