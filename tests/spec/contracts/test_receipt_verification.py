"""A receipt is accepted only if it belongs to this step, run, bundle, policy and version and succeeded (AIR-15)."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_core.contracts.receipt_verification import examine, verify
from dpone_core.contracts.step_receipt import StepIdentity, seal
from dpone_core.model.vocabulary import StepKind
from tests.spec.contracts.documents import (
    SHA_A,
    SHA_D,
    VERSION,
    expectation,
    failed,
    identity,
    receipt,
    refused,
    succeeded,
    tampered,
)

MISMATCH = "DPONE_RECEIPT_MISMATCH"


def bare(ids: StepIdentity, **result: Any) -> Any:
    states = {"target_state": None, "checkpoint_state": None, "source_state": None}
    return seal(dpone_version=VERSION, identity=ids, result=succeeded(**{**states, **result}))


def test_its_own_succeeded_receipt_has_no_problem() -> None:
    assert verify(receipt(), expectation()) == ()


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("dag_id", "orders"),
        ("dag_run_id", "scheduled__2026-11-28T00:00:00+00:00"),
        ("map_index", 3),
        ("pack_fingerprint", SHA_D),
        ("policy_snapshot_id", SHA_D),
        ("step_id", "dpone_run_orders"),
        ("process", "orders"),
        ("sql_hash", SHA_D),
    ],
)
def test_a_receipt_of_something_else_is_a_mismatch_that_names_the_field(field: str, other: object) -> None:
    problems = verify(receipt(), expectation(**{field: other}))
    assert [(problem.code, problem.field) for problem in problems] == [(MISMATCH, field)]


DEPLOYED = {"run_spec_fingerprint": SHA_D, "pack_fingerprint": SHA_D, "policy_snapshot_id": SHA_D}


@pytest.mark.parametrize("changes", [{"run_spec_fingerprint": SHA_D}, DEPLOYED])
def test_a_receipt_under_the_run_spec_before_is_told_with_both_fingerprints_and_not_accepted(
    changes: dict[str, str],
) -> None:
    examined = examine(receipt().wire(), expectation(**changes))
    (problem,) = examined.problems
    assert problem.code == "DPONE_RUN_SPEC_CHANGED" and SHA_A in problem.message and SHA_D in problem.message
    assert examined.receipt is None and not examined.is_accepted
    assert examined.of_another_run_spec == receipt(), "what it says of the target is true"


@pytest.mark.parametrize("other", [{"dag_run_id": "other"}, {"process": "orders"}, {"map_index": 1}])
def test_a_receipt_of_another_run_is_none_of_this_one_s_whatever_run_spec_it_names(other: dict[str, Any]) -> None:
    examined = examine(receipt().wire(), expectation(**DEPLOYED, **other))
    assert examined.of_another_run_spec is None and "DPONE_RUN_SPEC_CHANGED" not in {
        problem.code for problem in examined.problems
    }


def test_a_receipt_of_another_kind_is_a_mismatch() -> None:
    problems = verify(receipt(), expectation(kind=StepKind.HOOK))
    assert [(problem.code, problem.field) for problem in problems] == [(MISMATCH, "kind")]


@pytest.mark.parametrize("field", ["dag_id", "dag_run_id", "run_spec_fingerprint", "pack_fingerprint", "process"])
def test_a_success_must_know_what_it_belongs_to(field: str) -> None:
    assert [problem.field for problem in verify(receipt(**{field: None}), expectation())] == [field]


UNKNOWN_TO_A_REFUSAL = ["dag_id", "dag_run_id", "run_spec_fingerprint", "step_id", "process", "policy_snapshot_id"]


@pytest.mark.parametrize("field", UNKNOWN_TO_A_REFUSAL)
def test_a_refusal_may_not_know_yet_and_is_no_mismatch(field: str) -> None:
    problems = verify(receipt(refused(), **{field: None}), expectation())
    assert [problem.code for problem in problems] == ["DPONE_RECEIPT_NOT_SUCCEEDED"]


@pytest.mark.parametrize(("field", "known"), [("dag_run_id", True), ("step_id", True), ("process", False)])
def test_a_failure_knows_its_run_and_may_not_know_the_rest(field: str, known: bool) -> None:
    codes = [problem.code for problem in verify(receipt(failed(), **{field: None}), expectation())]
    assert (MISMATCH in codes) is known


def test_a_refusal_of_another_run_is_a_mismatch() -> None:
    assert verify(receipt(refused(), dag_run_id="other"), expectation())[0].code == MISMATCH


def test_a_failure_of_another_run_is_a_mismatch_as_well() -> None:
    codes = [problem.code for problem in verify(receipt(failed(), dag_run_id="other"), expectation())]
    assert codes == [MISMATCH, "DPONE_RECEIPT_NOT_SUCCEEDED"]


def test_a_bundle_verification_speaks_for_all_processes() -> None:
    ids = identity(
        kind=StepKind.BUNDLE_VERIFY, step_id="bundle_verify", process=None, policy_snapshot_id=None, load_id=None
    )
    assert verify(bare(ids), expectation(kind=StepKind.BUNDLE_VERIFY, step_id="bundle_verify")) == ()


@pytest.mark.parametrize(("sql_hash", "accepted"), [(SHA_D, True), (None, False), ("sha256:" + "e" * 64, False)])
def test_a_hook_receipt_proves_the_sql_that_was_reviewed(sql_hash: str | None, accepted: bool) -> None:
    ids = identity(kind=StepKind.HOOK, step_id="pre_hook_x", load_id=None, sql_hash=sql_hash)
    wanted = expectation(kind=StepKind.HOOK, step_id="pre_hook_x", sql_hash=SHA_D)
    assert examine(bare(ids).wire(), wanted).is_accepted is accepted


@pytest.mark.parametrize(
    ("version", "accepted"),
    [("0.1.0", True), ("0.1.9", True), ("0.2.0", True), ("0.0.9", False), ("1.1.0", False)],
)
def test_an_image_may_differ_in_its_minor_version_within_the_declared_range(version: str, accepted: bool) -> None:
    problems = verify(receipt(version=version), expectation())
    assert (problems == ()) is accepted
    if not accepted:
        assert problems[0].code == "DPONE_RECEIPT_VERSION_UNSUPPORTED"
        assert version in problems[0].message and VERSION in problems[0].message


@pytest.mark.parametrize("value", [None, "", "null"])
def test_an_absent_receipt_is_required(value: object) -> None:
    examined = examine(value, expectation())
    assert (examined.receipt, [problem.code for problem in examined.problems]) == (None, ["DPONE_RECEIPT_REQUIRED"])


@pytest.mark.parametrize("value", [[], 0, "{", {"status": "succeeded"}, '"{}"', float("nan"), object()])
def test_a_value_that_is_no_receipt_is_invalid_and_never_raises(value: object) -> None:
    examined = examine(value, expectation())
    assert (examined.receipt, [problem.code for problem in examined.problems]) == (None, ["DPONE_RECEIPT_INVALID"])


def test_a_receipt_of_a_later_contract_is_unsupported() -> None:
    examined = examine(tampered(receipt().wire(), schema="dpone.step_receipt.v9"), expectation())
    assert [problem.code for problem in examined.problems] == ["DPONE_RECEIPT_VERSION_UNSUPPORTED"]


def test_a_foreign_receipt_is_not_handed_on() -> None:
    assert examine(receipt(dag_run_id="other").wire(), expectation()).receipt is None


def test_its_own_failure_is_handed_on_and_not_accepted() -> None:
    examined = examine(receipt(failed()).wire(), expectation())
    assert examined.receipt is not None and not examined.is_accepted


def test_an_over_long_run_id_is_still_recognised() -> None:
    long_id = "ż" * 250
    assert examine(receipt(dag_run_id=long_id).wire(), expectation(dag_run_id=long_id)).is_accepted
    assert not examine(receipt(dag_run_id=long_id).wire(), expectation(dag_run_id=long_id + "x")).is_accepted
