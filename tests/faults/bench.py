"""One process per run, forked from a parent that has imported everything and opened nothing.

Reads one JSON task per line and answers with the exit status of the forked process: `python -m tests.faults.bench`.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi  # noqa: F401 - imported before the forks, like the next one
import duckdb
import pyarrow.parquet as pq
import sqlglot  # noqa: F401

from dpone_core.cli.signals import SignalCancellation
from dpone_core.cli.step import write_receipt
from dpone_core.evidence.outcome import failure_facts
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.vocabulary import StepKind
from dpone_core.ports.runtime import Clock
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.use_cases.call import Call, RunProcessPorts
from dpone_core.use_cases.run import RunExecution, RunOptions, prepare_run
from dpone_core.use_cases.step_receipt import StepExit
from dpone_core.wiring.runtime import SystemClock
from tests.faults.fault_points import Fault, FaultKind, Moments, When, watched_files, watched_sessions

SINK_URI = {"duckdb": "duckdb:///{}/dwh.duckdb", "clickhouse": "chdb:///{}/house", "files": "file:///{}/lake"}
_STAGING = ("__dpone__stg", "__dpone__shadow", "__dpone__scratch")
_LOADS = ("run_id", "status")
_CURSOR = ("cursor_value",)
_CHECKPOINTS = ("run_id", "partition_index", "status", "rows_exported", "record_json")
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is there, read without dpone: ids and columns of the target, objects of dead loads, saved cursor, load
    statuses by run id.

    `partitions`: status, rows and guard phase of each partition of a native transfer, by run id, in plan order.
    """

    ids: list[int]
    columns: list[str]
    leftovers: list[str]
    cursor: str | None
    loads: dict[str, list[str]]
    partitions: dict[str, list[tuple[str, int | None, str | None]]]


def connections(root: Path, sink: str) -> dict[str, str]:
    return {"DPONE_CONN_SHOP": f"sqlite:///{root / 'shop.sqlite'}", "DPONE_CONN_DWH": SINK_URI[sink].format(root)}


def run(
    root: Path,
    sink: str,
    run_id: str,
    moments: Moments,
    clock: Clock | None = None,
    *,
    is_server: bool = False,
    uris: Mapping[str, str] | None = None,
    plan: str | None = None,
) -> int:
    """What `dpone run --run-id ... --format json --receipt-path ...` does, over watched ports.

    `is_server`: leases count as for an engine that several processes may use at once. `uris` are connections in place
    of those below `root`. `plan`: publishes the ranges of this plan, which other processes have staged.
    """
    variables = {**(uris or connections(root, sink)), "DPONE_EVIDENCE_DIR": str(root / "evidence")}
    clock = clock or SystemClock()
    cancellation = SignalCancellation()
    moments.wait_for_signal = cancellation.noted.wait
    started_at, error, execution = clock.utc_now(), None, None
    try:
        with cancellation.installed():
            arguments = RunArguments(run_id=run_id, transfer_plan=plan)
            options = RunOptions(arguments=arguments, partitions="inline" if plan is None else "staged")
            call = Call.of(options.arguments, variables, root, RunProcessPorts(cancellation=cancellation))
            manifest = load_manifest(root / "m.yaml", project_root=root)
            (process,) = prepare_run(call, manifest, options).process_runs()
            files = watched_files(LocalEvidenceFiles(root=root / "evidence"), moments)
            process = replace(process, runtime=replace(process.runtime, clock=clock, evidence=files))
            opener = process.prepared.session_opener()
            outcome = process.run(watched_sessions(opener, moments, is_server=is_server))
            execution = RunExecution(
                report=outcome.report, outcomes=(outcome,), invocation=call.invocation, refusal=None
            )
            (root / f"{run_id}.stdout").write_text(json.dumps(outcome.report.as_json()), encoding="utf-8")
            exit_code = outcome.report.exit_code
    except BaseException as caught:
        error = caught
        exit_code = failure_facts(caught).exit_code
    end = StepExit(
        kind=StepKind.LOAD,
        pack_fingerprint=None,
        env=os.environ,
        exit_code=exit_code,
        error=error,
        started_at=started_at,
        finished_at=clock.utc_now(),
    )
    write_receipt(str(root / f"{run_id}.receipt"), execution, end, Redactor())
    (root / f"{run_id}.calls").write_text("\n".join(moments.lines), encoding="utf-8")
    return exit_code


def seen(root: Path, sink: str) -> Seen:
    match sink:
        case "duckdb":
            return _seen_in_duckdb(root)
        case "clickhouse":
            return _seen_in_clickhouse(root)
        case _:
            return _seen_in_files(root)


def _seen_in_duckdb(root: Path) -> Seen:
    connection = duckdb.connect(str(root / "dwh.duckdb"))

    def rows(sql: str) -> Rows:
        return connection.execute(sql).fetchall()

    try:
        tables = {name for (name,) in rows("SELECT table_name FROM information_schema.tables")}
        described = "SELECT column_name FROM (DESCRIBE raw.orders)"
        return _seen_in_tables(rows, described, lambda table, columns: rows(_select(table, columns)), tables)
    finally:
        connection.close()


def _seen_in_clickhouse(root: Path) -> Seen:
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=str(root / "house"))

    def rows(sql: str) -> Rows:
        return [tuple(row) for row in client.query(sql).result_rows]

    try:
        tables = {name for (name,) in rows("SELECT name FROM system.tables")}
        described = "SELECT name FROM system.columns WHERE database = 'raw' AND table = 'orders' ORDER BY position"
        return _seen_in_tables(rows, described, lambda table, columns: rows(f"{_select(table, columns)} FINAL"), tables)
    finally:
        client.close()


def _select(table: str, columns: tuple[str, ...]) -> str:
    return f"SELECT {', '.join(columns)} FROM etl_state.{table}"


def _seen_in_tables(
    rows: Callable[[str], Rows], described: str, control: Callable[[str, tuple[str, ...]], Rows], tables: set[str]
) -> Seen:
    """`rows` answers a statement, `described` is the one that lists the target's columns, `control` reads the newest
    rows of a control table."""
    return _seen(
        ids=rows("SELECT id FROM raw.orders"),
        columns=[name for (name,) in rows(described)],
        leftovers=[name for name in tables if name.startswith(_STAGING)],
        control=lambda table, columns: control(table, columns) if table in {*tables, "__dpone__loads"} else [],
    )


def _seen_in_files(root: Path) -> Seen:
    target = root / "lake/raw/orders"
    keys = {
        "__dpone__cursor_state": ("state_key",),
        "__dpone__loads": ("load_id",),
        "__dpone__transfer_checkpoints": ("run_id", "partition_index"),
    }

    def control(table: str, columns: tuple[str, ...]) -> Rows:
        rows = _newest(root / "lake/etl_state" / f"{table}.jsonl", keys[table])
        return [tuple(row[name] for name in columns) for row in rows]

    description = target / "_dpone_target.json"
    return _seen(
        columns=[column["name"] for column in json.loads(description.read_text("utf-8"))["columns"]],
        ids=[(row["id"],) for part in target.glob("part-*") for row in pq.read_table(part).to_pylist()],
        leftovers=[Path(path).name[1:] for path in glob.glob(str(target / ".__dpone__*"))],
        control=control,
    )


def _newest(path: Path, key: tuple[str, ...]) -> list[dict[str, Any]]:
    """The newest row of every key."""
    if not path.is_file():
        return []
    rows = [line["row"] for line in map(json.loads, path.read_text("ascii").splitlines()) if "row" in line]
    return list({tuple(row[name] for name in key): row for row in rows}.values())


def _seen(ids: Rows, columns: list[str], leftovers: list[str], control: Callable[[str, tuple[str, ...]], Rows]) -> Seen:
    cursors = control("__dpone__cursor_state", _CURSOR)
    assert len(cursors) <= 1
    loads: dict[str, list[str]] = {}
    for run_id, status in control("__dpone__loads", _LOADS):
        loads.setdefault(run_id, []).append(status)
    partitions: dict[str, list[tuple[str, int | None, str | None]]] = {}
    checkpoints = control("__dpone__transfer_checkpoints", _CHECKPOINTS)
    for run_id, _, status, exported, record in sorted(checkpoints, key=lambda row: (row[0], row[1])):
        guard = json.loads(record)["diagnostics"].get("target_commit_guard")
        partitions.setdefault(run_id, []).append((status, exported, guard and guard["phase"]))
    return Seen(
        ids=sorted(row[0] for row in ids),
        columns=columns,
        leftovers=sorted(leftovers),
        cursor=cursors[0][0] if cursors else None,
        loads=loads,
        partitions=partitions,
    )


def work(task: dict[str, Any]) -> int:
    """`fault` given: one run that meets it. Without run id: only look. Otherwise: run, then look."""
    root, sink, run_id, fault = Path(task["root"]), task["sink"], task["run_id"], task.get("fault")
    os.chdir(root)
    if fault is not None:
        kinds = {"when": When(fault["when"]), "kind": FaultKind(fault["kind"])}
        return run(root, sink, run_id, Moments(Fault(**{**fault, **kinds})))
    exit_code = 0 if run_id is None else run(root, sink, run_id, Moments(None))
    (root / "seen.json").write_text(json.dumps(asdict(seen(root, sink))), encoding="utf-8")
    return exit_code


def main() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 99
            try:
                with open(Path(task["root"]) / "stderr", "ab") as stderr:
                    os.dup2(stderr.fileno(), 2)
                    os.dup2(stderr.fileno(), 1)
                status = work(task)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
