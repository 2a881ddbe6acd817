"""A stand-in for the `dpone` command inside a pod: it behaves as the DAG id says and writes real receipts.

The DAG id selects the behaviour of the load step; every other step succeeds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from dpone_core.contracts.step_receipt import (
    EvidenceReference,
    StepCounters,
    StepIdentity,
    StepReceipt,
    StepResult,
    seal,
    termination_message,
    upstream_fingerprint,
)
from dpone_core.model.vocabulary import RetryClassification, SourceState, StepKind, StepStatus, TargetState

SHA = "sha256:" + "a" * 64
PACK, POLICY, SQL = (f"sha256:{digit * 64}" for digit in "bcd")
RECEIPT_FILE = Path("/airflow/xcom/return.json")
TERMINATION_FILE = Path("/dev/termination-log")
UPSTREAM = os.environ.get("DPONE_UPSTREAM")
SHARED = Path("/shared")
PARTITIONS = 5000 if os.environ["DPONE_DAG_ID"] == "mapped_too_many" else 3
EXIT_STATUS = {0: StepStatus.SUCCEEDED, 2: StepStatus.REFUSED, 143: StepStatus.INTERRUPTED}


def receipt(
    exit_code: int = 0,
    error: str | None = None,
    retry: str | None = None,
    target: TargetState = TargetState.MUTATION_RETURNED_SUCCESS,
    **ids: object,
) -> StepReceipt:
    step_id = os.environ["DPONE_STEP_ID"]
    is_load, is_transfer = (step_id.startswith(start) for start in ("dpone_run", "transfer_"))
    is_hook = step_id.startswith(("pre_hook", "post_hook"))
    kind = StepKind.LOAD if is_load else StepKind.HOOK if is_hook else StepKind.BUNDLE_VERIFY
    planned = is_transfer or "staged" in sys.argv
    identity: dict[str, object] = {
        "kind": StepKind(step_id) if is_transfer else kind,
        "step_id": step_id,
        "process": "flights",
        "dag_id": os.environ["DPONE_DAG_ID"],
        "dag_run_id": os.environ["DPONE_DAG_RUN_ID"],
        "run_id": os.environ["DPONE_DAG_RUN_ID"],
        "load_id": "01KB6Q4X7D8M1T9N3VZ5C2R0AE" if is_load else None,
        "try_number": int(os.environ["DPONE_TRY_NUMBER"]),
        "map_index": int(os.environ["DPONE_MAP_INDEX"]),
        "run_spec_fingerprint": os.environ["DPONE_RUN_SPEC_FINGERPRINT"],
        "pack_fingerprint": PACK,
        "policy_snapshot_id": POLICY,
        "sql_hash": SQL if is_hook else None,
        "transfer_plan": os.environ.get("DPONE_TRANSFER_PLAN", SHA) if planned else None,
        "partitions": PARTITIONS if planned else None,
        "upstream": upstream_fingerprint(json.loads(UPSTREAM)) if UPSTREAM else None,
    }
    now = datetime.now(UTC)
    succeeded = exit_code == 0
    return seal(
        dpone_version="0.1.0",
        identity=StepIdentity(**{**identity, **ids}),  # type: ignore[arg-type]
        result=StepResult(
            status=EXIT_STATUS.get(exit_code, StepStatus.FAILED),
            exit_code=exit_code,
            error_code=error,
            started_at=now,
            finished_at=now,
            target_state=target if is_load else None,
            source_state=(SourceState.ADVANCED if succeeded else SourceState.NOT_ADVANCED) if is_load else None,
            retry_classification=RetryClassification(retry) if retry else None,
        ),
        counters=StepCounters(extracted_rows=5, staged_rows=5) if step_id == "transfer_partition" else None,
        evidence=EvidenceReference(path="runs/flights/run-1/run.json", sha256=SHA) if is_load else None,
    )


def report_the_interruption(*_: object) -> None:
    held = receipt(143, "DPONE_INTERRUPTED", "operator_verification_required")
    TERMINATION_FILE.write_bytes(termination_message("DPONE_INTERRUPTED: stopped", held))
    sys.exit(143)


def leave(content: bytes) -> None:
    RECEIPT_FILE.write_bytes(content)


def check_hook_receipts() -> None:
    received = json.loads(os.environ["DPONE_STEP_RECEIPTS"])
    if received["pre_hook_refresh_mart"]["status"] != "succeeded":
        sys.exit("the hook receipt did not arrive")
    if not os.environ["DPONE_CONN_DWH"].endswith("canary-7c1f"):
        sys.exit("the secret did not arrive")


def wait_for_the_word(name: str) -> None:
    """A load that mutates once it is told to; stopped before, it says that the target is as it was."""

    def stop(*_: object) -> None:
        held = receipt(143, "DPONE_INTERRUPTED", "retry_before_target_mutation", TargetState.NOT_MUTATED)
        TERMINATION_FILE.write_bytes(termination_message("DPONE_INTERRUPTED: stopped", held))
        (SHARED / f"{name}.stopped").touch()
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    (SHARED / f"{name}.waiting").touch()
    while not (SHARED / f"{name}.go").exists():
        time.sleep(0.05)
    with (SHARED / f"{name}.mutations").open("a") as file:
        file.write(os.environ["DPONE_TRY_NUMBER"] + "\n")
    held = receipt()
    TERMINATION_FILE.write_bytes(termination_message("DPONE_OK: loaded", held))
    leave(held.encode())


def load_of_a_schedule(name: str) -> int:
    """A load that writes down which run it is; told to be broken it fails, told to wait it waits for the word."""
    if (SHARED / f"{name}.broken").exists():
        leave(receipt(1, "source_unreachable", "retry_before_target_mutation", TargetState.NOT_MUTATED).encode())
        return 1
    (SHARED / f"{name}.waiting").touch()
    while (SHARED / f"{name}.waits").exists():
        time.sleep(0.05)
    told = ("DPONE_DAG_RUN_ID", "DPONE_INTERVAL_START", "DPONE_INTERVAL_END", "DPONE_TRY_NUMBER")
    began = time.time()
    time.sleep(0.5)
    with (SHARED / f"{name}.mutations").open("a") as file:
        file.write(json.dumps([*(os.environ[variable] for variable in told), began, time.time()]) + "\n")
    leave(receipt().encode())
    return 0


def end_badly(scenario: str) -> None:
    """Never returns in time: waits to be stopped, or kills itself."""
    match scenario:
        case "killed" | "sigkill":
            leave(receipt().encode()[:10])
        case "killed_after_success":
            leave(receipt().encode())
        case "stopped_in_time" | "execution_timeout" | "sigterm":
            signal.signal(signal.SIGTERM, report_the_interruption)
    print("waiting", flush=True)
    if scenario not in ("killed", "killed_after_success", "sigkill"):
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGKILL)


def behave(scenario: str) -> int:
    first_try = os.environ["DPONE_TRY_NUMBER"] == "1"
    failing = {"exit_code": 1, "error": "DPONE_QUALITY_GATES_FAILED"}
    match scenario:
        case _ if scenario.startswith("worker_"):
            wait_for_the_word(scenario)
        case _ if scenario.startswith("scheduled_"):
            return load_of_a_schedule(scenario)
        case "no_receipt" | "exit_0_no_receipt":
            return 0
        case "exit_2_no_receipt":
            print("Traceback boom", flush=True)
            return 2
        case "list":
            leave(b"[1, 2, 3]")
        case "nan":
            leave(receipt().encode().replace(b'"final_rows":null', b'"final_rows":NaN'))
        case "skip_on_exit":
            leave(receipt().encode())
            return 99
        case "log_drop":
            for line in range(5):
                print("line", line, flush=True)
                time.sleep(0.2)
            leave(receipt().encode())
        case "no_container_statuses" | "no_conditions" | "no_phase":
            leave(receipt().encode())
            time.sleep(1)
        case "no_receipt_exit_1":
            return 1
        case "foreign":
            leave(receipt(dag_run_id="another_run").encode())
        case "malformed" | "exit_0_invalid_json" | "exit_2_invalid_json":
            leave(receipt().encode()[:-20])
            return 2 if scenario == "exit_2_invalid_json" else 0
        case "blob" | "megabyte":
            leave(
                json.dumps(
                    {**receipt().wire(), "password": os.environ["DPONE_CONN_DWH"], "blob": "x" * 1_000_000}
                ).encode()
            )
        case "refused" | "exit_2_receipt" | "no_xcom_push":
            held = receipt(2, "DPONE_CONFIGURATION_INVALID")
            TERMINATION_FILE.write_bytes(termination_message("DPONE_CONFIGURATION_INVALID: no such table", held))
            if scenario != "no_xcom_push":
                leave(held.encode())
            return 2
        case "safe_retry" if first_try:
            leave(receipt(**failing, retry="retry_before_target_mutation").encode())
            return 1
        case "safe_retry" if os.environ["DPONE_FIRST_TRY"] != "1":
            leave(receipt(**failing, retry="operator_verification_required").encode())
            return 1
        case "unsafe" | "push_lost_unsafe":
            leave(receipt(**failing, retry="retry_may_repeat_target_mutation").encode())
            return 1
        case "push_lost_safe":
            leave(receipt(**failing, retry="retry_before_target_mutation").encode())
            return 1
        case "lying_exit":
            leave(receipt(**failing, retry="operator_verification_required").encode())
        case "termination_only" | "api_lost" | "exec_garbage":
            TERMINATION_FILE.write_bytes(termination_message("DPONE_OK: loaded", receipt()))
        case "advice_before" if int(os.environ["DPONE_TRY_NUMBER"]) <= 2:
            leave(receipt(**failing, retry="retry_before_target_mutation", target=TargetState.NOT_MUTATED).encode())
            return 1
        case "advice_marked":
            end_badly("killed_after_success")
        case "killed" | "killed_after_success" | "interrupted" | "too_long" | "stopped_in_time" | "sigkill" | "sigterm":
            end_badly(scenario)
        case "execution_timeout":
            end_badly(scenario)
        case "vanished" | "evicted" | "active_deadline" if first_try:
            end_badly(scenario)
        case _:
            leave(receipt().encode())
    return 0


def stage(scenario: str) -> int:
    """One partition; the scenario says what becomes of the one with index 1."""
    index, item = int(os.environ["DPONE_MAP_INDEX"]), json.loads(os.environ["DPONE_AIRFLOW_MAPPING_ITEM"])
    if (item["item_index"], item["mapping_plan_fingerprint"]) != (index, SHA):
        return 2
    first_try = os.environ["DPONE_TRY_NUMBER"] == "1"
    match scenario if index == 1 else "ok":
        case "mapped_lost":
            return 0
        case "mapped_mixed_up":
            leave(receipt(map_index=0).encode())
        case "mapped_other_plan":
            leave(receipt(transfer_plan=PACK).encode())
        case "mapped_killed" if first_try:
            end_badly("killed")
        case _:
            leave(receipt().encode())
    return 0


def main() -> int:
    if os.environ["DPONE_STEP_ID"] == "transfer_partition":
        return stage(os.environ["DPONE_DAG_ID"].removesuffix("_deferred"))
    if not os.environ["DPONE_STEP_ID"].startswith("dpone_run"):
        is_behind = os.environ["DPONE_STEP_ID"].startswith("post_hook")
        if is_behind and os.environ["DPONE_DAG_ID"] == "advice_post_hook" and os.environ["DPONE_TRY_NUMBER"] == "1":
            leave(receipt(1, "hook_failed", "retry_before_target_mutation").encode())
            return 1
        leave(receipt().encode())
        return 0
    if "pre_hook_refresh_mart" in json.loads(os.environ.get("DPONE_STEP_RECEIPTS", "{}")):
        check_hook_receipts()
    return behave(os.environ["DPONE_DAG_ID"].removesuffix("_deferred"))


if __name__ == "__main__":
    sys.exit(main())
