"""A step receipt is one small, flat, whole JSON object that says one thing; anything else is refused (POD-17)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_core.contracts.step_receipt import (
    MAX_CODE_LINE_BYTES,
    MAX_RECEIPT_BYTES,
    MAX_TERMINATION_BYTES,
    EvidenceReference,
    StepCounters,
    StepReceipt,
    parse_receipt,
    receipt_from_termination,
    seal,
    termination_message,
    wire_id,
)
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.vocabulary import (
    Boundary,
    CheckpointState,
    RetryClassification,
    SourceState,
    StepKind,
    StepStatus,
    StrategyMode,
    TargetState,
)
from tests.spec.contracts.documents import (
    FINISHED,
    SHA_A,
    STARTED,
    VERSION,
    failed,
    identity,
    receipt,
    refused,
    succeeded,
    tampered,
)

FIELDS_OF_THE_DESIGN = [
    "schema",
    "dpone_version",
    "step_id",
    "kind",
    "process",
    "status",
    "exit_code",
    "error_code",
    "dag_id",
    "dag_run_id",
    "run_id",
    "load_id",
    "try_number",
    "map_index",
    "run_spec_fingerprint",
    "pack_fingerprint",
    "policy_snapshot_id",
    "sql_hash",
    "upstream",
    "transfer_plan",
    "partitions",
    "strategy",
    "failure_boundary",
    "target_state",
    "checkpoint_state",
    "source_state",
    "retry_classification",
    "failed_gate",
    "gate_failed_rows",
    "gate_evaluated_rows",
    "extracted_rows",
    "staged_rows",
    "inserted_rows",
    "updated_rows",
    "final_rows",
    "gates_passed",
    "gates_failed",
    "gates_warned",
    "gates_skipped",
    "acceptance_required",
    "acceptance_sides",
    "acceptance_warnings",
    "started_at",
    "finished_at",
    "evidence_path",
    "evidence_sha256",
    "digest",
]


def resealed(**changes: Any) -> dict[str, Any]:
    """A valid receipt with other values and a digest that fits them."""
    document = {**receipt().wire(), **changes}
    document.pop("digest")
    return {**document, "digest": fingerprint(document)}


def code_of(value: object) -> str:
    with pytest.raises(ContractInvalidError) as caught:
        parse_receipt(value)
    return caught.value.code


def largest(text: str) -> StepReceipt:
    counters = {
        name: True if name == "acceptance_required" else 2**63 - 1 if name.endswith("rows") else 2**31 - 1
        for name in StepCounters.__slots__
    }
    return seal(
        dpone_version="9999.9999." + "9" * 32,
        identity=identity(
            kind=StepKind.TRANSFER_PARTITION,
            step_id="s" * 150,
            process="p" * 128,
            dag_id=text,
            dag_run_id=text,
            run_id=text,
            try_number=2**31 - 1,
            map_index=2**31 - 2,
            sql_hash=SHA_A,
            transfer_plan=SHA_A,
            partitions=2**31 - 1,
            strategy=StrategyMode.INCREMENTAL_APPEND,
        ),
        result=failed(
            status=StepStatus.INTERRUPTED,
            exit_code=143,
            error_code="E" * 96,
            failure_boundary=Boundary.RESUME_VALIDATION,
            target_state=TargetState.MUTATION_RETURNED_SUCCESS,
            checkpoint_state=CheckpointState.NOT_APPLICABLE,
            source_state=SourceState.NOT_APPLICABLE,
            retry_classification=RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
            failed_gate="g" * 64,
            gate_failed_rows=2**63 - 1,
            gate_evaluated_rows=2**63 - 1,
        ),
        counters=StepCounters(**counters),
        evidence=EvidenceReference(path="a" * 512, sha256=SHA_A),
    )


def test_the_fields_are_those_of_the_design_in_their_order() -> None:
    assert list(json.loads(receipt().encode())) == FIELDS_OF_THE_DESIGN


def test_a_gate_that_failed_is_named_only_where_one_failed() -> None:
    named = receipt(failed(failed_gate="enough"), counters=StepCounters(gates_failed=1))
    assert parse_receipt(named.encode().decode()).failed_gate == "enough"
    with pytest.raises(ContractInvalidError):
        receipt(failed(failed_gate="enough"), counters=StepCounters(gates_failed=0))


def test_figures_of_a_gate_need_the_gate() -> None:
    counters = StepCounters(gates_failed=1)
    counted = failed(failed_gate="enough", gate_failed_rows=2, gate_evaluated_rows=3)
    assert parse_receipt(receipt(counted, counters=counters).encode().decode()).gate_failed_rows == 2
    for figures in ({"gate_failed_rows": 2}, {"gate_evaluated_rows": 3}):
        with pytest.raises(ContractInvalidError):
            receipt(failed(**figures), counters=counters)


def test_the_encoded_receipt_is_one_line_of_flat_ascii_json() -> None:
    encoded = receipt(dag_run_id="zażółć\n\U0001f600").encode()
    assert encoded.isascii() and b"\n" not in encoded
    assert all(not isinstance(value, (dict, list, float)) for value in json.loads(encoded).values())


def test_a_receipt_survives_its_encoding() -> None:
    sealed = receipt(dag_run_id="zażółć \U0001f600")
    assert parse_receipt(sealed.encode()) == sealed
    assert parse_receipt(sealed.wire()) == sealed


def test_a_mapping_and_json_text_are_accepted_and_json_text_of_json_text_is_not() -> None:
    text = receipt().encode().decode()
    assert parse_receipt(json.loads(text)) == parse_receipt(text)
    assert code_of(json.dumps(text)) == "DPONE_RECEIPT_INVALID"


@pytest.mark.parametrize(
    "value", [None, [], [1], 1, 1.5, True, float("nan"), "null", "[]", "1", "NaN", "", "{}", {}, '"text"', b"\xff"]
)
def test_no_other_shape_is_a_receipt(value: object) -> None:
    assert code_of(value) == "DPONE_RECEIPT_INVALID"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_proper_prefix_is_a_receipt(data: st.DataObject) -> None:
    encoded = receipt(data.draw(st.sampled_from([succeeded(), failed(), refused()]))).encode()
    cut = data.draw(st.integers(0, len(encoded) - 1))
    assert code_of(encoded[:cut]) == "DPONE_RECEIPT_INVALID"
    assert receipt_from_termination("CODE: sentence\n" + encoded[:cut].decode()) is None


@pytest.mark.parametrize("size", [MAX_RECEIPT_BYTES + 1, 32_767, 32_768, 32_769, 5_000_000])
def test_an_oversized_document_is_refused_unread(size: int) -> None:
    assert code_of(receipt().encode() + b" " * (size - len(receipt().encode()))) == "DPONE_RECEIPT_INVALID"
    assert code_of(tampered(receipt().wire(), run_id="x" * size)) == "DPONE_RECEIPT_INVALID"


@pytest.mark.parametrize("text", ["a" * 256, '"' * 256, "ż" * 256, "\U0001f600" * 256, "\x01" * 256, "\ud800" * 256])
def test_the_largest_receipt_fits_whatever_the_ids_hold(text: str) -> None:
    sealed = largest(text)
    assert len(sealed.encode()) <= MAX_RECEIPT_BYTES
    assert len(termination_message("C" * 9999, sealed)) <= MAX_TERMINATION_BYTES
    assert parse_receipt(sealed.encode()) == sealed


def test_a_receipt_whose_ids_were_not_bounded_is_refused() -> None:
    ids = dict.fromkeys(("dag_id", "dag_run_id", "run_id"), "\U0001f600" * 256)
    assert code_of(resealed(**ids)) == "DPONE_RECEIPT_INVALID"


@given(st.text(min_size=1, max_size=400))
@settings(deadline=None)
def test_every_id_has_a_bounded_form(text: str) -> None:
    assert 0 < len(json.dumps(wire_id(text))) - 2 <= 256


def test_an_ordinary_id_travels_unchanged_and_long_ones_stay_distinct() -> None:
    assert wire_id("scheduled__2026-11-29T00:00:00+00:00") == "scheduled__2026-11-29T00:00:00+00:00"
    assert wire_id("ż" * 255 + "a") != wire_id("ż" * 255 + "b")
    assert wire_id("ż" * 256).startswith("ż" * 20)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"surprise": 1}, "surprise"),
        ({"exit_code": True}, "exit_code"),
        ({"exit_code": "0"}, "exit_code"),
        ({"final_rows": -1}, "final_rows"),
        ({"final_rows": 2**63}, "final_rows"),
        ({"map_index": -2}, "map_index"),
        ({"kind": "publish"}, "kind"),
        ({"status": "ok"}, "status"),
        ({"process": None, "step_id": "UPPER"}, "step_id"),
        ({"load_id": "01KB6Q4X7D8M1T9N3VZ5C2R0A"}, "load_id"),
        ({"digest": "sha256:" + "0" * 64}, ""),
        ({"run_spec_fingerprint": "sha256:" + "A" * 64}, "run_spec_fingerprint"),
        ({"started_at": "2026-11-29 15:01:41"}, "started_at"),
        ({"evidence_path": "/etc/passwd"}, "evidence_path"),
        ({"error_code": "it said: connection to x failed"}, "error_code"),
        ({"dag_id": ""}, "dag_id"),
    ],
)
def test_a_field_that_breaks_its_rule_is_named(changes: dict[str, Any], path: str) -> None:
    document = tampered(receipt().wire(), **changes) if "digest" in changes else resealed(**changes)
    with pytest.raises(ContractInvalidError) as caught:
        parse_receipt(document)
    assert (caught.value.code, caught.value.path) == ("DPONE_RECEIPT_INVALID", path)


@pytest.mark.parametrize("value", [0.5, [1], {"rows": [1]}, float("nan")])
def test_floats_and_nested_values_are_refused(value: object) -> None:
    assert code_of(tampered(receipt().wire(), final_rows=value)) == "DPONE_RECEIPT_INVALID"


def test_a_duplicate_key_is_refused() -> None:
    text = receipt().encode().decode()
    assert code_of(text[:-1] + ',"exit_code":0}') == "DPONE_RECEIPT_INVALID"


def test_a_changed_value_breaks_the_digest() -> None:
    assert code_of(tampered(receipt().wire(), final_rows=1)) == "DPONE_RECEIPT_INVALID"


def test_another_contract_version_is_refused_by_name() -> None:
    with pytest.raises(ContractInvalidError, match=r"dpone\.step_receipt\.v1.*dpone\.step_receipt\.v2") as caught:
        parse_receipt(tampered(receipt().wire(), schema="dpone.step_receipt.v2"))
    assert caught.value.code == "DPONE_RECEIPT_VERSION_UNSUPPORTED"


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 1},
        {"exit_code": 2},
        {"exit_code": 143},
        {"error_code": "DPONE_X"},
        {"retry_classification": "retry_before_target_mutation"},
        {"failure_boundary": "pre_commit"},
        {"status": "failed"},
        {"status": "refused", "error_code": "DPONE_X", "exit_code": 1},
        {"status": "failed", "error_code": "DPONE_X", "exit_code": 2},
        {"status": "failed", "error_code": "DPONE_X", "exit_code": 130},
        {"status": "interrupted", "error_code": "DPONE_X", "exit_code": 1},
        {"status": "failed", "exit_code": 1},
        {"source_state": "not_advanced"},
        {"source_state": "unknown"},
        {"source_state": None},
        {"target_state": "unknown"},
        {"checkpoint_state": "unknown"},
        {"evidence_path": None},
        {"evidence_path": None, "evidence_sha256": None},
        {"evidence_sha256": None},
        {"evidence_path": "runs/../../secret"},
        {"gates_failed": 1},
        {"finished_at": "2026-11-29T15:01:40Z"},
    ],
)
def test_a_receipt_cannot_contradict_itself(changes: dict[str, Any]) -> None:
    assert code_of(resealed(**changes)) == "DPONE_RECEIPT_INVALID"


def test_a_contradiction_cannot_be_sealed() -> None:
    with pytest.raises(ContractInvalidError, match="source_state"):
        receipt(succeeded(source_state=SourceState.NOT_ADVANCED))


def test_a_time_without_zone_cannot_be_sealed() -> None:
    naive = datetime(2026, 11, 29, 15, 1)
    with pytest.raises(ContractInvalidError, match="zone"):
        receipt(succeeded(started_at=naive))


def test_a_hook_and_a_verification_need_no_evidence() -> None:
    for kind in (StepKind.HOOK, StepKind.BUNDLE_VERIFY):
        result = succeeded(target_state=None, checkpoint_state=None, source_state=None)
        sealed = seal(dpone_version=VERSION, identity=identity(kind=kind, load_id=None), result=result)
        assert parse_receipt(sealed.encode()).evidence_path is None


def test_a_refusal_before_anything_is_known_still_leaves_a_receipt() -> None:
    unknown = identity(process=None, policy_snapshot_id=None, pack_fingerprint=None, load_id=None, run_id=None)
    assert seal(dpone_version=VERSION, identity=unknown, result=refused()).status is StepStatus.REFUSED


def test_counters_that_were_not_measured_are_null_never_zero() -> None:
    assert receipt(counters=StepCounters()).wire()["final_rows"] is None


def test_the_termination_message_is_a_code_line_and_the_receipt() -> None:
    sealed = receipt(failed())
    message = termination_message("DPONE_QUALITY_GATES_FAILED: one gate\nfailed", sealed).decode()
    assert message.splitlines()[0] == "DPONE_QUALITY_GATES_FAILED: one gate failed"
    assert receipt_from_termination(message) == sealed


def test_the_code_line_is_bounded_ascii() -> None:
    line = termination_message("ż" * 2000, receipt()).splitlines()[0]
    assert line.isascii() and len(line) == MAX_CODE_LINE_BYTES


def test_a_termination_message_without_receipt_is_its_code_line() -> None:
    assert termination_message("DPONE_X: why", None) == b"DPONE_X: why\n"


@pytest.mark.parametrize("text", [None, "", "\n", "Killed", "DPONE_X: why", 'DPONE_X: why\n{"schema":"x"}', 7])
def test_a_termination_message_without_a_whole_receipt_holds_none(text: object) -> None:
    assert receipt_from_termination(text) is None


def test_a_termination_receipt_with_a_broken_digest_is_not_taken() -> None:
    assert receipt_from_termination(json.dumps(tampered(receipt().wire(), final_rows=1))) is None


def test_times_are_written_in_utc() -> None:
    sealed = receipt(succeeded(started_at=STARTED.astimezone(UTC), finished_at=FINISHED))
    assert (sealed.started_at, sealed.finished_at) == ("2026-11-29T15:01:41Z", "2026-11-29T15:01:52Z")
