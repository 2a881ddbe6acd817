"""Like `tests.faults.bench`, for native transfers: one process per run, forked from a parent that opened nothing.

Reads one JSON task per line and answers with the exit status of the forked process.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi  # noqa: F401 - imported before the forks, like the next ones
import duckdb
import sqlglot  # noqa: F401

from dpone_core.cli.signals import SignalCancellation
from dpone_core.cli.step import write_receipt
from dpone_core.evidence.outcome import failure_facts
from dpone_core.invocation import RunArguments
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.vocabulary import StepKind
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.use_cases.call import Call, RunProcessPorts
from dpone_core.use_cases.run import RunExecution, RunOptions, prepare_run
from dpone_core.use_cases.step_receipt import StepExit
from dpone_core.wiring.runtime import SystemClock
from tests.faults.bench import connections
from tests.faults.bench import seen as seen_in_bench
from tests.faults.fault_points import Fault, FaultKind, Moments, When
from tests.faults.native_fault_points import watched_native_files, watched_native_sessions

_CHECKPOINTS = (
    "SELECT run_id, partition_index, status, rows_exported, record_json FROM etl_state.__dpone__transfer_checkpoints"
)
_CURSOR = "SELECT cursor_value FROM etl_state.__dpone__cursor_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTransfer:
    """Read without dpone. `partitions`: status, rows and guard phase of each partition, by run id, in plan order."""

    ids: list[int]
    leftovers: list[str]
    cursor: str | None
    partitions: dict[str, list[tuple[str, int | None, str | None]]]


def run(root: Path, sink: str, run_id: str, moments: Moments) -> int:
    """What `dpone run --run-id ... --format json --receipt-path ...` does, over watched ports."""
    variables = {**connections(root, sink), "DPONE_EVIDENCE_DIR": str(root / "evidence")}
    clock, cancellation = SystemClock(), SignalCancellation()
    started_at, error, execution = clock.utc_now(), None, None
    try:
        with cancellation.installed():
            options = RunOptions(arguments=RunArguments(run_id=run_id))
            call = Call.of(options.arguments, variables, root, RunProcessPorts(cancellation=cancellation))
            manifest = load_manifest(root / "m.yaml", project_root=root)
            (process,) = prepare_run(call, manifest, options).process_runs()
            files = watched_native_files(LocalEvidenceFiles(root=root / "evidence"), moments)
            process = replace(process, runtime=replace(process.runtime, clock=clock, evidence=files))
            opener = process.prepared.session_opener()
            outcome = process.run(watched_native_sessions(opener, moments))
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
    write_receipt(str(root / f"{run_id}.receipt"), execution, end)
    (root / f"{run_id}.calls").write_text("\n".join(moments.lines), encoding="utf-8")
    return exit_code


def seen(root: Path, sink: str) -> SeenTransfer:
    if sink == "duckdb":
        connection = duckdb.connect(str(root / "dwh.duckdb"))
        try:
            names = "SELECT table_name FROM information_schema.tables"
            tables = {row[0] for row in connection.execute(names).fetchall()}
            return _seen(lambda sql: connection.execute(sql).fetchall(), tables)
        finally:
            connection.close()
    if sink == "files":
        return _seen_in_files(root)
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=str(root / "house"))
    try:
        tables = {row[0] for row in client.query("SELECT name FROM system.tables").result_rows}
        return _seen(lambda sql: client.query(f"{sql} FINAL" if "etl_state" in sql else sql).result_rows, tables)
    finally:
        client.close()


def _seen_in_files(root: Path) -> SeenTransfer:
    found, control = seen_in_bench(root, "files"), root / "lake/etl_state/__dpone__transfer_checkpoints.jsonl"
    lines = [json.loads(line) for line in control.read_text("ascii").splitlines()] if control.is_file() else []
    newest = {(line["row"]["run_id"], line["row"]["partition_index"]): line["row"] for line in lines if "row" in line}
    columns = ("run_id", "partition_index", "status", "rows_exported", "record_json")
    return SeenTransfer(
        ids=found.ids,
        leftovers=found.leftovers,
        cursor=found.cursor,
        partitions=_partitions([tuple(row[name] for name in columns) for row in newest.values()]),
    )


def _partitions(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[tuple[str, int | None, str | None]]]:
    partitions: dict[str, list[tuple[str, int | None, str | None]]] = {}
    for run_id, _, status, exported, record in sorted(rows, key=lambda row: (row[0], row[1])):
        guard = json.loads(record)["diagnostics"].get("target_commit_guard")
        partitions.setdefault(run_id, []).append((status, exported, guard and guard["phase"]))
    return partitions


def _seen(rows: Any, tables: set[str]) -> SeenTransfer:
    cursors = rows(_CURSOR) if "__dpone__cursor_state" in tables else []
    prefixes = ("__dpone__stg", "__dpone__shadow", "__dpone__scratch")
    return SeenTransfer(
        ids=sorted(row[0] for row in rows("SELECT id FROM raw.orders")),
        leftovers=sorted(name for name in tables if name.startswith(prefixes)),
        cursor=cursors[0][0] if cursors else None,
        partitions=_partitions(rows(_CHECKPOINTS)),
    )


def work(task: dict[str, Any]) -> int:
    """`fault` given: a run that meets it. Without run id: only look. Otherwise: run, then look."""
    root, sink, fault = Path(task["root"]), task["sink"], task.get("fault")
    os.chdir(root)
    status = 0
    if task.get("run_id") is not None:
        moments = Moments(
            None if fault is None else Fault(**{**fault, "when": When(fault["when"]), "kind": FaultKind(fault["kind"])})
        )
        status = run(root, sink, task["run_id"], moments)
    if fault is None:
        (root / "seen.json").write_text(json.dumps(asdict(seen(root, sink))), encoding="utf-8")
    return status


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
