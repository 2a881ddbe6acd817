"""A separate pre-hook counts as done only by an accepted receipt of this very run; nothing else, and never inline.

Contract: HOOK-29.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import ETLConfigurationError, ExitClass
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.plan import PlannedProcess, plan_process
from dpone_core.use_cases.prepare import STEP_RECEIPTS_ENV, verify_hook_receipts
from dpone_core.version import __version__
from tests.spec.builders import Project, flow, hook, hooks
from tests.spec.contracts.documents import SHA_A, SHA_B, SHA_D, failed, identity, seal, succeeded

SEPARATE = {"execution": {"cli": "inline", "airflow": "separate_task"}}
STEPS = ("pre_hook_refresh", "pre_hook_index")
RUN = {"DPONE_DAG_ID": "orders", "DPONE_DAG_RUN_ID": "scheduled__1", "DPONE_RUN_SPEC_FINGERPRINT": SHA_A}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> PlannedProcess:
    """Two pre-hooks with tasks of their own, and one that runs inline."""
    project = Project(tmp_path_factory.mktemp("planned"))
    pre = [
        hook("refresh", "UPDATE orders SET name = name", **SEPARATE),
        hook("index", "DELETE FROM orders WHERE id < 0", **SEPARATE),
        hook("inline", "DELETE FROM log"),
    ]
    path = project.written(flow(source__options=hooks(pre=pre)))
    (config,) = load_manifest(path, project_root=project.root).processes
    return plan_process(config)


@pytest.fixture
def invocation() -> RunInvocation:
    return resolve_invocation(RunArguments(), RUN, "unused")


def sealed(planned: PlannedProcess, step: str, result: Any = None, **changes: Any) -> dict[str, Any]:
    """The receipt that the hook's own task leaves, as JSON."""
    (sql_hash,) = [item.sql_hash for item in planned.plan.pre_hooks if f"pre_hook_{item.id}" == step]
    ids = identity(
        **{
            "kind": StepKind.HOOK,
            "step_id": step,
            "process": "orders",
            "dag_id": "orders",
            "dag_run_id": "scheduled__1",
            "run_id": "scheduled__1",
            "load_id": None,
            "run_spec_fingerprint": SHA_A,
            "pack_fingerprint": SHA_B,
            "policy_snapshot_id": planned.snapshot.policy_snapshot_id,
            "sql_hash": sql_hash,
            **changes,
        }
    )
    bare = {"target_state": None, "checkpoint_state": None, "source_state": None}
    receipt = seal(dpone_version=__version__, identity=ids, result=result or succeeded(**bare))
    return dict(receipt.wire())


def verified(
    planned: PlannedProcess, invocation: RunInvocation, documents: Mapping[str, object] | str | None
) -> dict[str, StepReceipt]:
    text = documents if isinstance(documents, str) else json.dumps(documents)
    environment = {} if documents is None else {STEP_RECEIPTS_ENV: text}
    return verify_hook_receipts(planned, invocation, SHA_B, environment)


def test_the_receipts_of_all_separate_hooks_are_taken_by_hook_id(
    planned: PlannedProcess, invocation: RunInvocation
) -> None:
    documents = {step: sealed(planned, step) for step in STEPS}
    found = verified(planned, invocation, documents)
    assert list(found) == ["refresh", "index"]
    assert [found[name].digest for name in found] == [documents[step]["digest"] for step in STEPS]


NOT_ACCEPTED: dict[str, Any] = {
    "another run": {"dag_run_id": "scheduled__2"},
    "another map index": {"map_index": 3},
    "another bundle": {"pack_fingerprint": SHA_D},
    "another policy": {"policy_snapshot_id": SHA_D},
    "another statement": {"sql_hash": SHA_D},
    "another process": {"process": "flights"},
}


@pytest.mark.parametrize("changes", NOT_ACCEPTED.values(), ids=list(NOT_ACCEPTED))
def test_one_receipt_of_something_else_refuses_the_run(
    planned: PlannedProcess, invocation: RunInvocation, changes: dict[str, Any]
) -> None:
    documents = {STEPS[0]: sealed(planned, STEPS[0]), STEPS[1]: sealed(planned, STEPS[1], **changes)}
    error = refusal(planned, invocation, documents)
    assert error.code == "DPONE_RECEIPT_MISMATCH" and "pre_hook_index" in error.message


def test_a_receipt_under_the_run_spec_before_refuses_the_run(
    planned: PlannedProcess, invocation: RunInvocation
) -> None:
    changed = sealed(planned, STEPS[1], run_spec_fingerprint=SHA_D)
    error = refusal(planned, invocation, {STEPS[0]: sealed(planned, STEPS[0]), STEPS[1]: changed})
    assert error.code == "DPONE_RUN_SPEC_CHANGED" and "pre_hook_index" in error.message


def test_a_failed_hook_is_not_done(planned: PlannedProcess, invocation: RunInvocation) -> None:
    bare = {"target_state": None, "checkpoint_state": None, "source_state": None, "failure_boundary": None}
    documents = {step: sealed(planned, step, failed(**bare, retry_classification=None)) for step in STEPS}
    assert refusal(planned, invocation, documents).code.startswith("DPONE_RECEIPT_")


def test_the_receipt_of_another_hook_does_not_stand_for_this_one(
    planned: PlannedProcess, invocation: RunInvocation
) -> None:
    documents = {STEPS[0]: sealed(planned, STEPS[0]), STEPS[1]: sealed(planned, STEPS[0])}
    assert refusal(planned, invocation, documents).code == "DPONE_RECEIPT_MISMATCH"


@pytest.mark.parametrize(
    ("documents", "code"),
    [
        (None, "DPONE_RECEIPT_REQUIRED"),
        ({}, "DPONE_RECEIPT_REQUIRED"),
        ("", "DPONE_RECEIPT_REQUIRED"),
        ("[]", "DPONE_RECEIPT_INVALID"),
        ("{", "DPONE_RECEIPT_INVALID"),
        ('{"pre_hook_refresh": {}}', "DPONE_RECEIPT_INVALID"),
        (json.dumps({"pre_hook_refresh": None, "x": "y" * (64 << 10)}), "DPONE_RECEIPT_INVALID"),
    ],
)
def test_what_is_no_receipt_refuses_the_run(
    planned: PlannedProcess, invocation: RunInvocation, documents: Mapping[str, object] | str | None, code: str
) -> None:
    assert refusal(planned, invocation, documents).code == code


def test_a_changed_field_refuses_the_run(planned: PlannedProcess, invocation: RunInvocation) -> None:
    documents = {step: sealed(planned, step) for step in STEPS}
    documents[STEPS[1]]["status"] = "failed"
    assert refusal(planned, invocation, documents).code == "DPONE_RECEIPT_INVALID"


def refusal(
    planned: PlannedProcess, invocation: RunInvocation, documents: Mapping[str, object] | str | None
) -> ETLConfigurationError:
    with pytest.raises(ETLConfigurationError) as raised:
        verified(planned, invocation, documents)
    assert raised.value.exit_class is ExitClass.REFUSED
    return raised.value


def test_a_run_whose_receipts_are_not_accepted_opens_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.source("CREATE TABLE log (what INTEGER)")
    project.written(flow(source__options=hooks(pre=[hook("refresh", "INSERT INTO log VALUES (1)", **SEPARATE)])))
    before = project.files()
    finished = project.dpone(
        *("run", "m.yaml", "--separate-hooks", "receipts", "--format", "json"),
        environment={**RUN, "DPONE_STEP_ID": "x"},
    )
    assert finished.exit_code == 2 and project.files() == before
