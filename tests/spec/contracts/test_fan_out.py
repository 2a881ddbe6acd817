"""Key ranges with tasks of their own: the chain of a run-spec and what each receipt must carry (NAT-22)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dpone_core.contracts.receipt_verification import RECEIPT_MISMATCH, verify
from dpone_core.contracts.run_spec import parse_run_spec, render_run_spec
from dpone_core.contracts.step_receipt import StepCounters, StepReceipt, parse_receipt
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.model.vocabulary import RetryClassification, StepKind, TargetState
from tests.spec.contracts.documents import (
    SHA_A,
    SHA_D,
    expectation,
    failed,
    fanned_out_steps,
    hook_step,
    load_step,
    partition_step,
    plan_step,
    publishing_step,
    receipt,
    refused,
    run_spec_document,
    succeeded,
    verify_step,
)

Change = Callable[[list[dict[str, Any]]], object]
STAGED = StepCounters(extracted_rows=10, staged_rows=10)
UNTOUCHED = succeeded(target_state=None, checkpoint_state=None, source_state=None)


def refusal(steps: list[dict[str, Any]]) -> ContractInvalidError:
    with pytest.raises(ContractInvalidError) as caught:
        parse_run_spec(json.dumps(run_spec_document(steps=steps)))
    return caught.value


def test_plan_partitions_and_load_make_one_chain() -> None:
    spec = parse_run_spec(json.dumps(run_spec_document(steps=fanned_out_steps())))
    assert [step.kind.value for step in spec.steps] == [
        "bundle_verify",
        "hook",
        "transfer_plan",
        "transfer_partition",
        "load",
    ]
    assert spec.mapped is not None and (spec.mapped.mapped_over, spec.mapped.max_parallel) == ("transfer_plan", 4)
    assert parse_run_spec(render_run_spec(spec)) == spec


def test_a_run_spec_without_ranges_maps_nothing() -> None:
    assert parse_run_spec(json.dumps(run_spec_document())).mapped is None


def _plan_beside_the_hook(steps: list[dict[str, Any]]) -> None:
    steps[2].update(depends_on=["bundle_verify"], receipts_from=[])
    steps[3]["depends_on"] = ["transfer_plan", "pre_hook_refresh_mart"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s[3].pop("mapped_over"), "must have mapped_over"),
        (lambda s: s[2].update(mapped_over="bundle_verify"), "must have mapped_over"),
        (lambda s: s[2].update(max_parallel=2), "may have max_parallel"),
        (lambda s: s[3].update(mapped_over="bundle_verify"), "be mapped over it"),
        (lambda s: s[3].update(depends_on=["pre_hook_refresh_mart"]), "be mapped over it"),
        (_plan_beside_the_hook, "must depend on every pre-hook step"),
        (lambda s: s[2].update(receipts_from=[]), "receipts_from of transfer_plan"),
        (lambda s: s[2]["argv"].__setitem__(5, "inline"), "transfer_plan needs --separate-hooks"),
        (lambda s: s[4].update(depends_on=["transfer_plan"]), "must depend on transfer_partition"),
        (lambda s: s[4]["argv"].__delitem__(slice(5, 7)), "needs --partitions staged"),
        (lambda s: s[4]["argv"].__setitem__(6, "inline"), "needs --partitions staged"),
        (lambda s: s.insert(4, partition_step(step_id="more")), "exactly one step transfer_plan"),
        (lambda s: s.insert(3, plan_step(step_id="more")), "exactly one step transfer_plan"),
    ],
)
def test_a_fan_out_that_does_not_hang_together_is_refused(change: Change, sentence: str) -> None:
    steps = fanned_out_steps()
    change(steps)
    assert sentence in refusal(steps).message


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (
            [verify_step(), hook_step(), publishing_step(depends_on=["pre_hook_refresh_mart"])],
            "no step transfer_partition stages them",
        ),
        (
            [verify_step(), hook_step(), plan_step(), load_step(depends_on=["transfer_plan"])],
            "exactly one step transfer_plan",
        ),
    ],
)
def test_half_a_fan_out_is_refused(steps: list[dict[str, Any]], sentence: str) -> None:
    assert sentence in refusal(steps).message


@pytest.mark.parametrize("count", [0, 65, 1.5, "4"])
def test_how_many_ranges_load_at_a_time_is_bounded(count: object) -> None:
    steps = fanned_out_steps()
    steps[3]["max_parallel"] = count
    assert refusal(steps).path == "steps.3.max_parallel"


def plan_receipt(**changes: Any) -> StepReceipt:
    ids = {"kind": StepKind.TRANSFER_PLAN, "step_id": "transfer_plan", "transfer_plan": SHA_D, "partitions": 3}
    return receipt(UNTOUCHED, counters=StepCounters(), **{**ids, **changes})


def partition_receipt(counters: StepCounters = STAGED, **changes: Any) -> StepReceipt:
    ids = {"kind": StepKind.TRANSFER_PARTITION, "step_id": "transfer_partition", "map_index": 2}
    return receipt(UNTOUCHED, counters=counters, **{**ids, "transfer_plan": SHA_D, "partitions": 3, **changes})


def test_receipts_of_plan_and_partition_travel_whole() -> None:
    for one in (plan_receipt(), partition_receipt(), receipt(transfer_plan=SHA_D, partitions=3)):
        assert parse_receipt(one.encode()) == one
        assert (one.transfer_plan, one.partitions) == (SHA_D, 3)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: plan_receipt(transfer_plan=None, partitions=None), "must name its transfer_plan"),
        (lambda: plan_receipt(partitions=None), "both be given"),
        (lambda: plan_receipt(partitions=0), "at least one partition"),
        (lambda: partition_receipt(transfer_plan=None, partitions=None), "must name its transfer_plan"),
        (lambda: partition_receipt(map_index=3), "not one of the planned"),
        (lambda: partition_receipt(StepCounters(staged_rows=10)), "must state extracted_rows"),
        (lambda: partition_receipt(StepCounters(extracted_rows=10)), "must state extracted_rows"),
        (lambda: receipt(kind=StepKind.HOOK, transfer_plan=SHA_D, partitions=3), "only steps that"),
        (
            lambda: receipt(kind=StepKind.TRANSFER_PLAN, transfer_plan=SHA_D, partitions=3),
            "must be null or not_mutated",
        ),
    ],
)
def test_a_receipt_that_leaves_out_its_plan_or_its_rows_is_refused(
    make: Callable[[], StepReceipt], sentence: str
) -> None:
    with pytest.raises(ContractInvalidError, match=sentence):
        make()


def test_a_failed_partition_need_not_know_its_plan() -> None:
    result = failed(
        failure_boundary=None,
        target_state=TargetState.NOT_MUTATED,
        retry_classification=RetryClassification.RETRY_BEFORE_TARGET_MUTATION,
    )
    assert receipt(result, kind=StepKind.TRANSFER_PARTITION, step_id="transfer_partition").transfer_plan is None


def test_a_receipt_of_another_plan_is_a_mixup() -> None:
    expected = expectation(
        kind=StepKind.TRANSFER_PARTITION, step_id="transfer_partition", map_index=2, transfer_plan=SHA_D
    )
    assert verify(partition_receipt(), expected) == ()
    (problem,) = verify(partition_receipt(transfer_plan=SHA_A), expected)
    assert (problem.code, problem.field) == (RECEIPT_MISMATCH, "transfer_plan")


def test_a_load_that_published_must_name_the_expected_plan_and_a_refused_one_need_not() -> None:
    (problem,) = verify(receipt(), expectation(transfer_plan=SHA_D))
    assert problem.field == "transfer_plan"
    assert [one.field for one in verify(receipt(refused()), expectation(transfer_plan=SHA_D))] == ["status"]


def test_a_step_of_no_plan_is_not_asked_for_one() -> None:
    assert verify(receipt(transfer_plan=SHA_D, partitions=3), expectation()) == ()
