"""dpone.step_receipt.v1: the record one step leaves about itself, one flat ASCII JSON object of at most 3,584 bytes.

Every exit writes one. It travels through Airflow's XCom and through the pod's termination message; the load step, the
operator and the outcome gate check it (contracts.receipt_verification). It holds ids, hashes, words of closed sets and
counters: no free text, rows, SQL, URLs or secrets. `digest` detects damage and mix-ups; it is not a signature.

An id longer than 256 bytes in escaped form is shortened to its beginning, `~` and its sha256 (`wire_id`), so that every
run can leave a receipt.
Contract: POD-04, POD-17, POD-19, AIR-09, AIR-11, AIR-26.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from dpone_core.contracts.wire import (
    Contract,
    ContractInvalidError,
    Fingerprint,
    ProcessName,
    StepId,
    json_object,
    validate_value,
)
from dpone_core.errors import ErrorCode
from dpone_core.model.fingerprint import fingerprint, sha256_text
from dpone_core.model.repetition import Repetition, repetition_of
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

RECEIPT_SCHEMA: Final = "dpone.step_receipt.v1"
RECEIPT_INVALID: Final = ErrorCode("DPONE_RECEIPT_INVALID")
RECEIPT_VERSION_UNSUPPORTED: Final = ErrorCode("DPONE_RECEIPT_VERSION_UNSUPPORTED")
MAX_RECEIPT_BYTES: Final = 3584
MAX_CODE_LINE_BYTES: Final = 500
MAX_TERMINATION_BYTES: Final = 4096
MAX_ID_BYTES: Final = 256

_INTERRUPTED_EXITS: Final = frozenset({130, 143})
_TRANSFER_KINDS: Final = frozenset({StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION})

WireId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_BYTES)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
SmallCount = Annotated[int, Field(ge=0, le=2**31 - 1)]
Instant = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
EvidencePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,511}$")]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\.[0-9A-Za-z.+-]{1,32}$")]
GateId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,95}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepIdentity:
    """Which step of which run this is. None means unknown: a run outside Airflow, or a refusal before the value was
    read.

    `upstream` is `upstream_fingerprint` of the receipts before it that this step was given, None for a step that has
    none before it.

    `transfer_plan` is the fingerprint of the key ranges that the step planned, staged or published, `partitions` their
    number including the NULL partition; both are None for steps without key ranges. `strategy` is set for a load.
    """

    kind: StepKind
    step_id: str | None = None
    process: str | None = None
    dag_id: str | None = None
    dag_run_id: str | None = None
    run_id: str | None = None
    load_id: str | None = None
    try_number: int = 1
    map_index: int = -1
    run_spec_fingerprint: str | None = None
    pack_fingerprint: str | None = None
    policy_snapshot_id: str | None = None
    sql_hash: str | None = None
    upstream: str | None = None
    transfer_plan: str | None = None
    partitions: int | None = None
    strategy: StrategyMode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """How a step ended. The boundary, the three states and the retry class are None for steps that have no target:
    bundle_verify, hooks and transfer steps. `failed_gate` is the first gate that blocked the load;
    `gate_failed_rows` of the `gate_evaluated_rows` rows that it judged break its rule, each None where it counts none.
    """

    status: StepStatus
    exit_code: int
    started_at: datetime
    finished_at: datetime
    error_code: str | None = None
    failure_boundary: Boundary | None = None
    target_state: TargetState | None = None
    checkpoint_state: CheckpointState | None = None
    source_state: SourceState | None = None
    retry_classification: RetryClassification | None = None
    failed_gate: str | None = None
    gate_failed_rows: int | None = None
    gate_evaluated_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounters:
    """Numbers of rows, gates and acceptance sides. None means not measured and is never replaced by zero."""

    extracted_rows: int | None = None
    staged_rows: int | None = None
    inserted_rows: int | None = None
    updated_rows: int | None = None
    final_rows: int | None = None
    gates_passed: int | None = None
    gates_failed: int | None = None
    gates_warned: int | None = None
    gates_skipped: int | None = None
    acceptance_required: bool | None = None
    acceptance_sides: int | None = None
    acceptance_warnings: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReference:
    """The stored record of the attempt: its path relative to the evidence directory and the sha256 of its bytes."""

    path: str
    sha256: str


class StepReceipt(Contract):
    """A receipt whose fields agree and whose digest is right. Whether it is the expected receipt is decided by
    `verify`.
    """

    contract: Literal["dpone.step_receipt.v1"] = Field(alias="schema")
    dpone_version: Version
    step_id: StepId | None
    kind: StepKind
    process: ProcessName | None
    status: StepStatus
    exit_code: Annotated[int, Field(ge=0, le=255)]
    error_code: Code | None
    dag_id: WireId | None
    dag_run_id: WireId | None
    run_id: WireId | None
    load_id: Annotated[str, StringConstraints(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")] | None
    try_number: SmallCount
    map_index: Annotated[int, Field(ge=-1, le=2**31 - 1)]
    run_spec_fingerprint: Fingerprint | None
    pack_fingerprint: Fingerprint | None
    policy_snapshot_id: Fingerprint | None
    sql_hash: Fingerprint | None
    upstream: Fingerprint | None
    transfer_plan: Fingerprint | None
    partitions: SmallCount | None
    strategy: StrategyMode | None
    failure_boundary: Boundary | None
    target_state: TargetState | None
    checkpoint_state: CheckpointState | None
    source_state: SourceState | None
    retry_classification: RetryClassification | None
    failed_gate: GateId | None
    gate_failed_rows: Count | None
    gate_evaluated_rows: Count | None
    extracted_rows: Count | None
    staged_rows: Count | None
    inserted_rows: Count | None
    updated_rows: Count | None
    final_rows: Count | None
    gates_passed: SmallCount | None
    gates_failed: SmallCount | None
    gates_warned: SmallCount | None
    gates_skipped: SmallCount | None
    acceptance_required: bool | None
    acceptance_sides: SmallCount | None
    acceptance_warnings: SmallCount | None
    started_at: Instant
    finished_at: Instant
    evidence_path: EvidencePath | None
    evidence_sha256: Fingerprint | None
    digest: Fingerprint

    @model_validator(mode="after")
    def _require_consistent_fields(self) -> Self:
        succeeded = self.status is StepStatus.SUCCEEDED
        if (self.exit_code == 0) != succeeded or (self.error_code is None) != succeeded:
            raise ValueError("status, exit_code and error_code must agree: a success has exit code 0 and no error code")
        if (self.exit_code == 2) != (self.status is StepStatus.REFUSED):
            raise ValueError("status refused and exit code 2 must appear together")
        if (self.exit_code in _INTERRUPTED_EXITS) != (self.status is StepStatus.INTERRUPTED):
            raise ValueError("status interrupted and exit code 130 or 143 must appear together")
        if succeeded and (self.retry_classification, self.failure_boundary) != (None, None):
            raise ValueError("a success must have neither retry_classification nor failure_boundary")
        if (self.evidence_path is None) != (self.evidence_sha256 is None):
            raise ValueError("evidence_path and evidence_sha256 must both be given or both be null")
        if self.evidence_path is not None and ".." in self.evidence_path.split("/"):
            raise ValueError("evidence_path must stay inside the evidence directory")
        if self.finished_at < self.started_at:
            raise ValueError("finished_at is before started_at")
        if self.failed_gate is not None and not self.gates_failed:
            raise ValueError("failed_gate must be null where no gate has failed")
        if self.failed_gate is None and (self.gate_failed_rows, self.gate_evaluated_rows) != (None, None):
            raise ValueError("gate_failed_rows and gate_evaluated_rows must be null without a failed_gate")
        self._require_one_plan()
        if succeeded and self.kind is StepKind.LOAD:
            self._require_proof_of_the_load()
        if succeeded and self.kind in _TRANSFER_KINDS:
            self._require_proof_of_the_transfer()
        return self

    @model_validator(mode="after")
    def _require_digest_and_size(self) -> Self:
        if self.digest != _digest_of(self.wire()):
            raise ValueError("digest does not match the content")
        if len(self.encode()) > MAX_RECEIPT_BYTES:
            raise ValueError(f"the receipt is larger than {MAX_RECEIPT_BYTES} bytes")
        return self

    @property
    def repetition(self) -> Repetition | None:
        """What a repeat does to the target that holds this load; None where retry_classification says all."""
        return repetition_of(self.retry_classification, self.target_state, self.source_state, self.strategy)

    def encode(self) -> bytes:
        """The bytes of the file and of the XCom value: one line of ASCII JSON in the order of the contract, no
        newline.
        """
        text = json.dumps(self.wire(), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return text.encode("ascii")

    def _require_one_plan(self) -> None:
        if (self.transfer_plan is None) != (self.partitions is None):
            raise ValueError("transfer_plan and partitions must both be given or both be null")
        if self.partitions is None:
            return
        if self.kind is not StepKind.LOAD and self.kind not in _TRANSFER_KINDS:
            raise ValueError("only steps that plan, stage or publish key ranges may have a transfer_plan")
        if self.partitions == 0:
            raise ValueError("a transfer plan has at least one partition")
        if self.kind is StepKind.TRANSFER_PARTITION and self.map_index >= self.partitions:
            raise ValueError("map_index is not one of the planned partitions")

    def _require_proof_of_the_transfer(self) -> None:
        if self.transfer_plan is None:
            raise ValueError(f"a succeeded {self.kind.value} must name its transfer_plan and its partitions")
        if self.target_state not in (None, TargetState.NOT_MUTATED):
            raise ValueError(f"target_state of a succeeded {self.kind.value} must be null or not_mutated")
        if self.kind is StepKind.TRANSFER_PARTITION and None in (self.extracted_rows, self.staged_rows):
            raise ValueError("a succeeded transfer_partition must state extracted_rows and staged_rows")

    def _require_proof_of_the_load(self) -> None:
        if self.source_state not in (SourceState.ADVANCED, SourceState.NOT_APPLICABLE):
            raise ValueError("source_state of a succeeded load must be advanced or not_applicable")
        if self.evidence_path is None:
            raise ValueError("a succeeded load must state evidence_path")
        if self.target_state is TargetState.UNKNOWN or self.checkpoint_state is CheckpointState.UNKNOWN:
            raise ValueError("target_state and checkpoint_state of a succeeded load must not be unknown")
        if self.gates_failed:
            raise ValueError("gates_failed of a succeeded load must be 0 or null")


def seal(
    *,
    dpone_version: str,
    identity: StepIdentity,
    result: StepResult,
    counters: StepCounters | None = None,
    evidence: EvidenceReference | None = None,
) -> StepReceipt:
    """Builds a receipt with its digest. Times must be aware. Raises ContractInvalidError, code
    DPONE_RECEIPT_INVALID, when the fields contradict each other.
    """
    counted = counters or StepCounters()
    document: dict[str, object] = {
        "schema": RECEIPT_SCHEMA,
        "dpone_version": dpone_version,
        **{name: getattr(identity, name) for name in StepIdentity.__slots__},
        **{name: getattr(result, name) for name in StepResult.__slots__},
        **{name: getattr(counted, name) for name in StepCounters.__slots__},
        "started_at": _instant(result.started_at),
        "finished_at": _instant(result.finished_at),
        "evidence_path": evidence.path if evidence else None,
        "evidence_sha256": evidence.sha256 if evidence else None,
    }
    for name in ("dag_id", "dag_run_id", "run_id"):
        text = document[name]
        document[name] = wire_id(text) if isinstance(text, str) else None
    document["digest"] = _digest_of(document)
    return validate_value(StepReceipt, document, what="receipt", code=RECEIPT_INVALID)


def upstream_fingerprint(digests: Mapping[str, str | None]) -> str:
    """One fingerprint for the receipts of the steps that a step waits for: step id -> `digest`, None for no receipt.

    A receipt of a step that ran again has another digest, so whoever holds the same receipts computes the same value.
    """
    return fingerprint(dict(digests))


def wire_id(text: str) -> str:
    """The form of an id in a receipt: the id itself, or, above 256 escaped bytes, its beginning, `~` and its sha256."""
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if _escaped_size(clean) <= MAX_ID_BYTES:
        return clean
    suffix = "~" + sha256_text(clean)
    room, kept = MAX_ID_BYTES - len(suffix), ""
    for character in clean:
        room -= _escaped_size(character)
        if room < 0:
            break
        kept += character
    return kept + suffix


class ReceiptVersionError(ContractInvalidError):
    """The receipt follows another version of the contract than this dpone reads."""

    code = RECEIPT_VERSION_UNSUPPORTED


def parse_receipt(value: object) -> StepReceipt:
    """Parses a receipt from a mapping or from JSON text. Raises ContractInvalidError, code DPONE_RECEIPT_INVALID.

    A receipt of another contract version raises code DPONE_RECEIPT_VERSION_UNSUPPORTED and the message names both
    versions.
    """
    if isinstance(value, (str, bytes)):
        document: Mapping[str, object] = json_object(
            value, limit_bytes=MAX_RECEIPT_BYTES, what="receipt", code=RECEIPT_INVALID
        )
    elif isinstance(value, Mapping):
        document = value
    else:
        raise ContractInvalidError("receipt is not a JSON object", code=RECEIPT_INVALID)
    if len(document) > 2 * len(StepReceipt.model_fields):
        raise ContractInvalidError("receipt has more fields than the contract", code=RECEIPT_INVALID)
    found = document.get("schema")
    if isinstance(found, str) and found != RECEIPT_SCHEMA and found.startswith("dpone.step_receipt."):
        named = found.encode("ascii", "backslashreplace").decode("ascii")[:60]
        raise ReceiptVersionError(
            f"expected a receipt of {RECEIPT_SCHEMA}, found {named}", code=RECEIPT_VERSION_UNSUPPORTED
        )
    for item in document.values():
        if not (item is None or isinstance(item, (str, int))):
            raise ContractInvalidError(
                "receipt values must be text, integers, true, false or null", code=RECEIPT_INVALID
            )
        if isinstance(item, str) and len(item) > MAX_RECEIPT_BYTES:
            raise ContractInvalidError(
                "receipt holds a text that is longer than a whole receipt may be", code=RECEIPT_INVALID
            )
    return validate_value(StepReceipt, document, what="receipt", code=RECEIPT_INVALID)


def termination_message(code_line: str, receipt: StepReceipt | None) -> bytes:
    """One line `CODE: sentence` of at most 500 ASCII bytes, then the receipt; at most 4,096 bytes in all."""
    line = " ".join(code_line.split()).encode("ascii", "backslashreplace")[:MAX_CODE_LINE_BYTES]
    return line + b"\n" + (receipt.encode() if receipt else b"")


def receipt_from_termination(text: object) -> StepReceipt | None:
    """The receipt on the last line of a termination message; None unless it is complete and its digest is right."""
    if not isinstance(text, str) or len(text) > MAX_TERMINATION_BYTES:
        return None
    lines = text.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return None
    try:
        return parse_receipt(lines[-1])
    except ContractInvalidError:
        return None


def _instant(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ContractInvalidError("receipt times must have a time zone", code=RECEIPT_INVALID)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _digest_of(document: Mapping[str, object]) -> str:
    return fingerprint({key: value for key, value in document.items() if key != "digest"})


def _escaped_size(text: str) -> int:
    return len(json.dumps(text)) - 2
