"""A mapped step passes only with one accepted receipt for each partition of its plan, and no others (AIR-15, AIR-16).

Pure: what is mapped, what the gate expects, what it says. Contract: AIR-17, AIR-31, AIR-32, AIR-33.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from dpone_airflow.judgment import (
    Observation,
    StepObservation,
    TaskObservation,
    expected_indexes,
    judge,
    plan_of,
)
from dpone_airflow.mapping import FanOut, expectation_of, fan_out_of, plan_of_item, plan_to_map
from dpone_airflow.outcome import RetryDecision, StepContract, StepEnd, decide_retry, step_contract
from dpone_airflow.verdict import Verdict
from dpone_core.contracts.receipt_verification import ReceiptProblem
from dpone_core.contracts.run_spec import parse_run_spec
from dpone_core.contracts.step_receipt import EvidenceReference, StepCounters, StepReceipt, seal, upstream_fingerprint
from dpone_core.model.vocabulary import RetryClassification, StepKind, StepStatus, TargetState, WithoutReceipt
from tests.spec.contracts.documents import (
    SHA_A,
    SHA_D,
    VERSION,
    failed,
    fanned_out_steps,
    identity,
    run_spec_document,
    succeeded,
)

SPEC = parse_run_spec(json.dumps(run_spec_document(steps=fanned_out_steps())))
VERIFY, HOOK, PLAN, PARTITION, LOAD = (step_contract(SPEC, step, VERSION) for step in SPEC.steps)
BY_ID = {contract.step_id: contract for contract in (VERIFY, HOOK, PLAN, PARTITION, LOAD)}
RUN = "scheduled__2026-11-29T00:00:00+00:00"
PLANNED = FanOut(transfer_plan=SHA_D, partitions=3)
OF_THE_PLAN: dict[str, Any] = {"transfer_plan": SHA_D, "partitions": 3}
NO_TARGET: dict[str, Any] = {"target_state": None, "checkpoint_state": None, "source_state": None}


def followed(contract: StepContract) -> str | None:
    """What a step of this run that succeeded followed."""
    if not contract.upstream:
        return None
    return upstream_fingerprint({step_id: own(BY_ID[step_id]).digest for step_id in contract.upstream})


def own(contract: StepContract, result: Any = None, **ids: Any) -> StepReceipt:
    """The receipt that belongs to a step of this run and, behind the plan, to this plan."""
    facts: dict[str, Any] = {
        "kind": contract.kind,
        "step_id": contract.step_id,
        "run_spec_fingerprint": contract.run_spec_fingerprint,
        "sql_hash": contract.sql_hash,
        "upstream": followed(contract),
        **(OF_THE_PLAN if contract in (PLAN, PARTITION, LOAD) else {}),
        **ids,
    }
    counted = StepCounters(extracted_rows=5, staged_rows=5) if contract is PARTITION else None
    made = identity(**facts)
    if contract is LOAD:
        evidence = EvidenceReference(path="runs/flights/1/run.json", sha256=SHA_A)
        return seal(dpone_version=VERSION, identity=made, result=result or succeeded(), evidence=evidence)
    return seal(dpone_version=VERSION, identity=made, result=result or succeeded(**NO_TARGET), counters=counted)


def seen(contract: StepContract, index: int = -1, **changes: Any) -> StepObservation:
    plan = SHA_D if contract in (PARTITION, LOAD) else None
    received = changes.pop("received") if "received" in changes else own(contract, map_index=index).wire()
    found = StepObservation(
        contract=contract,
        expectation=contract.expectation(dag_id="flights", dag_run_id=RUN, map_index=index, transfer_plan=plan),
        received=received,
        task_state="success",
    )
    return replace(found, **changes)


LISTED = TaskObservation(task="partitions", task_state="success")


def run(
    *indexes: StepObservation, plan: StepObservation | None = None, load: StepObservation | None = None
) -> tuple[Observation, ...]:
    mapped = indexes or tuple(seen(PARTITION, index) for index in range(3))
    return (seen(VERIFY), seen(HOOK), plan or seen(PLAN), LISTED, *mapped, load or seen(LOAD))


def with_index_1(**changes: Any) -> tuple[StepObservation, ...]:
    return (seen(PARTITION, 0), seen(PARTITION, 1, **changes), seen(PARTITION, 2))


def primary(judged: Verdict) -> tuple[str, str | None]:
    assert judged.primary is not None and not judged.passed
    return judged.primary.name, judged.primary.code


def test_one_receipt_for_each_partition_of_the_plan_passes() -> None:
    judged = judge(run())
    assert judged.passed and judged.retry_classification is None
    verdict = judged.mapping()
    assert (verdict["steps"], verdict["steps_passed"]) == (6, 6)
    assert (verdict["partitions"], verdict["partitions_passed"], verdict["first_failed_partition"]) == (3, 3, None)
    assert "step transfer_partition: 3 of 3 partitions passed" in judged.summary()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"received": None}, "DPONE_RECEIPT_REQUIRED"),
        ({"received": own(PARTITION, map_index=0).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(PARTITION, map_index=2).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(PARTITION, map_index=-1).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(PARTITION, map_index=1, dag_run_id="yesterday").wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(PARTITION, map_index=1, run_spec_fingerprint=SHA_A).wire()}, "DPONE_RUN_SPEC_CHANGED"),
        ({"received": own(PARTITION, map_index=1, transfer_plan=SHA_A).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(PLAN, map_index=1).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(PARTITION, failed(**NO_TARGET), map_index=1).wire()}, "DPONE_QUALITY_GATES_FAILED"),
        ({"received": [1]}, "DPONE_RECEIPT_INVALID"),
        ({"task_state": "failed"}, "DPONE_TASK_NOT_SUCCESSFUL"),
        ({"task_state": "skipped"}, "DPONE_TASK_NOT_SUCCESSFUL"),
        ({"task_state": None}, "DPONE_TASK_STATE_UNKNOWN"),
        ({"exit_code": 137}, "DPONE_POD_EXIT_NONZERO"),
        ({"received": None, "operator_problem": "DPONE_RECEIPT_MISMATCH"}, "DPONE_RECEIPT_MISMATCH"),
    ],
)
def test_an_index_that_is_missing_foreign_failed_or_of_another_plan_fails_by_name(
    changes: dict[str, Any], code: str
) -> None:
    judged = judge(run(*with_index_1(**changes)))
    assert primary(judged) == ("transfer_partition[1]", code)
    verdict = judged.mapping()
    assert (verdict["primary_step"], verdict["first_failed_partition"]) == ("transfer_partition[1]", 1)
    assert (verdict["partitions_passed"], verdict["steps"], verdict["steps_passed"]) == (2, 6, 5)
    text = "\n".join(judged.summary())
    assert f"step transfer_partition[1]: {code}" in text and "step transfer_partition: 2 of 3" in text
    assert "transfer_partition[0]" not in text and "transfer_partition[2]" not in text


def test_the_order_of_receipts_does_not_matter() -> None:
    lost = with_index_1(received=None)
    for order in itertools.permutations(lost):
        judged = judge(run(*order))
        assert primary(judged) == ("transfer_partition[1]", "DPONE_RECEIPT_REQUIRED")
        assert judge(run(*(seen(PARTITION, one.expectation.map_index) for one in order))).passed


def test_a_surplus_index_fails_whatever_it_left() -> None:
    surplus = seen(PARTITION, 3, received=own(PARTITION, map_index=3, partitions=4).wire(), is_surplus=True)
    judged = judge(run(*(seen(PARTITION, index) for index in range(3)), surplus))
    assert primary(judged) == ("transfer_partition[3]", "DPONE_RECEIPT_MISMATCH")


def test_the_plan_s_own_receipt_says_which_indexes_there_must_be() -> None:
    assert plan_of(seen(PLAN)) == PLANNED
    assert expected_indexes(PLANNED, [0, 2]) == (range(3), ())
    assert expected_indexes(PLANNED, [4, 0, -1, 3]) == (range(3), (-1, 3, 4))


@pytest.mark.parametrize(
    "changes",
    [
        {"received": None},
        {"received": own(PLAN, dag_run_id="yesterday").wire()},
        {"received": own(PLAN, failed(**NO_TARGET)).wire()},
        {"received": own(PARTITION, map_index=0).wire()},
        {"task_state": "failed"},
        {"exit_code": 1},
    ],
)
def test_without_an_accepted_plan_no_index_counts(changes: dict[str, Any]) -> None:
    plan = seen(PLAN, **changes)
    assert plan_of(plan) is None
    nothing_counts = seen(PARTITION, received=None)
    judged = judge(run(nothing_counts, plan=plan))
    assert judged.primary is not None and judged.primary.name == "transfer_plan"
    assert (judged.mapping()["partitions"], judged.mapping()["first_failed_partition"]) == (None, None)
    assert "step transfer_partition: DPONE_RECEIPT_REQUIRED, task success" in judged.summary()


def test_the_task_that_lists_the_partitions_is_named_before_those_that_never_started() -> None:
    refused = TaskObservation(task="partitions", task_state="failed", operator_problem="DPONE_AIRFLOW_MAPPING_TOO_LONG")
    behind = seen(PARTITION, received=None, task_state="upstream_failed")
    load = seen(LOAD, received=None, task_state="upstream_failed")
    judged = judge((seen(VERIFY), seen(HOOK), seen(PLAN), refused, behind, load))
    assert primary(judged) == ("partitions", "DPONE_AIRFLOW_MAPPING_TOO_LONG")
    assert judged.retry_classification == "retry_before_target_mutation"
    unknown = judge((seen(VERIFY), seen(PLAN), replace(LISTED, task_state=None), seen(LOAD)))
    assert primary(unknown) == ("partitions", "DPONE_TASK_STATE_UNKNOWN")


def test_a_load_that_published_another_plan_fails() -> None:
    judged = judge(run(load=seen(LOAD, received=own(LOAD, transfer_plan=SHA_A).wire())))
    assert primary(judged) == ("dpone_run_flights", "DPONE_RECEIPT_MISMATCH")


def test_many_failures_stay_few_lines() -> None:
    plan = seen(PLAN, received=own(PLAN, partitions=1000).wire())
    lost = [seen(PARTITION, index, received=None) for index in range(1000)]
    lines = judge(run(*lost, plan=plan)).summary()
    assert len(lines) < 100 and all(len(line) <= 86 for line in lines[1:])
    assert "step transfer_partition: 0 of 1000 partitions passed" in lines
    assert len(json.dumps(judge(run(*lost, plan=plan)).mapping())) < 2048


def test_a_lost_partition_may_be_repeated_until_the_load_ran_and_failed() -> None:
    lost = with_index_1(received=None, task_state="failed")
    never = seen(LOAD, received=None, task_state="upstream_failed")
    judged = judge(run(*lost, load=never))
    assert judged.retry_classification == "retry_before_target_mutation"
    assert "clear the failed task, the tasks behind it and the gate" in judged.advice
    unsafe = failed(
        retry_classification=RetryClassification.OPERATOR_VERIFICATION_REQUIRED, target_state=TargetState.UNKNOWN
    )
    ran = judge(run(*lost, load=seen(LOAD, received=own(LOAD, unsafe).wire(), task_state="failed")))
    assert ran.retry_classification == "operator_verification_required"
    silent = seen(LOAD, received=None, task_state="failed")
    stops = replace(silent, contract=replace(LOAD, without_receipt=WithoutReceipt.STOP))
    assert judge(run(*lost, load=stops)).retry_classification == "operator_verification_required"
    assert judge(run(*lost, load=silent)).retry_classification == "retry_may_repeat_target_mutation"
    committed = judge(run(*lost))
    assert committed.retry_classification == "retry_may_repeat_target_mutation"
    assert "transfer_partition[1] and the gate, never the load's task" in committed.advice


def test_one_item_for_each_partition_and_its_index_is_the_task_s() -> None:
    items = PLANNED.items()
    assert [item["item_index"] for item in items] == [0, 1, 2]
    assert [plan_of_item(item, index) for index, item in enumerate(items)] == [SHA_D] * 3
    json.dumps(items)


@pytest.mark.parametrize(
    "item",
    [
        None,
        "text",
        {},
        PLANNED.item(1),
        {**PLANNED.item(2), "mode": "backfill"},
        {**PLANNED.item(2), "schema": "dpone.airflow-mapping-item.v2"},
        {**PLANNED.item(2), "mapping_plan_fingerprint": None},
        {**PLANNED.item(2), "more": 1},
    ],
)
def test_an_item_of_another_index_or_form_is_nobody_s(item: object) -> None:
    assert plan_of_item(item, 2) is None


def test_a_mapped_task_expects_the_receipt_of_its_index_and_of_the_plan_its_item_names() -> None:
    run: dict[str, Any] = {"dag_id": "flights", "dag_run_id": RUN, "map_index": 2}
    found = expectation_of(PARTITION, PLANNED.item(2), **run)
    assert found is not None and (found.map_index, found.transfer_plan) == (2, SHA_D)
    assert expectation_of(PARTITION, PLANNED.item(1), **run) is None


@pytest.mark.parametrize(
    ("received", "code"),
    [
        (None, "DPONE_RECEIPT_REQUIRED"),
        (own(PLAN, dag_run_id="yesterday").wire(), "DPONE_RECEIPT_MISMATCH"),
        (own(PLAN, map_index=0).wire(), "DPONE_RECEIPT_MISMATCH"),
        (own(PLAN, failed(**NO_TARGET)).wire(), "DPONE_RECEIPT_NOT_SUCCEEDED"),
        (own(LOAD).wire(), "DPONE_RECEIPT_MISMATCH"),
        ({"partitions": 3}, "DPONE_RECEIPT_INVALID"),
        (own(PLAN, partitions=4).wire(), "DPONE_AIRFLOW_MAPPING_TOO_LONG"),
    ],
)
def test_nothing_is_mapped_without_the_plan_s_own_receipt_or_beyond_what_airflow_maps(
    received: object, code: str
) -> None:
    expectation = PLAN.expectation(dag_id="flights", dag_run_id=RUN, map_index=-1)
    assert plan_to_map(own(PLAN).wire(), expectation, 3) == PLANNED
    found = plan_to_map(received, expectation, 3)
    assert isinstance(found, ReceiptProblem) and found.code == code


def test_an_item_without_a_map_index_is_nobody_s() -> None:
    assert plan_of_item({**PLANNED.item(0), "item_index": -1}, -1) is None


def test_only_a_succeeded_plan_gives_partitions() -> None:
    assert fan_out_of(own(PLAN)) == PLANNED
    for other in (None, own(PLAN, failed(**NO_TARGET)), own(PARTITION, map_index=0), own(LOAD)):
        assert fan_out_of(other) is None


@pytest.mark.parametrize("contract", [PLAN, PARTITION])
def test_a_step_that_mutates_no_target_is_repeated_where_its_task_failed_behind_its_receipt(
    contract: StepContract,
) -> None:
    index = 0 if contract is PARTITION else -1
    end = StepEnd(receipt=own(contract, map_index=index), exit_code=137)
    assert decide_retry(end, contract) is RetryDecision.RETRY
    assert decide_retry(StepEnd(receipt=None, exit_code=None), contract) is RetryDecision.RETRY
    refusal = failed(status=StepStatus.REFUSED, exit_code=2, failure_boundary=None, **NO_TARGET)
    ended = StepEnd(receipt=own(contract, refusal, map_index=index), exit_code=2)
    assert decide_retry(ended, contract) is RetryDecision.STOP
    assert contract.kind in (StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION)
