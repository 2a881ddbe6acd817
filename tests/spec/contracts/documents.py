"""Valid contract documents with defaults; a test names only the field that matters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dpone_core.contracts.receipt_verification import ReceiptExpectation
from dpone_core.contracts.step_receipt import (
    EvidenceReference,
    StepCounters,
    StepIdentity,
    StepReceipt,
    StepResult,
    seal,
)
from dpone_core.model.vocabulary import (
    Boundary,
    CheckpointState,
    RetryClassification,
    SourceState,
    StepKind,
    StepStatus,
    TargetState,
)

VERSION = "0.1.0"
SHA_A, SHA_B, SHA_C, SHA_D = (f"sha256:{digit * 64}" for digit in "abcd")
STARTED = datetime(2026, 11, 29, 15, 1, 41, tzinfo=UTC)
FINISHED = datetime(2026, 11, 29, 15, 1, 52, tzinfo=UTC)
LOAD_ID = "01KB6Q4X7D8M1T9N3VZ5C2R0AE"
IMAGE = f"registry.example/dpone@{SHA_A}"
RECEIPT_ARGUMENTS = ["--receipt-path", "/airflow/xcom/return.json"]


def verify_step(**changes: Any) -> dict[str, Any]:
    return {
        "step_id": "bundle_verify",
        "kind": "bundle_verify",
        "depends_on": [],
        "timeout_seconds": 300,
        "retries": 2,
        "without_receipt": "retry",
        "argv": ["dpone", "gitops", "verify", "--pack", "flights.pack.json", *RECEIPT_ARGUMENTS],
        **changes,
    }


def hook_step(hook_id: str = "refresh_mart", phase: str = "pre_hook", **changes: Any) -> dict[str, Any]:
    return {
        "step_id": f"{phase}_{hook_id}",
        "kind": "hook",
        "depends_on": ["bundle_verify"],
        "timeout_seconds": 3600,
        "retries": 0,
        "without_receipt": "stop",
        "argv": ["dpone", "hooks", "execute", "flights.yaml", "--hook-id", hook_id, *RECEIPT_ARGUMENTS],
        "secret_env": [{"name": "DPONE_CONN_ERP", "secret": "dpone-erp", "key": "uri"}],
        "hook": {
            "phase": phase,
            "id": hook_id,
            "kind": "source_refresh",
            "sql_hash": SHA_D,
            "inputs": ["main.flights"],
            "outputs": ["main.flights_mart"],
        },
        **changes,
    }


def load_step(**changes: Any) -> dict[str, Any]:
    return {
        "step_id": "dpone_run_flights",
        "kind": "load",
        "depends_on": ["pre_hook_refresh_mart"],
        "receipts_from": ["pre_hook_refresh_mart"],
        "timeout_seconds": 7200,
        "retries": 1,
        "without_receipt": "retry",
        "argv": ["dpone", "run", "flights.yaml", "--separate-hooks", "receipts", *RECEIPT_ARGUMENTS],
        "secret_env": [{"name": "DPONE_CONN_DWH", "secret": "dpone-dwh", "key": "uri"}],
        **changes,
    }


def plan_step(**changes: Any) -> dict[str, Any]:
    return {
        "step_id": "transfer_plan",
        "kind": "transfer_plan",
        "depends_on": ["pre_hook_refresh_mart"],
        "receipts_from": ["pre_hook_refresh_mart"],
        "timeout_seconds": 900,
        "retries": 2,
        "without_receipt": "retry",
        "argv": ["dpone", "transfer", "plan", "flights.yaml", "--separate-hooks", "receipts", *RECEIPT_ARGUMENTS],
        **changes,
    }


def partition_step(**changes: Any) -> dict[str, Any]:
    return {
        "step_id": "transfer_partition",
        "kind": "transfer_partition",
        "depends_on": ["transfer_plan"],
        "timeout_seconds": 7200,
        "retries": 1,
        "without_receipt": "retry",
        "argv": ["dpone", "transfer", "load", "flights.yaml", *RECEIPT_ARGUMENTS],
        "mapped_over": "transfer_plan",
        "max_parallel": 4,
        **changes,
    }


def publishing_step(**changes: Any) -> dict[str, Any]:
    """The load of a run-spec whose key ranges have tasks of their own."""
    publishing = ["--separate-hooks", "receipts", "--partitions", "staged"]
    argv = ["dpone", "run", "flights.yaml", *publishing, *RECEIPT_ARGUMENTS]
    return load_step(**{"depends_on": ["transfer_partition"], "argv": argv, **changes})


def fanned_out_steps() -> list[dict[str, Any]]:
    return [verify_step(), hook_step(), plan_step(), partition_step(), publishing_step()]


def run_spec_document(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "dpone.run_spec.v1",
        "process": "flights",
        "manifest": "flights.yaml",
        "image": IMAGE,
        "pack": "flights.pack.json",
        "pack_fingerprint": SHA_B,
        "policy_snapshot_id": SHA_C,
        "steps": [verify_step(), hook_step(), load_step()],
        **changes,
    }


def identity(**changes: Any) -> StepIdentity:
    defaults: dict[str, Any] = {
        "kind": StepKind.LOAD,
        "step_id": "dpone_run_flights",
        "process": "flights",
        "dag_id": "flights",
        "dag_run_id": "scheduled__2026-11-29T00:00:00+00:00",
        "run_id": "scheduled__2026-11-29T00:00:00+00:00",
        "load_id": LOAD_ID,
        "run_spec_fingerprint": SHA_A,
        "pack_fingerprint": SHA_B,
        "policy_snapshot_id": SHA_C,
    }
    return StepIdentity(**{**defaults, **changes})


def succeeded(**changes: Any) -> StepResult:
    defaults: dict[str, Any] = {
        "status": StepStatus.SUCCEEDED,
        "exit_code": 0,
        "started_at": STARTED,
        "finished_at": FINISHED,
        "target_state": TargetState.MUTATION_RETURNED_SUCCESS,
        "checkpoint_state": CheckpointState.NOT_APPLICABLE,
        "source_state": SourceState.ADVANCED,
    }
    return StepResult(**{**defaults, **changes})


def failed(**changes: Any) -> StepResult:
    defaults: dict[str, Any] = {
        "status": StepStatus.FAILED,
        "exit_code": 1,
        "error_code": "DPONE_QUALITY_GATES_FAILED",
        "failure_boundary": Boundary.POST_COMMIT,
        "source_state": SourceState.NOT_ADVANCED,
        "retry_classification": RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
    }
    return succeeded(**{**defaults, **changes})


def refused(**changes: Any) -> StepResult:
    return failed(
        **{
            "status": StepStatus.REFUSED,
            "exit_code": 2,
            "error_code": "DPONE_CONFIGURATION_INVALID",
            "failure_boundary": None,
            "target_state": TargetState.NOT_MUTATED,
            "retry_classification": None,
            **changes,
        }
    )


def receipt(
    result: StepResult | None = None, *, counters: StepCounters | None = None, version: str = VERSION, **ids: Any
) -> StepReceipt:
    """A sealed load receipt; `ids` change its identity."""
    return seal(
        dpone_version=version,
        identity=identity(**ids),
        result=result or succeeded(),
        counters=counters or StepCounters(extracted_rows=336776, inserted_rows=336776, final_rows=336775),
        evidence=EvidenceReference(path=f"runs/flights/run-1/{LOAD_ID}/run.json", sha256=SHA_A),
    )


def expectation(**changes: Any) -> ReceiptExpectation:
    defaults: dict[str, Any] = {
        "dag_id": "flights",
        "dag_run_id": "scheduled__2026-11-29T00:00:00+00:00",
        "map_index": -1,
        "run_spec_fingerprint": SHA_A,
        "pack_fingerprint": SHA_B,
        "policy_snapshot_id": SHA_C,
        "step_id": "dpone_run_flights",
        "kind": StepKind.LOAD,
        "process": "flights",
        "sql_hash": None,
        "dpone_version": VERSION,
    }
    return ReceiptExpectation(**{**defaults, **changes})


def tampered(document: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The document with other values and its old digest."""
    return {**document, **changes}
