"""An embedded database has one process; a second one is told who, and a killed one leaves an intact target."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from dpone_core.connectors._sql.embedded import exclusive_lock
from dpone_core.errors import ConnectorError, LoadInProgressError
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import RetryClassification
from tests.connectors.sessions import connection, duckdb_sink, embedded_clickhouse
from tests.spec.builders import Project, code_of, flow, hook, hooks, outcome_of

PREPARE = """
import os, sys
from pathlib import Path
from dpone_core.model.load_config import TableName
from dpone_core.testing.builders import orders, stage_request
from tests.connectors import sessions
table = TableName(schema="s", name="t")
with getattr(sessions, sys.argv[1])(Path(sys.argv[2])) as sink:
    sink.load(stage_request(table, "whole"), orders(1, 2, 3))
    def endless():
        while True:
            yield orders(*range(70_000))
            print("writing", flush=True)
    {body}
"""
HOLD = 'print("writing", flush=True); sys.stdin.read()'
WRITE = 'sink.ports.staged.stage(stage_request(table, "dead"), endless())'
LEAVE = (
    'sink.ports.staged.stage(stage_request(table, "dead"), [orders(9)]); print("writing", flush=True); sys.stdin.read()'
)
SINKS = {"embedded_clickhouse": embedded_clickhouse, "duckdb_sink": duckdb_sink}
TABLE = TableName(schema="s", name="t")


@contextmanager
def other_process(sink_name: str, directory: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the database open and has said so."""
    with subprocess.Popen(
        [sys.executable, "-c", PREPARE.format(body=body), sink_name, str(directory)],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process
        process.kill()


@pytest.mark.parametrize("sink_name", SINKS)
def test_a_second_process_is_told_who_holds_the_database(sink_name: str, tmp_path: Path) -> None:
    with other_process(sink_name, tmp_path, HOLD) as process:
        with pytest.raises(ConnectorError) as raised, SINKS[sink_name](tmp_path):
            pass
        assert raised.value.code == "embedded_directory_locked"
        assert f"process {process.pid}" in str(raised.value) and str(tmp_path) not in str(raised.value)


@pytest.mark.parametrize("sink_name", SINKS)
def test_a_second_session_of_the_same_process_is_refused_too(sink_name: str, tmp_path: Path) -> None:
    with SINKS[sink_name](tmp_path):
        with pytest.raises(ConnectorError) as raised, SINKS[sink_name](tmp_path):
            pass
        assert raised.value.code == "embedded_directory_locked"


@pytest.mark.parametrize("body", [WRITE, LEAVE], ids=["while writing", "after staging"])
@pytest.mark.parametrize("sink_name", SINKS)
def test_a_killed_writer_leaves_the_target_and_visible_leftovers(sink_name: str, body: str, tmp_path: Path) -> None:
    with other_process(sink_name, tmp_path, body) as process:
        process.kill()
        process.wait()
    with SINKS[sink_name](tmp_path) as sink:
        assert sink.ids(TABLE) == [1, 2, 3]
        leftovers = sink.ports.target.leftovers(TABLE, None)
        if sink_name == "embedded_clickhouse" or body == LEAVE:
            assert [left.role for left in leftovers] == ["stg"]
        else:
            assert leftovers == ()


@pytest.mark.parametrize(
    "uri",
    ["chdb://relative", "chdb:///", "duckdb:///x?y=1", "clickhouse:///nohost", "clickhouse://h:port/db", "sqlite://x"],
)
def test_an_unclear_uri_is_refused_without_being_shown(uri: str) -> None:
    from dpone_core.connectors.clickhouse.open import open_sink as open_clickhouse
    from dpone_core.connectors.duckdb.open import open_sink as open_duckdb

    opening = open_duckdb if uri.startswith("duckdb") else open_clickhouse
    with pytest.raises(ConnectorError) as raised, opening(connection(uri), lock_timeout_seconds=0):
        pass
    assert raised.value.code == "connection_uri_invalid"
    assert uri not in str(raised.value)


LOAD_HOLD = """
import sys

from contextlib import contextmanager
from dpone_core.connectors._sql.embedded import exclusive_lock
with exclusive_lock(sys.argv[1], timeout_seconds=0, holder="run r1", target=sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def loading(path: Path, target: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", LOAD_HOLD, str(path), target],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_load_of_the_same_target_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "warehouse"
    with loading(path, "raw.orders") as process:
        started = time.monotonic()
        with pytest.raises(LoadInProgressError) as raised:
            acquire(path, 3600.0, "raw.orders")
        assert time.monotonic() - started < 60
        assert raised.value.code == "load_in_progress"
        assert f"process {process.pid} (run r1)" in str(raised.value)


@pytest.mark.parametrize("target", ["raw.customers", None])
def test_another_target_waits_and_then_names_the_holder(tmp_path: Path, target: str | None) -> None:
    path = tmp_path / "warehouse"
    with loading(path, "raw.orders") as process:
        with pytest.raises(ConnectorError) as raised:
            acquire(path, 0.2, target)
        assert raised.value.code == "embedded_directory_locked"
        assert f"process {process.pid} (run r1)" in str(raised.value)


def test_a_lock_file_that_a_full_disk_takes_no_byte_of_is_an_error_by_name(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with (
            pytest.raises(ConnectorError) as raised,
            exclusive_lock(str(tmp_path / "db"), timeout_seconds=0, holder="first"),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.code == "sink_unreachable"
    with exclusive_lock(str(tmp_path / "db"), timeout_seconds=0, holder="second"):
        pass


def test_a_dead_holder_s_claim_refuses_nobody(tmp_path: Path) -> None:
    path = tmp_path / "warehouse"
    with loading(path, "raw.orders") as process:
        process.kill()
        process.wait()
    acquire(path, 0.0, "raw.orders")


def test_a_claim_that_cannot_be_read_refuses_nobody_at_once(tmp_path: Path) -> None:
    path = tmp_path / "warehouse"
    for claim in ("", "nonsense", "[]", '{"pid": 1}'):
        with loading(path, "raw.orders"):
            Path(f"{path}.dpone-lock").write_text(claim)
            with pytest.raises(ConnectorError, match="another process"):
                acquire(path, 0.0, "raw.orders")


def acquire(path: Path, timeout_seconds: float, target: str | None) -> None:
    with exclusive_lock(str(path), timeout_seconds=timeout_seconds, holder="run r2", target=target):
        pass


@pytest.mark.parametrize(
    ("sink", "uri"), [("duckdb", "duckdb:///{root}/dwh"), ("files", "file:///{root}/dwh")], ids=["duckdb", "files"]
)
def test_a_run_into_a_target_that_is_being_loaded_is_refused_at_once_and_may_be_repeated(
    tmp_path: Path, sink: str, uri: str
) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": uri.format(root=tmp_path)})
    project.orders()
    project.written(flow(sink__type=sink))
    with exclusive_lock(str(tmp_path / "dwh"), timeout_seconds=0, holder="run r1", target="raw.orders"):
        execution = project.execute()
    outcome = outcome_of(execution)
    assert code_of(execution) == "load_in_progress"
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert not (tmp_path / "dwh").exists()


def test_a_default_schema_left_out_is_the_same_target(tmp_path: Path) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": f"duckdb:///{tmp_path / 'dwh'}"})
    project.orders()
    project.written(flow(sink__table={"name": "orders"}))
    with exclusive_lock(str(tmp_path / "dwh"), timeout_seconds=0, holder="run r1", target="main.orders"):
        assert code_of(project.execute()) == "load_in_progress"


SINK_PLACES = {
    "duckdb": ("duckdb", "duckdb:///{root}/dwh"),
    "embedded ClickHouse": ("clickhouse", "chdb:///{root}/dwh"),
    "files": ("files", "file:///{root}/dwh"),
}
MARK = {"id": "mark", "type": "marker", "kind": "notification"}


def refused_without_a_trace(project: Project, role: str, **options: object) -> None:
    """No hook ran, nothing was opened or made, and the role is named, not the path."""
    before = project.files()
    execution = project.execute(**options)
    assert execution.refusal is not None and execution.report.exit_code == 2
    assert execution.refusal.code == "DPONE_ENGINE_LOCK_NOT_WRITABLE"
    assert f"{role} '" in execution.refusal.message and str(project.root) not in execution.refusal.message
    assert project.files() == before


@pytest.mark.parametrize("place", ["no directory", "no lock file"])
@pytest.mark.parametrize("engine", SINK_PLACES)
def test_a_lock_that_cannot_be_written_is_known_before_the_first_hook(tmp_path: Path, engine: str, place: str) -> None:
    sink, uri = SINK_PLACES[engine]
    root = tmp_path
    if place == "no directory":
        root = tmp_path / "file"
        root.write_text("not a directory")
    else:
        (tmp_path / "dwh.dpone-lock").mkdir()
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": uri.format(root=root)})
    project.orders()
    project.written(flow(sink__type=sink, source__options=hooks(pre=[MARK])))
    refused_without_a_trace(project, "sink")


@pytest.fixture(name="shop")
def duckdb_file_beside_an_unwritable_lock(tmp_path: Path) -> Project:
    """The lock of the source cannot be written; reading the file needs none."""
    with closing(duckdb.connect(str(tmp_path / "shop.duckdb"))) as database:
        database.execute("CREATE TABLE orders (id BIGINT NOT NULL, name VARCHAR, updated_at BIGINT)")
    (tmp_path / "shop.duckdb.dpone-lock").mkdir()
    return Project(tmp_path, environment={"DPONE_CONN_SHOP": f"duckdb:///{tmp_path}/shop.duckdb"})


def test_a_hook_that_writes_a_source_needs_its_lock_and_a_reader_does_not(shop: Project) -> None:
    """The lock is taken by the hook, which may run behind the commit."""
    shop.written(
        flow(source__type="duckdb", source__options=hooks(post=[hook("look", "SELECT 1", mutates_source=False)]))
    )
    assert code_of(shop.execute("reads")) is None
    tidy = hook("tidy", "DELETE FROM orders", mutates_source=True)
    shop.written(flow(source__type="duckdb", source__options=hooks(pre=[MARK], post=[tidy])))
    refused_without_a_trace(shop, "source")


def test_hooks_with_a_task_of_their_own_ask_for_the_locks_they_take(shop: Project) -> None:
    tidy = hook("tidy", "DELETE FROM orders", mutates_source=True, execution={"airflow": "separate_task"})
    shop.written(flow(source__type="duckdb", source__options=hooks(pre=[MARK], post=[tidy])))
    for phase, code in (("pre_hook", None), ("post_hook", "DPONE_ENGINE_LOCK_NOT_WRITABLE")):
        finished = shop.dpone("hooks", "execute", "m.yaml", "--phase", phase, "--format", "json")
        assert (finished.exit_code, finished.document.get("code")) == (2 if code else 0, code)
    assert code_of(shop.execute("without it", separate_hooks="receipts")) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become an ordinary user")
def test_a_directory_of_another_user_is_known_before_the_first_hook(tmp_path: Path) -> None:
    directory = tmp_path / "read_only"
    directory.mkdir(mode=0o755)
    uri = f"duckdb:///{directory}/dwh"
    with subprocess.Popen(
        [sys.executable, "-c", ASK, uri],
        env=os.environ | {"PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate()
    assert said == "DPONE_ENGINE_LOCK_NOT_WRITABLE: Permission denied\n"
    assert list(directory.iterdir()) == []


ASK = """
import os, sys
from dpone_core.wiring.connectors import EngineLockError, require_sink_lock
from tests.connectors.sessions import connection
import dpone_core.connectors._sql.embedded
os.chmod(os.path.dirname(os.path.dirname(sys.argv[1].partition(":///")[2])), 0o755)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    require_sink_lock(connection(sys.argv[1]))
except EngineLockError as error:
    print(error.code, error.message.rpartition(": ")[2], sep=": ")
"""
