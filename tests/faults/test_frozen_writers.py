"""A writer is stopped past its lease, a rival loads, the writer goes on: its late commit is refused, and rows are once.

Real processes and signals. PostgreSQL is a server, ClickHouse an HTTP endpoint over chDB, SQL Server a double of its
protocol. DuckDB and files are one process's: there the rival is refused, for as long as the writer is stopped.
Contract: STATE-27, STATE-28, STATE-29.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from dpone_core.model.connector import ConnectorType
from dpone_core.ports.control import ControlTables
from dpone_core.state.lease import lease_table
from dpone_core.wiring.connectors import SinkLock, open_sink
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import connection
from tests.connectors.test_clickhouse_lost_answers import Faults, faults
from tests.faults.bench import connections, seen
from tests.faults.load_matrix import manifest
from tests.live.servers import scratch_postgres
from tests.spec.builders import CHECKOUT, Finished, Project, append_flow, flow
from tests.spec.native_transfer.fan_out_process import ROWS, RUN, FanOut
from tests.spec.native_transfer.test_stalled_processes import fan_out, uri

__all__ = ("fan_out", "faults", "uri")

BENCH = """
import json, os, sys
from pathlib import Path
from tests.faults.bench import run
from tests.faults.fault_points import Fault, FaultKind, Moments, When
root, sink, run_id, uris, call, when, occurrence, plan = sys.argv[1:]
fault = Fault(call=call, when=When(when), kind=FaultKind.SIGSTOP, occurrence=int(occurrence))
os.chdir(root)
sys.exit(run(Path(root), sink, run_id, Moments(fault), uris=json.loads(uris), plan=plan or None))
"""
PATIENCE_SECONDS = 180
LATE = ((1, "a", 10), (2, "b", 20), (3, "c", 30))
NEW = (4, "d", 40)
Rows = list[tuple[int, str, int]]


@dataclass(slots=True)
class Server:
    """One sink: its URI, and how its target is read without dpone."""

    kind: ConnectorType
    uri: str
    schema: str = "raw"
    state: str = "etl_state"
    lock: SinkLock = field(default_factory=lambda: SinkLock(timeout_seconds=20, holder="test"))

    @contextmanager
    def control(self) -> Iterator[ControlTables]:
        with open_sink(self.kind, connection(self.uri), self.lock) as ports:
            assert ports.control is not None
            yield ports.control

    def leases(self) -> list[Mapping[str, Any]]:
        with self.control() as control:
            return [dict(row) for row in control.read(lease_table(self.state), {})]

    def end_leases(self) -> None:
        """What time does."""
        with self.control() as control:
            for row in control.read(lease_table(self.state), {}):
                ended = {**row, "expires_at": datetime(2026, 1, 1, tzinfo=UTC)}
                key = {"lease_key": row["lease_key"]}
                assert control.compare_and_set(lease_table(self.state), key, {"owner": row["owner"]}, ended)

    def ids(self) -> list[int]:
        rows = self.rows()
        return sorted(int(row[0]) for row in rows)

    def rows(self, columns: str = "id, name, updated_at") -> list[tuple[Any, ...]]:
        sql = f"SELECT {columns} FROM {self.schema}.orders"
        match self.kind:
            case ConnectorType.POSTGRES:
                import psycopg

                with psycopg.connect(self.uri) as connection:
                    return connection.execute(sql).fetchall()
            case ConnectorType.CLICKHOUSE:
                import urllib.request

                port = self.uri.rpartition(":")[2].partition("/")[0]
                body = f"{sql} FORMAT JSONCompact".encode()
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=body, timeout=30).read()
                return [tuple(row) for row in json.loads(answer)["data"]]
            case _:
                raise NotImplementedError


@dataclass(slots=True)
class Writer:
    """A project of one sink, and `dpone run` in processes of their own."""

    project: Project
    server: Server
    stopped: list[subprocess.Popen[str]] = field(default_factory=list)

    def uris(self) -> dict[str, str]:
        return {"DPONE_CONN_SHOP": self.project.environment["DPONE_CONN_SHOP"], "DPONE_CONN_DWH": self.server.uri}

    def freeze(
        self, call: str, when: str, run_id: str = "late", occurrence: int = 1, plan: str = ""
    ) -> subprocess.Popen[str]:
        """Starts a run that stops itself at a call; returns when it has. One with a `plan` publishes its ranges."""
        arguments = (str(self.project.root), str(self.server.kind), run_id, json.dumps(self.uris()), call, when)
        process = subprocess.Popen(
            [sys.executable, "-c", BENCH, *arguments, str(occurrence), plan],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.stopped.append(process)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.communicate()[0]
        return process

    def wake(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Lets it go on to its end; returns the result it reports."""
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        run_id = process.args[5]  # type: ignore[index]
        report = self.project.root / f"{run_id}.stdout"
        assert report.is_file(), output
        result: dict[str, Any] = json.loads(report.read_text("utf-8"))["result"]
        return result

    def rival(self, run_id: str = "rival") -> Finished:
        return self.project.run("--run-id", run_id)


Make = Callable[..., Writer]


@pytest.fixture
def writers() -> Iterator[list[Writer]]:
    made: list[Writer] = []
    yield made
    for writer in made:
        for process in writer.stopped:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture(params=["postgres", "clickhouse", "mssql"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    match request.param:
        case "postgres":
            with scratch_postgres() as uri:
                yield Server(ConnectorType.POSTGRES, uri)
        case "clickhouse":
            faults: Faults = request.getfixturevalue("faults")
            own = f"s{uuid4().hex[:8]}"
            uri = f"clickhouse://127.0.0.1:{faults.port}/default"
            yield Server(ConnectorType.CLICKHOUSE, uri, schema=own, state=f"{own}_state")
        case _:
            with mssql_server() as double:
                yield MssqlTarget(ConnectorType.MSSQL, double.uri, run=double.run)


@dataclass(slots=True)
class MssqlTarget(Server):
    run: Callable[..., list[tuple[Any, ...]]] = lambda *batches: []

    def rows(self, columns: str = "id, name, updated_at") -> list[tuple[Any, ...]]:
        return self.run(f"SELECT {columns} FROM raw.orders")


@pytest.fixture
def make(tmp_path: Path, server: Server, writers: list[Writer]) -> Make:
    def made(strategy: str, **changes: object) -> Writer:
        project = Project(tmp_path, environment={"DPONE_CONN_DWH": server.uri})
        project.orders(LATE)
        options: dict[str, object] = {"mode": strategy}
        if strategy == "incremental_merge":
            options["unique_key"] = ["id"]
            project.source("DROP TABLE orders")
            project.source("CREATE TABLE orders (id INTEGER NOT NULL, name TEXT, updated_at INTEGER NOT NULL)")
            project.add_orders(*LATE)
        if strategy == "partition_replace":
            changes = {"sink__options__physical_design": {"partition_by": {"column": "id"}}, **changes}
        fields = {
            "sink__type": str(server.kind),
            "sink__strategy": options,
            "sink__table": {"schema": server.schema, "name": "orders"},
            "sink__options__load_governance": {"enabled": True, "audit": {"state_schema": server.state}},
            **changes,
        }
        has_cursor = strategy in ("incremental_append", "incremental_merge")
        project.written(append_flow(**fields) if has_cursor else flow(**fields))
        writers.append(Writer(project, server))
        return writers[-1]

    return made


def assert_refused(late: Mapping[str, Any]) -> None:
    assert late["error_code"] == "load_in_progress", late
    context = late["failure_context"]
    assert (context["target_state"], context["source_state"]) == ("not_mutated", "not_advanced")
    assert context["retry_classification"] == "retry_before_target_mutation"


STRATEGIES = [
    "incremental_append",
    *(
        pytest.param(each, marks=pytest.mark.slow)
        for each in ("full_refresh", "incremental_merge", "partition_replace")
    ),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_writer_that_was_stopped_past_its_lease_commits_nothing_behind_its_successor(
    make: Make, server: Server, strategy: str
) -> None:
    """The newest cursor value of an append waits for the next run; a merge reads it again by its key."""
    writer = make(strategy)
    late = writer.freeze("staged.finalize", "before")
    writer.project.add_orders(NEW)
    server.end_leases()
    rival = writer.rival()
    assert rival.exit_code == 0, rival.stdout
    rows = [1, 2, 3] if strategy == "incremental_append" else [1, 2, 3, 4]
    assert server.ids() == rows
    assert_refused(writer.wake(late))
    assert server.ids() == rows and server.leases() == []


RANGES = {"column": "id", "num_partitions": 2, "workers": 1}


def of_ranges(make: Make, strategy: str) -> Writer:
    """A writer that loads in key ranges; its first load is done, and its source has news since."""
    incremental = {"incremental": {"cursor_column": "updated_at"}} if strategy == "incremental_append" else {}
    writer = make(strategy, source__options={"partitioning": RANGES, **incremental})
    first = writer.rival("first")
    assert first.exit_code == 0, first.stdout
    writer.project.add_orders(NEW, (5, "e", 50))
    return writer


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["incremental_append", "full_refresh"])
def test_a_writer_of_key_ranges_that_was_stopped_before_it_published_is_refused_behind_its_successor(
    make: Make, server: Server, strategy: str
) -> None:
    """Nothing of it was armed, so another run may load; what comes late publishes no range."""
    writer = of_ranges(make, strategy)
    late = writer.freeze("checkpoint exported", "before")
    server.end_leases()
    rival = writer.rival()
    assert rival.exit_code == 0, rival.stdout
    rows = [1, 2, 3, 4] if strategy == "incremental_append" else [1, 2, 3, 4, 5]
    assert server.ids() == rows
    assert_refused(writer.wake(late))
    assert server.ids() == rows and server.leases() == []


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["incremental_append", "full_refresh"])
def test_a_writer_of_key_ranges_that_was_stopped_at_its_publication_keeps_others_out_and_publishes_nothing_late(
    make: Make, server: Server, strategy: str
) -> None:
    """Its guard is armed: whoever comes must ask, and it has lost its lease itself."""
    writer = of_ranges(make, strategy)
    late = writer.freeze("staged.finalize", "before")
    before = server.ids()
    server.end_leases()
    rival = writer.rival()
    assert (rival.exit_code, rival.code) == (1, "native_transfer_manual_reconciliation_required"), rival.stdout
    woken = writer.wake(late)
    assert woken["status"] != "success" and woken["failure_context"]["source_state"] == "not_advanced"
    assert server.ids() == before


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("load_steps quality_checked succeeded", None),
        ("staged.finalize", "native_transfer_manual_reconciliation_required"),
    ],
    ids=["before_its_guard", "behind_its_guard"],
)
def test_a_publication_of_mapped_ranges_that_was_stopped_publishes_nothing_behind_its_successor(
    fan_out: FanOut, writers: list[Writer], call: str, refusal: str | None
) -> None:
    """As long as no guard is armed another run may load; then another is refused until the first has gone on."""
    uri = fan_out.project.environment["DPONE_CONN_DWH"]
    server = Server(ConnectorType(urlsplit(uri).scheme.replace("postgresql", "postgres")), uri)
    writers.append(Writer(fan_out.project, server))
    late = writers[-1].freeze(call, "before", RUN, plan=fan_out.staged())
    server.end_leases()
    rival = fan_out.plan("rival")
    if refusal is not None:
        assert getattr(rival.error, "code", None) == refusal
        assert writers[-1].wake(late)["status"] == "success", "nobody took its place: it goes on where it stood"
        assert len(server.rows("v")) == ROWS + 1
        return
    published = fan_out.publish(fan_out.staged("rival"), "rival")
    assert published.error is None
    count = len(server.rows("v"))
    assert_refused(writers[-1].wake(late))
    assert len(server.rows("v")) == count == ROWS + 1


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["incremental_append"])
def test_a_writer_that_was_stopped_behind_its_commit_is_found_there(make: Make, server: Server, strategy: str) -> None:
    """The rows are in the target: the rival does not load them again, and the writer says that they are there."""
    writer = make(strategy)
    late = writer.freeze("staged.finalize", "after")
    server.end_leases()
    rival = writer.rival()
    assert (rival.exit_code, rival.code) == (1, "load_already_committed"), (server.ids(), rival.stdout)
    assert writer.wake(late)["status"] == "success"
    assert server.ids() == [1, 2]
    writer.project.add_orders(NEW)
    assert writer.rival("next").exit_code == 0 and server.ids() == [1, 2, 3]


@pytest.mark.parametrize("sink", ["duckdb", "files"])
def test_a_stopped_writer_of_an_engine_of_one_process_keeps_its_rival_out(
    tmp_path: Path, writers: list[Writer], sink: str
) -> None:
    """Its lock ends with the process and not with time, so its commit is never late."""
    project = Project(tmp_path, environment=connections(tmp_path, sink))
    project.orders(LATE)
    project.source("CREATE TABLE log (what INTEGER)")
    project.written(manifest(sink))
    server = Server(ConnectorType(sink), connections(tmp_path, sink)["DPONE_CONN_DWH"])
    writers.append(Writer(project, server))
    late = writers[-1].freeze("staged.finalize" if sink == "duckdb" else "commit_intents", "before")
    rival = writers[-1].rival()
    assert rival.exit_code == 1 and rival.code == "load_in_progress"
    assert writers[-1].wake(late)["status"] == "success"
    assert seen(tmp_path, sink).ids == [1, 2]
