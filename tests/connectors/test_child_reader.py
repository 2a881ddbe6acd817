"""A reader in a child process: every death is an error, never a hang, a short success or a leak."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow import child_main
from dpone_core.connectors._arrow.child_reader import ChildReader, ChildRequest
from dpone_core.errors import ETLExecutionError
from tests.connectors import reader_children

MODULE = reader_children.__name__


def reader(function: str, **arguments: object) -> ChildReader:
    return ChildReader(ChildRequest(module=MODULE, function=function, arguments=arguments, engine="test"))


def ids(found: ChildReader) -> list[int]:
    return [value for batch in found.batches() for value in batch.column("id").to_pylist()]


def failure(found: ChildReader) -> ETLExecutionError:
    with pytest.raises(ETLExecutionError) as raised:
        ids(found)
    return raised.value


def test_rows_arrive_once_and_in_order() -> None:
    assert ids(reader("numbers", batches=3)) == list(range(3_000))


def test_no_rows_are_a_success_that_says_so() -> None:
    assert ids(reader("numbers", batches=0)) == []


@pytest.mark.parametrize("batches", [0, 2])
@pytest.mark.parametrize(
    ("then", "sign"),
    [
        ("segfault", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("kill", "SIGKILL"),
        ("panic", "panicked"),
        ("exit", "exit status 3"),
        ("success", "exit status 0"),
    ],
)
def test_a_death_is_named(then: str, sign: str, batches: int) -> None:
    error = failure(reader("numbers", batches=batches, then=then))
    assert error.code == "source_reader_died"
    assert sign in str(error) and "canary" not in str(error)


@pytest.mark.parametrize(("what", "code"), [("kill", "source_reader_died"), ("exception", "source_query_refused")])
def test_a_failure_before_the_first_row_is_told_apart(what: str, code: str) -> None:
    assert failure(reader("at_once", what=what)).code == code


def test_an_exception_keeps_its_text_as_the_cause_only() -> None:
    error = failure(reader("numbers", batches=1, then="exception"))
    assert error.code == "source_unreachable" and "canary" not in str(error)
    assert "canary" in str(error.__cause__)


def test_an_error_of_ours_arrives_whole() -> None:
    error = failure(reader("at_once", what="ours"))
    assert (error.code, error.message, error.fix) == ("source_unreachable", "a sentence of ours", "a way out")


def test_what_a_driver_prints_reaches_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    assert ids(reader("numbers", batches=1, then="noise")) == list(range(1_000))
    assert capfd.readouterr() == ("", "")


def test_the_child_sees_no_secret_in_arguments_or_environment_and_imports_no_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPONE_CONN_SHOP", "mysql://root:s3cret@db/x")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "mysql://root:s3cret@db/x")
    note = tmp_path / "note"
    assert len(ids(reader("recording", path=str(note), batches=1, rows=1))) == 1
    number, seen, modules = note.read_text().split(" ", 2)
    assert (number, seen) == ("0", "False")
    assert not {"dpone_core.planning", "pydantic", "dpone_core.authoring"} & set(modules.split())


def test_the_pipe_holds_a_child_back(tmp_path: Path) -> None:
    note = tmp_path / "note"
    found = reader("recording", path=str(note), batches=1_000, rows=65_536)
    received = found.batches()
    next(received)
    time.sleep(0.5)
    assert int(note.read_text().split()[0]) <= 3
    found.close()
    assert list(received) == []


def test_closing_ends_an_iteration_that_waits_for_a_row() -> None:
    found = reader("numbers", batches=1, then="hang")
    received = found.batches()
    next(received)
    closing = threading.Timer(0.3, found.close)
    closing.start()
    assert list(received) == []
    closing.join()


def test_closing_before_and_after_reading_is_harmless() -> None:
    unread = reader("numbers", batches=1)
    unread.close()
    unread.close()
    assert list(unread.batches()) == []
    begun = reader("numbers", batches=2)
    ids(begun)
    begun.close()
    assert begun.pid is not None and not _alive(begun.pid)


def test_an_abandoned_iteration_leaves_no_child() -> None:
    found = reader("numbers", batches=5, then="hang")
    received = found.batches()
    next(received)
    received.close()  # type: ignore[attr-defined]
    assert found.pid is not None and not _alive(found.pid)


PARENT = """
import sys, time
sys.path.insert(0, {root!r})
from tests.connectors.test_child_reader import reader
found = reader("numbers", batches=1, then="hang")
received = found.batches()
next(received)
print(found.pid, flush=True)
time.sleep(600)
"""


def test_the_child_dies_with_its_parent() -> None:
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(root=root)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert _alive(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(child)


@pytest.mark.parametrize("kept", ["schema only", "half a batch", "everything but the trailer"])
def test_a_truncated_stream_is_no_result(kept: str) -> None:
    sink = pa.BufferOutputStream()
    schema = reader_children.SCHEMA
    with pa.ipc.new_stream(sink, schema) as writer:
        head = sink.tell()
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int64())], schema=schema))
        whole = sink.tell()
    content = sink.getvalue().to_pybytes()
    cut = {"schema only": content[:head], "half a batch": content[: whole - 9], "everything but the trailer": content}
    error = _answered_with(cut[kept])
    assert error.code == "source_reader_died"


def test_a_trailer_that_counts_other_rows_is_no_result() -> None:
    sink = pa.BufferOutputStream()
    schema = reader_children.SCHEMA
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int64())], schema=schema))
        nothing = pa.RecordBatch.from_arrays([pa.array([], pa.int64())], schema=schema)
        writer.write_batch(nothing, custom_metadata={child_main.TRAILER: b'{"rows": 3}'})
    error = _answered_with(sink.getvalue().to_pybytes())
    assert error.code == "source_unreachable" and "3 rows" in str(error)


def _answered_with(content: bytes) -> ETLExecutionError:
    """What the parent makes of a child that wrote exactly these bytes and ended."""
    script = "import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))"
    with subprocess.Popen(
        [sys.executable, "-c", script, content.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        found = reader("numbers", batches=0)
        with pytest.raises(ETLExecutionError) as raised:
            list(found._receive(process))
    return raised.value


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
