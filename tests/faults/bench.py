"""One process per run, forked from a parent that has imported everything and opened nothing.

Reads one JSON task per line and answers with the exit status of the forked process: `python -m tests.faults.bench`.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import traceback
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
_LOADS = "SELECT run_id, status FROM etl_state.__dpone__loads"
_CURSOR = "SELECT cursor_value FROM etl_state.__dpone__cursor_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is there, read without dpone: target ids, objects of dead loads, saved cursor, load statuses by run id."""

    ids: list[int]
    leftovers: list[str]
    cursor: str | None
    loads: dict[str, list[str]]


def connections(root: Path, sink: str) -> dict[str, str]:
    return {"DPONE_CONN_SHOP": f"sqlite:///{root / 'shop.sqlite'}", "DPONE_CONN_DWH": SINK_URI[sink].format(root)}


def run(
    root: Path, sink: str, run_id: str, moments: Moments, clock: Clock | None = None, *, is_server: bool = False
) -> int:
    """What `dpone run --run-id ... --format json --receipt-path ...` does, over watched ports.

    `is_server`: leases count as for an engine that several processes may use at once.
    """
    variables, clock = connections(root, sink), clock or SystemClock()
    cancellation = SignalCancellation()
    started_at, error, execution = clock.utc_now(), None, None
    try:
        with cancellation.installed():
            options = RunOptions(arguments=RunArguments(run_id=run_id))
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
    write_receipt(str(root / f"{run_id}.receipt"), execution, end)
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
    try:
        names = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()]
        return _seen(
            connection.execute("SELECT id FROM raw.orders").fetchall(),
            [name for name in names if name.startswith(("__dpone__stg", "__dpone__shadow", "__dpone__scratch"))],
            connection.execute(_CURSOR).fetchall() if "__dpone__cursor_state" in names else [],
            connection.execute(_LOADS).fetchall(),
        )
    finally:
        connection.close()


def _seen_in_clickhouse(root: Path) -> Seen:
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=str(root / "house"))
    try:
        stateful = client.query("EXISTS TABLE etl_state.__dpone__cursor_state").result_rows[0][0]
        like = "(name LIKE '\\_\\_dpone\\_\\_stg%' OR name LIKE '\\_\\_dpone\\_\\_s_a%')"
        return _seen(
            client.query("SELECT id FROM raw.orders").result_rows,
            [row[0] for row in client.query(f"SELECT name FROM system.tables WHERE {like}").result_rows],
            client.query(f"{_CURSOR} FINAL").result_rows if stateful else [],
            client.query(f"{_LOADS} FINAL").result_rows,
        )
    finally:
        client.close()


def _seen_in_files(root: Path) -> Seen:
    target, control = root / "lake/raw/orders", root / "lake/etl_state"
    ids = [(row["id"],) for part in target.glob("part-*") for row in pq.read_table(part).to_pylist()]
    cursors = _rows(control / "__dpone__cursor_state.jsonl", "state_key")
    loads = _rows(control / "__dpone__loads.jsonl", "load_id")
    return _seen(
        ids,
        [Path(path).name[1:] for path in glob.glob(str(target / ".__dpone__*"))],
        [(row["cursor_value"],) for row in cursors],
        [(row["run_id"], row["status"]) for row in loads],
    )


def _rows(path: Path, key: str) -> list[dict[str, Any]]:
    """The newest row of every key."""
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    return list({line["row"][key]: line["row"] for line in lines if "row" in line}.values())


def _seen(ids: Any, leftovers: list[str], cursors: Any, loads: Any) -> Seen:
    by_run: dict[str, list[str]] = {}
    for run_id, status in loads:
        by_run.setdefault(run_id, []).append(status)
    assert len(cursors) <= 1
    return Seen(
        ids=sorted(row[0] for row in ids),
        leftovers=sorted(leftovers),
        cursor=cursors[0][0] if cursors else None,
        loads=by_run,
    )


def work(task: dict[str, Any]) -> int:
    """`fault` given: one run that meets it. Otherwise: look, run `run_id`, look again."""
    root, sink, fault = Path(task["root"]), task["sink"], task.get("fault")
    os.chdir(root)
    if fault is not None:
        kinds = {"when": When(fault["when"]), "kind": FaultKind(fault["kind"])}
        return run(root, sink, task["run_id"], Moments(Fault(**{**fault, **kinds})))
    before = asdict(seen(root, sink)) if task["look_first"] else None
    exit_code = run(root, sink, task["run_id"], Moments(None))
    looked = {"before": before, "after": asdict(seen(root, sink))}
    (root / "seen.json").write_text(json.dumps(looked), encoding="utf-8")
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
