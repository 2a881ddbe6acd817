"""A driver that prints its DSN, or dies with the password in a local variable, makes dpone print neither."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.spec.builders import Project, flow

CANARY = "c4n4ry-p4ssw0rd"
TALKATIVE = """
import clickhouse_connect
def get_client(*args, **kwargs):
    password = {password!r}
    raise {error}(f"cannot connect to clickhouse://loader:{{password}}@db.example:8123/raw, given {{kwargs}}")
clickhouse_connect.get_client = get_client
from dpone_core.cli.main import entry_point
entry_point()
"""


@pytest.mark.parametrize("error", ["RuntimeError", "ConnectionError", "KeyError", "AssertionError"])
def test_a_driver_that_raises_its_dsn_leaves_no_byte_of_the_password(tmp_path: Path, error: str) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_HOUSE": f"clickhouse://loader:{CANARY}@127.0.0.1:1/raw"})
    project.orders()
    project.written(flow(sink__type="clickhouse", sink__connection_ref="house"))
    launcher = (sys.executable, "-c", TALKATIVE.format(password=CANARY, error=error))
    environment = {"DPONE_LOG_LEVEL": "DEBUG", "DPONE_TERMINATION_LOG": str(tmp_path / "termination-log")}
    (tmp_path / "termination-log").touch()
    receipt = ("--receipt-path", str(tmp_path / "receipt.json"))
    finished = project.dpone(
        *("run", "m.yaml", "--format", "json"), *receipt, environment=environment, launcher=launcher
    )
    assert (finished.exit_code, finished.code) == (1, "sink_unreachable")
    assert finished.result["failure_context"]["target_state"] == "not_mutated"
    assert "Traceback" not in finished.stdout + finished.stderr
    emitted = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    emitted += [finished.stdout.encode(), finished.stderr.encode()]
    assert (tmp_path / "receipt.json").is_file()
    assert all(CANARY.encode() not in content for content in emitted)
