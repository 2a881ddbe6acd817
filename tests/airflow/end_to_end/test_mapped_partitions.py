"""Key ranges as mapped Airflow tasks: plan -> one pod for each range -> one publish, every row once, judged by index.

Real Airflow, real KubernetesPodOperators, real dpone in every pod, PostgreSQL into PostgreSQL and into ClickHouse over
HTTP. Contract: NAT-56, NAT-57.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.volumes import Mount
from tests.airflow.airflow_environment import CHECKOUT, AirflowEnvironment
from tests.live.servers import scratch_postgres

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
RUN_SCENARIOS = HERE.parent / "provider" / "run_scenarios.py"
DOUBLE = CHECKOUT / "tests" / "connectors" / "clickhouse_http_double.py"
BIN = Path(os.environ.get("DPONE_TEST_POD_BIN") or Path(sys.executable).parent)
STAGED, LOAD, GATE = "transfer_partition", "dpone_run_orders", "outcome_gate"
ROWS, NULL_KEYS, KILLED, LOST = 1700, 20, 1, 1

MANIFEST = """kind: dpone.flow.v1
name: orders
source:
  type: postgres
  connection_ref: shop
  table: {{schema: {schema}, name: orders}}
  options:
    hooks:
      pre_hook:
        - id: analyze
          kind: source_maintenance
          type: sql
          connector: source
          sql: ANALYZE {schema}.orders
          execution: {{airflow: separate_task}}
    partitioning: {{column: number, num_partitions: {ranges}, workers: 4, airflow: mapped}}
sink:
  type: {sink}
  connection_ref: warehouse
  table: {{schema: {target}, name: orders}}
  strategy: {{mode: full_refresh}}
quality:
  gates:
    - {{type: row_count_reconciliation}}
    - {{type: min_rows, threshold: {rows}}}
"""
PLATFORM = """kind: dpone.platform.v1
image: "registry.example/dpone@sha256:{digest}"
connections:
  shop: {{secret: {secret}, key: shop}}
  warehouse: {{secret: {secret}, key: warehouse}}
defaults:
  namespace: default
  startup_check_interval_seconds: 1
  retry_delay_seconds: 1
  poll_interval_seconds: 1
  deferrable: {deferrable}
  local_pod_runner: true
  bundle_root: /opt/dpone/{scenario}
"""
COMMAND = """#!/bin/sh
case "$DPONE_DAG_ID.$DPONE_STEP_ID.$DPONE_MAP_INDEX.$DPONE_TRY_NUMBER" in
  *killed*.transfer_partition.{killed}.1)
    exec {python} {killer} "$DPONE_CONN_SHOP" "$DPONE_DAG_ID.orders" {dpone} "$@" ;;
  *lost*.transfer_partition.{lost}.*)
    {dpone} "$@"; code=$?; rm /airflow/xcom/return.json; : > /dev/termination-log; exit $code ;;
  *) exec {dpone} "$@" ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One process with a source schema and a target of its own; its name says what becomes of one partition."""

    name: str
    ranges: int
    sink: str = "postgres"
    deferrable: bool = False

    @property
    def secret(self) -> str:
        return self.name.replace("_", "-")

    def fill(self, uri: str) -> None:
        with psycopg.connect(uri) as database:
            database.execute(f"CREATE SCHEMA {self.name}")
            database.execute(f"CREATE TABLE {self.name}.orders (id bigint PRIMARY KEY, number integer, note text)")
            database.execute(
                f"INSERT INTO {self.name}.orders SELECT n, CASE WHEN n > {NULL_KEYS} THEN n END, 'order ' || n"
                f" FROM generate_series(1, {ROWS}) AS n"
            )

    def compile(self, root: Path) -> None:
        bundle = root / self.name
        bundle.mkdir()
        (bundle / "dpone.yaml").write_text("# root\n")
        manifest = MANIFEST.format(
            schema=self.name, ranges=self.ranges, sink=self.sink, target=f"{self.name}_raw", rows=ROWS
        )
        (bundle / "orders.yaml").write_text(manifest)
        platform = PLATFORM.format(
            digest="0" * 64, secret=self.secret, scenario=self.name, deferrable=str(self.deferrable).lower()
        )
        (bundle / "platform.yaml").write_text(platform)
        pack = ("--pack", "orders.pack.json", "--platform", "platform.yaml")
        spec = str(root / f"{self.name}.run_spec.json")
        for arguments in (
            ("gitops", "pack", "orders.yaml", "--output", "orders.pack.json"),
            ("gitops", "airflow", "run-spec", "orders.yaml", *pack, "--output", spec),
        ):
            done = subprocess.run([BIN / "dpone", *arguments], cwd=bundle, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    results: dict[str, Any]
    output: str
    pods_left: int
    loaded: dict[str, list[tuple[int, int | None]]]

    def states(self, scenario: str) -> dict[str, str]:
        return {name: task["state"] for name, task in self.results[scenario]["tasks"].items()}

    def receipt(self, scenario: str, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.results[scenario]["tasks"][task]["xcom"]["return_value"]
        return found

    def tries(self, scenario: str) -> list[int]:
        tasks = self.results[scenario]["tasks"]
        count = sum(name.startswith(f"{STAGED}[") for name in tasks)
        return [tasks[f"{STAGED}[{index}]"]["try_number"] for index in range(count)]


@contextmanager
def clickhouse(root: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, DOUBLE, str(root / "clickhouse")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def executed(airflow: AirflowEnvironment, root: Path, scenarios: tuple[Scenario, ...]) -> Ran:
    """Runs the scenarios one after another in one Airflow process against one local pod runner."""
    commands = root / "commands"
    commands.mkdir()
    command = commands / "dpone"
    killer = HERE / "killed_while_reading.py"
    command.write_text(
        COMMAND.format(killed=KILLED, lost=LOST, python=BIN / "python", killer=killer, dpone=BIN / "dpone")
    )
    command.chmod(0o755)
    dag_file = airflow.dags_folder / "mapped_partitions.py"
    result = root / "result.json"
    with scratch_postgres() as uri, clickhouse(root) as port:
        sinks = {"postgres": uri, "clickhouse": f"clickhouse://127.0.0.1:{port}/default"}
        for scenario in scenarios:
            scenario.fill(uri)
            scenario.compile(root)
        dag_file.write_text((HERE / "dags.py").read_text(encoding="utf-8"), encoding="utf-8")
        secrets = {one.secret: {"shop": uri, "warehouse": sinks[one.sink]} for one in scenarios}
        with LocalPodRunner(
            root=root / "pods",
            fixtures=Fixtures(secrets=secrets),
            search_path=(commands,),
            bundles=tuple(
                Mount(source=root / one.name, target=f"/opt/dpone/{one.name}", read_only=True) for one in scenarios
            ),
        ) as runner:
            output = airflow.run_script(
                RUN_SCENARIOS,
                str(dag_file),
                str(result),
                variables={
                    "KUBECONFIG": str(runner.kubeconfig_path),
                    "SCENARIOS": ",".join(one.name for one in scenarios),
                    "SCENARIO_ROOT": str(root),
                },
                timeout_seconds=800,
            )
            pods_left = len(runner.state()["pods"])
        loaded = {one.name: held(one, uri, port) for one in scenarios}
    dag_file.unlink()
    return Ran(results=json.loads(result.read_text("utf-8")), output=output, pods_left=pods_left, loaded=loaded)


def held(scenario: Scenario, uri: str, port: int) -> list[tuple[int, int | None]]:
    """Id and key of every row of the target; none where it does not exist."""
    select = f"SELECT id, number FROM {scenario.name}_raw.orders ORDER BY id"
    if scenario.sink == "clickhouse":
        url = f"http://127.0.0.1:{port}/"
        request = urllib.request.Request(url, data=f"{select} FORMAT JSONCompactEachRow".encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [(int(row[0]), row[1]) for row in map(json.loads, answer.read().splitlines())]
    with psycopg.connect(uri) as database:
        if database.execute("SELECT to_regclass(%s)", (f"{scenario.name}_raw.orders",)).fetchone() == (None,):
            return []
        return [(row[0], row[1]) for row in database.execute(select).fetchall()]


WHOLE = [(number, number if number > NULL_KEYS else None) for number in range(1, ROWS + 1)]


def assert_every_row_was_read_once_and_published(ran: Ran, name: str, partitions: int) -> None:
    states = ran.states(name)
    assert set(states.values()) == {"success"}, states
    verdict = ran.receipt(name, GATE)
    assert (verdict["passed"], verdict["partitions"], verdict["partitions_passed"]) == (True, partitions, partitions)
    receipts = [ran.receipt(name, f"{STAGED}[{index}]") for index in range(partitions)]
    assert [one["map_index"] for one in receipts] == list(range(partitions))
    assert receipts[0]["extracted_rows"] == NULL_KEYS
    assert sum(one["extracted_rows"] for one in receipts) == ROWS
    assert [one["staged_rows"] for one in receipts] == [one["extracted_rows"] for one in receipts]
    load = ran.receipt(name, LOAD)
    assert {one["transfer_plan"] for one in (*receipts, load)} == {ran.receipt(name, "transfer_plan")["transfer_plan"]}
    assert (load["final_rows"], load["gates_failed"], load["partitions"]) == (ROWS, 0, partitions)
    assert ran.loaded[name] == WHOLE


def assert_only_the_killed_partition_was_repeated(ran: Ran, name: str) -> None:
    tries = ran.tries(name)
    assert tries == [2 if index == KILLED else 1 for index in range(len(tries))]


SMALL = Scenario(name="few_killed", ranges=1)
FULL = (
    Scenario(name="postgres_killed", ranges=16),
    Scenario(name="clickhouse_killed", ranges=16, sink="clickhouse"),
    Scenario(name="postgres_lost", ranges=3),
    Scenario(name="deferred_killed", ranges=3, deferrable=True),
)


@pytest.fixture(scope="module")
def few(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return executed(airflow_environment, tmp_path_factory.mktemp("few"), (SMALL,))


@pytest.fixture(scope="module")
def full(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return executed(airflow_environment, tmp_path_factory.mktemp("full"), FULL)


@pytest.mark.slow
def test_a_range_and_the_null_keys_one_of_them_killed_while_it_reads(few: Ran) -> None:
    assert_every_row_was_read_once_and_published(few, SMALL.name, 2)
    assert_only_the_killed_partition_was_repeated(few, SMALL.name)
    assert few.pods_left == 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [one for one in FULL if "killed" in one.name], ids=lambda one: one.name)
def test_every_range_is_a_pod_and_a_killed_one_is_read_again_alone(full: Ran, scenario: Scenario) -> None:
    assert_every_row_was_read_once_and_published(full, scenario.name, scenario.ranges + 1)
    assert_only_the_killed_partition_was_repeated(full, scenario.name)


@pytest.mark.slow
def test_a_partition_without_receipt_is_named_and_nothing_is_published(full: Ran) -> None:
    states = full.states("postgres_lost")
    assert [states[f"{STAGED}[{index}]"] for index in range(4)] == ["success", "failed", "success", "success"]
    assert (states[LOAD], states[GATE]) == ("upstream_failed", "failed")
    verdict = full.receipt("postgres_lost", GATE)
    assert (verdict["primary_step"], verdict["primary_code"]) == (f"{STAGED}[{LOST}]", "DPONE_RECEIPT_REQUIRED")
    assert (verdict["partitions_passed"], verdict["retry_classification"]) == (3, "retry_before_target_mutation")
    assert full.loaded["postgres_lost"] == []


@pytest.mark.slow
def test_no_pod_is_left(full: Ran) -> None:
    assert full.pods_left == 0
