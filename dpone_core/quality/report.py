"""The report of one evaluation of the gates, and its JSON, which shows only known keys with bounded values.

A report of QualityGateRunner carries the fingerprint and the contract of its policy; a report of the old constructor
has neither. A metric appears in the JSON only when its gate type has that key and the value is a bounded scalar; free
text never does. Contract: EVID-01, EVID-02, EVID-03, RCPT-06.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dpone_core.model.fingerprint import is_fingerprint, sha256_text
from dpone_core.model.outcome import MAX_COUNT
from dpone_core.model.vocabulary import GateStatus, GateType, HashMode, Severity, Side
from dpone_core.quality.gates import RULE_MESSAGES, RULE_METRICS, QualityGateResult
from dpone_core.quality.policy import GateContractEntry

GATES_KIND: Final = "dpone.data_quality.gates.v1"
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_MAX_TEXT_CHARACTERS: Final = 4096
_MAX_COLUMNS: Final = 100
_MAX_COLUMN_CHARACTERS: Final = 255
_COUNT_KEYS: Final = frozenset(
    {
        *("source_row_count", "target_row_count", "difference", "allowed_difference", "row_count", "threshold"),
        *(name for names in RULE_METRICS.values() for name in names),
    }
)
_HASH_KEYS: Final = frozenset({"source_hash", "target_hash"})
_METRIC_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    GateType.ROW_COUNT_RECONCILIATION: (
        "source_row_count",
        "target_row_count",
        "difference",
        "allowed_difference",
    ),
    GateType.MIN_ROWS: ("row_count", "threshold", "side"),
    GateType.TYPED_HASH_RECONCILIATION: ("source_hash", "target_hash", "mode"),
    **RULE_METRICS,
}
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "side": frozenset(side.value for side in (Side.SOURCE, Side.TARGET)),
    "mode": frozenset(mode.value for mode in HashMode),
}
_DROPPED: Final = object()


@dataclass(frozen=True, slots=True)
class QualityGateReport:
    """The results in policy order. `gate_contract` takes entries, or mappings with `gate_id`, `type` and `severity`."""

    results: tuple[QualityGateResult, ...]
    policy_fingerprint: str | None = None
    gate_contract: tuple[GateContractEntry, ...] = ()
    kind: str = GATES_KIND

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", tuple(self.results))
        object.__setattr__(self, "gate_contract", tuple(_entry(entry) for entry in self.gate_contract))

    @property
    def passed(self) -> bool:
        """Whether no result blocks the load; warnings and skipped gates do not, a value that is no result does."""
        return not any(_blocks(result) for result in self.results)

    def count(self, status: GateStatus) -> int:
        return sum(isinstance(result, QualityGateResult) and result.status is status for result in self.results)

    def as_json(self) -> dict[str, object]:
        """The report as evidence shows it. A gate id with unsafe characters is replaced by `quality_gate_<ordinal>`."""
        rendered: dict[str, object] = {"kind": GATES_KIND, "passed": self.passed}
        if self.policy_fingerprint is not None:
            rendered["policy_fingerprint"] = (
                self.policy_fingerprint if is_fingerprint(self.policy_fingerprint) else None
            )
            rendered["gate_contract"] = [_contract_json(n, entry) for n, entry in enumerate(self.gate_contract)]
        rendered["results"] = [_result_json(n, result) for n, result in enumerate(self.results)]
        return rendered


def _blocks(result: object) -> bool:
    return not isinstance(result, QualityGateResult) or result.is_blocking


def _entry(entry: object) -> GateContractEntry:
    """The entry itself, or that of a mapping. Anything else becomes an entry that equals no gate."""
    if isinstance(entry, GateContractEntry):
        return entry
    stated: Mapping[object, object] = entry if isinstance(entry, Mapping) else {}
    fields = {name: stated.get(name) for name in ("gate_id", "type", "severity")}
    texts = {name: str(value) if isinstance(value, str) else "" for name, value in fields.items()}
    return GateContractEntry(**texts)


def _contract_json(ordinal: int, entry: GateContractEntry) -> dict[str, str]:
    return {
        "gate_id": _safe_id(entry.gate_id, ordinal),
        "type": _safe_type(entry.type),
        "severity": _word(entry.severity, Severity, Severity.ERROR),
    }


def _result_json(ordinal: int, result: object) -> dict[str, object]:
    if not isinstance(result, QualityGateResult):
        result = QualityGateResult(
            gate_id="", type="", status=GateStatus.FAILED, severity=Severity.ERROR, message="malformed"
        )
    status = _word(result.status, GateStatus, GateStatus.FAILED)
    return {
        "gate_id": _safe_id(result.gate_id, ordinal),
        "type": _safe_type(result.type),
        "status": status,
        "severity": _word(result.severity, Severity, Severity.ERROR),
        "metrics": _metrics_json(result),
        "message": _message(result, status),
        **_columns_json(result),
    }


def _columns_json(result: QualityGateResult) -> dict[str, list[str]]:
    """The columns of a rule, at most 100 of them; a gate that looks at none keeps the published keys."""
    named = [name for name in result.columns[:_MAX_COLUMNS] if isinstance(name, str)]
    return {"columns": [name[:_MAX_COLUMN_CHARACTERS] for name in named]} if named else {}


def _message(result: QualityGateResult, status: str) -> str:
    """One of the codes that the type of the gate knows, else the one of its status; a caller's own text never."""
    if result.message == "":
        return ""
    codes = RULE_MESSAGES if isinstance(result.type, str) and result.type in RULE_METRICS else ()
    return _word(result.message, codes, f"quality_gate_{status}")


def _metrics_json(result: QualityGateResult) -> dict[str, object]:
    allowed = _METRIC_KEYS.get(result.type, ()) if isinstance(result.type, str) else ()
    projected = {key: _scalar(key, result.metrics[key]) for key in allowed if key in result.metrics}
    return {key: value for key, value in projected.items() if value is not _DROPPED}


def _scalar(key: str, value: object) -> object:
    if value is None:
        return None
    if key in _COUNT_KEYS:
        return value if _is_count(value) else _DROPPED
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARACTERS:
        return _DROPPED
    if key in _HASH_KEYS:
        return value if is_fingerprint(value) else sha256_text(value)
    return str(value) if value in _WORDS[key] else _DROPPED


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and 0 <= value <= MAX_COUNT if isinstance(value, float) else 0 <= value <= MAX_COUNT


def _safe_id(identifier: object, ordinal: int) -> str:
    if isinstance(identifier, str) and _SAFE_ID.fullmatch(identifier):
        return str(identifier)
    return f"quality_gate_{ordinal}"


def _safe_type(kind: object) -> str:
    return str(kind) if isinstance(kind, str) and _SAFE_ID.fullmatch(kind) else "unknown"


def _word(value: object, vocabulary: Iterable[str], fallback: str) -> str:
    return str(next((word for word in vocabulary if word == value), fallback))
