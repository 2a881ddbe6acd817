"""A run passes only if every step has a successful task and its own succeeded receipt; a retry must be safe."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dpone_airflow.descriptions import report_url
from dpone_airflow.judgment import StepObservation, is_skipped, judge
from dpone_airflow.outcome import (
    RetryDecision,
    StepContract,
    StepEnd,
    decide_retry,
    failure_message,
    step_contract,
)
from dpone_airflow.verdict import Verdict
from dpone_core.contracts.run_spec import parse_run_spec
from dpone_core.contracts.step_receipt import StepCounters, StepReceipt, seal, upstream_fingerprint
from dpone_core.model.vocabulary import (
    RetryClassification,
    SourceState,
    StepKind,
    StepStatus,
    StrategyMode,
    TargetState,
    WithoutReceipt,
)
from tests.spec.contracts.documents import (
    FINISHED,
    VERSION,
    failed,
    identity,
    receipt,
    refused,
    run_spec_document,
    succeeded,
    tampered,
)

SPEC = parse_run_spec(json.dumps(run_spec_document()))
VERIFY, HOOK, LOAD = (step_contract(SPEC, step, VERSION) for step in SPEC.steps)
POST = replace(HOOK, step_id="post_hook_announce", upstream=(LOAD.step_id,))
BY_ID = {contract.step_id: contract for contract in (VERIFY, HOOK, LOAD, POST)}
RUN = "scheduled__2026-11-29T00:00:00+00:00"


def followed(contract: StepContract) -> str | None:
    """What a step of this run that succeeded followed."""
    if not contract.upstream:
        return None
    return upstream_fingerprint({step_id: own(BY_ID[step_id]).digest for step_id in contract.upstream})


def own(contract: StepContract, result: Any = None, **ids: Any) -> StepReceipt:
    """The receipt that belongs to a step of this run."""
    facts: dict[str, Any] = {
        "kind": contract.kind,
        "step_id": contract.step_id,
        "run_spec_fingerprint": contract.run_spec_fingerprint,
        "pack_fingerprint": contract.pack_fingerprint,
        "policy_snapshot_id": contract.policy_snapshot_id,
        "sql_hash": contract.sql_hash,
        "upstream": followed(contract),
        **ids,
    }
    if contract.kind is StepKind.LOAD:
        return receipt(result, **facts)
    states = {"target_state": None, "checkpoint_state": None, "source_state": None}
    return seal(dpone_version=VERSION, identity=identity(**facts), result=result or succeeded(**states))


def observation(contract: StepContract, **changes: Any) -> StepObservation:
    seen = StepObservation(
        contract=contract,
        expectation=contract.expectation(dag_id="flights", dag_run_id=RUN, map_index=-1),
        received=own(contract).wire(),
        task_state="success",
        exit_code=None,
    )
    return replace(seen, **changes)


def verdict(load: dict[str, Any] | None = None, hook: dict[str, Any] | None = None) -> Verdict:
    return judge((observation(VERIFY), observation(HOOK, **(hook or {})), observation(LOAD, **(load or {}))))


def behind(**changes: Any) -> Verdict:
    """The verdict on a run whose load passed, and what became of the post-hook behind it."""
    return judge((observation(VERIFY), observation(HOOK), observation(LOAD), observation(POST, **changes)))


def primary(judged: Verdict) -> tuple[str, str | None]:
    assert judged.primary is not None and not judged.passed
    return judged.primary.step_id, judged.primary.code


def test_a_run_passes_when_every_step_proves_it() -> None:
    judged = verdict()
    assert judged.passed and judged.primary is None and judged.retry_classification is None
    assert judged.mapping()["steps_passed"] == 3


def test_a_receipt_as_json_text_proves_it_as_well() -> None:
    assert verdict(load={"received": own(LOAD).encode().decode()}).passed


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ({"received": None}, "DPONE_RECEIPT_REQUIRED"),
        ({"received": "not json"}, "DPONE_RECEIPT_INVALID"),
        ({"received": [1]}, "DPONE_RECEIPT_INVALID"),
        ({"received": tampered(own(LOAD).wire(), final_rows=1)}, "DPONE_RECEIPT_INVALID"),
        ({"received": own(LOAD, dag_run_id="yesterday").wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(LOAD, map_index=2).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(LOAD, pack_fingerprint="sha256:" + "9" * 64).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(HOOK).wire()}, "DPONE_RECEIPT_MISMATCH"),
        ({"received": own(LOAD, failed()).wire()}, "DPONE_QUALITY_GATES_FAILED"),
        ({"received": own(LOAD, refused()).wire()}, "DPONE_CONFIGURATION_INVALID"),
        ({"task_state": "failed"}, "DPONE_TASK_NOT_SUCCESSFUL"),
        ({"task_state": "running"}, "DPONE_TASK_NOT_SUCCESSFUL"),
        ({"task_state": None}, "DPONE_TASK_STATE_UNKNOWN"),
        ({"exit_code": 137}, "DPONE_POD_EXIT_NONZERO"),
    ],
)
def test_a_step_without_proof_fails_the_run(seen: dict[str, Any], code: str) -> None:
    assert primary(verdict(load=seen)) == ("dpone_run_flights", code)


def test_the_exit_code_is_the_cause_and_the_missing_receipt_only_follows() -> None:
    judged = verdict(load={"received": None, "exit_code": 1, "task_state": "failed"})
    assert primary(judged) == ("dpone_run_flights", "DPONE_POD_EXIT_NONZERO")
    assert judged.primary is not None and "DPONE_RECEIPT_REQUIRED" in judged.primary.also


def test_the_receipt_s_code_is_the_cause_before_the_exit_code() -> None:
    judged = verdict(load={"received": own(LOAD, failed()).wire(), "exit_code": 1, "task_state": "failed"})
    assert primary(judged)[1] == "DPONE_QUALITY_GATES_FAILED"


def test_what_the_operator_refused_is_named() -> None:
    judged = verdict(load={"received": None, "operator_problem": "DPONE_RECEIPT_MISMATCH", "exit_code": 0})
    assert primary(judged)[1] == "DPONE_RECEIPT_MISMATCH"


def test_the_first_failing_step_is_the_cause_not_the_steps_behind_it() -> None:
    hook = {"received": None, "exit_code": 1, "task_state": "failed"}
    judged = verdict(hook=hook, load={"received": None, "task_state": "upstream_failed"})
    assert primary(judged) == ("pre_hook_refresh_mart", "DPONE_POD_EXIT_NONZERO")


def test_a_skipped_step_is_no_success() -> None:
    assert not verdict(load={"received": None, "task_state": "skipped"}).passed


def test_a_failed_task_with_a_committed_load_says_so_and_asks_for_a_look() -> None:
    judged = verdict(load={"task_state": "failed"})
    assert judged.primary is not None and "task failed, but load committed" in judged.primary.reason
    assert judged.retry_classification == "operator_verification_required"
    assert judged.mapping()["target_state"] == "mutation_returned_success"


@pytest.mark.parametrize(
    ("hook_says", "verdict_says"),
    [
        ("retry_before_target_mutation", "retry_may_repeat_target_mutation"),
        ("operator_verification_required", "operator_verification_required"),
    ],
)
def test_a_failed_post_hook_never_asks_for_a_retry_of_the_committed_load(hook_says: str, verdict_says: str) -> None:
    result = failed(retry_classification=RetryClassification(hook_says), target_state=None, source_state=None)
    judged = behind(received=own(POST, result).wire(), task_state="failed")
    assert judged.retry_classification == verdict_says
    assert judged.mapping()["target_state"] == "mutation_returned_success"


def test_the_verdict_is_small_and_its_summary_names_every_step() -> None:
    judged = verdict(load={"received": None})
    assert len(json.dumps(judged.mapping())) < 2048
    text = "\n".join(judged.summary())
    assert all(contract.step_id in text for contract in (VERIFY, HOOK, LOAD))
    assert "primary cause: step dpone_run_flights: DPONE_RECEIPT_REQUIRED" in text
    assert "primary cause" not in "\n".join(verdict().summary())


@pytest.mark.parametrize(
    ("classification", "target_state", "says"),
    [
        (
            "retry_before_target_mutation",
            TargetState.NOT_MUTATED,
            "clear the failed task, the tasks behind it and the gate",
        ),
        ("retry_via_native_resume", TargetState.MUTATION_RETURNED_SUCCESS, "resumes without touching the target"),
        ("retry_may_repeat_target_mutation", TargetState.MUTATION_RETURNED_SUCCESS, "a second time"),
        ("operator_verification_required", TargetState.UNKNOWN, "clear no task before a person has compared"),
    ],
)
def test_the_summary_says_what_is_true_of_the_target_and_what_to_do(
    classification: str, target_state: TargetState, says: str
) -> None:
    result = failed(retry_classification=RetryClassification(classification), target_state=target_state)
    judged = verdict(load={"received": own(LOAD, result).wire(), "task_state": "failed"})
    lines = judged.summary()
    assert lines[0].startswith("dpone gate FAILED: process flights")
    assert says in judged.advice and f"what to do: {judged.advice}" in " ".join(" ".join(lines).split())
    assert all(len(line) <= 86 for line in lines[1:])
    assert any(line.startswith("target: ") for line in lines) and judged.mapping()["advice"] == judged.advice


COMPLETE = failed(source_state=SourceState.ADVANCED, error_code="evidence_publication_failed")


@pytest.mark.parametrize(
    ("result", "strategy", "says"),
    [
        (COMPLETE, StrategyMode.INCREMENTAL_APPEND, "it loads none of this again"),
        (
            failed(source_state=SourceState.NOT_APPLICABLE),
            StrategyMode.FULL_REFRESH,
            "writes the load again in its place",
        ),
        (failed(), StrategyMode.PARTITION_REPLACE, "writes the load again in its place"),
        (failed(), StrategyMode.INCREMENTAL_MERGE, "updates the same rows by their key"),
        (failed(), StrategyMode.INCREMENTAL_APPEND, "repair or deduplicate"),
    ],
)
def test_the_advice_behind_a_commit_knows_state_and_strategy(result: Any, strategy: StrategyMode, says: str) -> None:
    load = own(LOAD, result, strategy=strategy)
    judged = verdict(load={"received": load.wire(), "task_state": "failed"})
    assert says in judged.advice and judged.retry_classification == "retry_may_repeat_target_mutation"
    assert ("deduplicate" in judged.advice) == (says == "repair or deduplicate")
    assert all(len(line) <= 86 for line in judged.summary()[1:])


def test_a_complete_load_is_tried_again_and_no_other_commit_is() -> None:
    """The next try loads none of it again and leaves the report that is missing."""
    complete = own(LOAD, COMPLETE, strategy=StrategyMode.INCREMENTAL_APPEND)
    assert decide_retry(StepEnd(receipt=complete, exit_code=1), LOAD) is RetryDecision.RETRY
    for strategy in StrategyMode:
        other = own(LOAD, failed(), strategy=strategy)
        assert decide_retry(StepEnd(receipt=other, exit_code=1), LOAD) is RetryDecision.STOP


def test_the_failed_gate_is_named_in_verdict_and_log() -> None:
    counters = StepCounters(gates_failed=1)
    load = own(LOAD, failed(failed_gate="enough"), counters=counters)
    judged = verdict(load={"received": load.wire(), "task_state": "failed"})
    assert judged.mapping()["failed_gate"] == "enough"
    assert any(line.endswith("gate enough failed") for line in judged.summary())
    counted = failed(failed_gate="keys", gate_failed_rows=12, gate_evaluated_rows=200_000)
    judged = verdict(load={"received": own(LOAD, counted, counters=counters).wire(), "task_state": "failed"})
    assert any("gate keys failed: 12 of 200,000 rows" in line for line in judged.summary())
    assert (judged.mapping()["gate_failed_rows"], judged.mapping()["gate_evaluated_rows"]) == (12, 200_000)


def test_behind_a_committed_load_the_advice_never_clears_the_load() -> None:
    assert verdict().advice == "nothing is left to do"
    advice = behind(received=own(POST, failed(target_state=None, source_state=None)).wire()).advice
    assert advice.endswith("never the load's task") and "post_hook_announce" in advice
    assert "mark its task as success" in verdict(load={"task_state": "failed"}).advice


def test_the_report_link_leads_to_the_page_beside_the_record_or_nowhere() -> None:
    path = "runs/flights/r1/01KB/run.json"
    assert report_url("http://e/base/", path) == "http://e/base/runs/flights/r1/01KB/report.html"
    assert report_url("http://e", "runs/a b#c/run.json") == "http://e/runs/a%20b%23c/report.html"
    for base, evidence in (
        *(("", path), ("ftp://e", path), ("http://u:p@e", path), ("javascript:alert(1)", path)),
        *(("http://e", None), ("http://e", "/run.json"), ("http://e", "../run.json"), ("http://e", "runs/x.txt")),
    ):
        assert report_url(base, evidence) == "", (base, evidence)


def end(result: Any = None, **changes: Any) -> StepEnd:
    made = own(LOAD, result)
    return StepEnd(**{"receipt": made, "exit_code": made.exit_code, **changes})


def test_exit_0_with_a_succeeded_receipt_passes() -> None:
    assert decide_retry(end(), LOAD) is RetryDecision.PASS


@pytest.mark.parametrize(
    ("classification", "decision"),
    [
        ("retry_before_target_mutation", RetryDecision.RETRY),
        ("retry_via_native_resume", RetryDecision.RETRY),
        ("retry_may_repeat_target_mutation", RetryDecision.STOP),
        ("operator_verification_required", RetryDecision.STOP),
    ],
)
def test_the_classification_decides_on_a_retry(classification: str, decision: RetryDecision) -> None:
    result = failed(retry_classification=RetryClassification(classification))
    assert decide_retry(end(result), LOAD) is decision
    assert decide_retry(end(result, interrupted=True), LOAD) is decision


def test_a_refusal_is_never_repeated() -> None:
    assert decide_retry(end(refused()), LOAD) is RetryDecision.STOP
    assert decide_retry(StepEnd(receipt=None, exit_code=2), LOAD) is RetryDecision.STOP


@pytest.mark.parametrize("exit_code", [None, 0, 1, 137])
def test_without_a_receipt_the_run_spec_decides(exit_code: int | None) -> None:
    nothing = StepEnd(receipt=None, exit_code=exit_code)
    assert decide_retry(nothing, replace(LOAD, without_receipt=WithoutReceipt.RETRY)) is RetryDecision.RETRY
    assert decide_retry(nothing, replace(LOAD, without_receipt=WithoutReceipt.STOP)) is RetryDecision.STOP


@pytest.mark.parametrize("changes", [{"exit_code": 137}, {"exit_code": None}, {"interrupted": True}])
def test_a_load_that_succeeded_is_not_repeated_because_its_task_failed(changes: dict[str, Any]) -> None:
    assert decide_retry(end(**changes), LOAD) is RetryDecision.STOP


def test_an_unclassified_failure_stops_unless_it_only_read_files() -> None:
    unclassified = failed(retry_classification=None)
    assert decide_retry(end(unclassified), LOAD) is RetryDecision.STOP
    read_only = StepEnd(receipt=own(VERIFY, unclassified), exit_code=1)
    assert decide_retry(read_only, VERIFY) is RetryDecision.RETRY


def test_nothing_but_proof_passes() -> None:
    results = (succeeded(), failed(), refused(), failed(status=StepStatus.INTERRUPTED, exit_code=143))
    receipts = (None, *(own(LOAD, result) for result in results))
    for held, exit_code, interrupted in itertools.product(receipts, (None, 0, 1, 2, 137, 143), (False, True)):
        decision = decide_retry(StepEnd(receipt=held, exit_code=exit_code, interrupted=interrupted), LOAD)
        proven = held is not None and held.status is StepStatus.SUCCEEDED and exit_code == 0 and not interrupted
        assert (decision is RetryDecision.PASS) is proven


def test_a_load_without_source_state_passes_as_not_applicable() -> None:
    held = own(LOAD, succeeded(source_state=SourceState.NOT_APPLICABLE))
    assert decide_retry(StepEnd(receipt=held, exit_code=0), LOAD) is RetryDecision.PASS
    assert "no source state" in "\n".join(verdict(load={"received": held.wire()}).summary())
    assert "source state advanced" in "\n".join(verdict().summary())


LATER = succeeded(
    target_state=None, checkpoint_state=None, source_state=None, finished_at=FINISHED + timedelta(hours=1)
)


def test_a_load_whose_hook_ran_again_after_it_does_not_belong_to_this_run() -> None:
    judged = verdict(hook={"received": own(HOOK, LATER).wire()})
    assert primary(judged) == ("dpone_run_flights", "DPONE_RECEIPT_OUT_OF_ORDER")
    assert judged.primary is not None and "before pre_hook_refresh_mart left the receipt" in judged.primary.reason
    assert judged.mapping()["target_state"] == "mutation_returned_success", "it says so of the load that is there"


def test_a_chain_is_followed_from_the_bundle_s_check_on() -> None:
    verified_again = observation(VERIFY, received=own(VERIFY, LATER).wire())
    judged = judge((verified_again, observation(HOOK), observation(LOAD)))
    assert [step.code for step in judged.steps] == [None, "DPONE_RECEIPT_OUT_OF_ORDER", None]


def test_a_receipt_that_names_nothing_before_it_is_out_of_order() -> None:
    assert primary(verdict(load={"received": own(LOAD, upstream=None).wire()}))[1] == "DPONE_RECEIPT_OUT_OF_ORDER"
    of_the_first = observation(VERIFY, received=own(VERIFY, upstream="sha256:" + "1" * 64).wire())
    assert judge((of_the_first, observation(HOOK), observation(LOAD))).steps[0].code == "DPONE_RECEIPT_OUT_OF_ORDER"


@pytest.mark.parametrize(
    ("strategy", "state", "says"),
    [
        (StrategyMode.INCREMENTAL_APPEND, SourceState.ADVANCED, "it loads none of that again"),
        (StrategyMode.FULL_REFRESH, SourceState.NOT_APPLICABLE, "it is written again in its place"),
        (StrategyMode.INCREMENTAL_MERGE, SourceState.NOT_APPLICABLE, "updated by their key"),
        (StrategyMode.INCREMENTAL_APPEND, SourceState.NOT_APPLICABLE, "before any task is cleared"),
    ],
)
def test_the_advice_for_a_load_of_an_earlier_attempt_knows_state_and_strategy(
    strategy: StrategyMode, state: SourceState, says: str
) -> None:
    load = own(LOAD, succeeded(source_state=state), strategy=strategy)
    judged = verdict(hook={"received": own(HOOK, LATER).wire()}, load={"received": load.wire()})
    assert says in judged.advice and "committed by an earlier attempt" in judged.advice
    assert judged.retry_classification == "retry_may_repeat_target_mutation"


NEVER_RAN: dict[str, Any] = {"received": None, "task_state": "failed", "not_started": "ErrImagePull"}


@pytest.mark.parametrize("policy", list(WithoutReceipt))
def test_a_try_whose_container_never_ran_is_repeated_whatever_the_step_does(policy: WithoutReceipt) -> None:
    end = StepEnd(receipt=None, exit_code=None, not_started="ErrImagePull")
    contract = replace(LOAD, without_receipt=policy)
    assert decide_retry(end, contract) is RetryDecision.RETRY
    assert "DPONE_POD_NOT_STARTED: ErrImagePull" in failure_message(end, RetryDecision.RETRY, contract)


@pytest.mark.parametrize("exit_code", [0, 1, 137])
def test_a_container_that_has_ended_did_run(exit_code: int) -> None:
    end = StepEnd(receipt=None, exit_code=exit_code, not_started="ErrImagePull")
    assert decide_retry(end, replace(LOAD, without_receipt=WithoutReceipt.STOP)) is RetryDecision.STOP


def test_a_load_that_never_ran_is_told_as_not_mutated() -> None:
    contract = replace(LOAD, without_receipt=WithoutReceipt.STOP)
    judged = judge((observation(VERIFY), observation(HOOK), observation(contract, **NEVER_RAN)))
    assert primary(judged) == ("dpone_run_flights", "DPONE_POD_NOT_STARTED")
    assert judged.retry_classification == "retry_before_target_mutation"
    assert "a retry repeats nothing in the target" in judged.advice
    assert "target: not mutated by this run, the load did not start" in judged.summary()


def test_what_an_earlier_try_did_is_not_forgotten() -> None:
    judged = verdict(load={**NEVER_RAN, "tries_before": True})
    assert judged.retry_classification == "retry_may_repeat_target_mutation"
    assert "target: not known, the load left no receipt" in judged.summary()


@pytest.mark.parametrize("policy", list(WithoutReceipt))
@pytest.mark.parametrize("exit_code", [None, 1, 137])
def test_the_gate_is_never_stricter_than_the_operator(policy: WithoutReceipt, exit_code: int | None) -> None:
    contract = replace(LOAD, without_receipt=policy)
    repeated = decide_retry(StepEnd(receipt=None, exit_code=exit_code), contract) is RetryDecision.RETRY
    lost = observation(contract, received=None, task_state="failed", exit_code=exit_code)
    judged = judge((observation(VERIFY), observation(HOOK), lost))
    assert (judged.retry_classification == "operator_verification_required") is not repeated


def test_a_run_that_was_skipped_from_outside_is_skipped_and_a_part_of_it_fails() -> None:
    skipped = tuple(observation(contract, received=None, task_state="skipped") for contract in (VERIFY, HOOK, LOAD))
    assert is_skipped(skipped)
    assert not is_skipped((*skipped[:2], replace(skipped[2], task_state="upstream_failed")))
    assert not is_skipped((replace(skipped[0], received=own(VERIFY).wire()), *skipped[1:]))
    assert not judge(skipped).passed


def test_a_load_under_the_run_spec_before_is_told_with_what_it_committed() -> None:
    before = {"run_spec_fingerprint": "sha256:" + "7" * 64}
    judged = judge(
        tuple(observation(contract, received=own(contract, **before).wire()) for contract in (VERIFY, HOOK, LOAD))
    )
    assert primary(judged) == ("bundle_verify", "DPONE_RUN_SPEC_CHANGED")
    assert judged.mapping()["target_state"] == "mutation_returned_success"
    assert judged.advice == (
        "the load was committed under the run-spec before and its source state has advanced: clear the task of "
        "bundle_verify, the tasks behind it and the gate; it loads none of that again"
    )
    assert (
        judged.primary is not None
        and "7" * 64 in judged.primary.reason
        and LOAD.run_spec_fingerprint in judged.primary.reason
    )


def test_a_step_before_a_load_that_passed_is_not_cleared_alone() -> None:
    """Its new receipt would make the load's one out of order: the load has to follow it."""
    before = {"run_spec_fingerprint": "sha256:" + "7" * 64}
    verify = observation(VERIFY, received=own(VERIFY, **before).wire())
    judged = judge((verify, observation(HOOK), observation(LOAD)))
    assert primary(judged) == ("bundle_verify", "DPONE_RUN_SPEC_CHANGED")
    assert judged.advice.startswith("the load was committed behind bundle_verify, which does not count any more")
    assert "clear the task of bundle_verify, the tasks behind it and the gate" in judged.advice
