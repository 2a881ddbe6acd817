"""A ClickHouse answer that says "unknown status" is neither taken for success nor repeated blindly.

Wire-tested against an HTTP endpoint over chDB; not a server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.testing.builders import orders, stage_request
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import clickhouse_sink

DOUBLE = Path(__file__).with_name("clickhouse_http_double.py")
UNKNOWN_STATUS = 319


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = str(tmp_path_factory.mktemp("served") / "data")
    with subprocess.Popen([sys.executable, str(DOUBLE), directory], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def sink(port: int) -> Iterator[OpenSink]:
    with clickhouse_sink(f"clickhouse://default:s3cret@127.0.0.1:{port}/default") as opened:
        yield opened


def faults(port: int, *planned: dict[str, object]) -> None:
    body = json.dumps(planned).encode()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/_faults", data=body, timeout=10).read()


@pytest.mark.parametrize("happened", ["before", "after"])
def test_an_unknown_status_of_the_commit_is_settled_by_looking_at_the_target(
    sink: OpenSink, port: int, happened: str
) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
    faults(port, {"match": "^EXCHANGE", "stage": happened, "code": UNKNOWN_STATUS, "times": 1})
    if happened == "after":
        sink.ports.staged.finalize(handle)
        assert sink.ids(table) == [2]
    else:
        with pytest.raises(ConnectorError) as raised:
            sink.ports.staged.finalize(handle)
        assert raised.value.code == "finaliser_refused"
        assert sink.ids(table) == [1]
    sink.ports.staged.cleanup(handle.ref)


def test_an_unknown_status_of_an_insert_fails_the_load_and_sends_no_row_twice(sink: OpenSink, port: int) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    faults(port, {"match": "^INSERT INTO .*stg_", "stage": "after", "code": UNKNOWN_STATUS, "times": 1})
    with pytest.raises(ConnectorError):
        sink.ports.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
    faults(port)
    assert sink.ids(table) == [1]
    assert sink.ports.target.leftovers(table, None) == ()
