"""What a gate found, in words: `unique(order_id)` and `12 of 200,000 rows`.

Everything comes from the JSON of a gate report, so that terminal, pages, receipt and termination message say the same,
for an old run too. No value of a row is in it. Contract: GATE-55.
"""

from __future__ import annotations

from typing import Final

from dpone_core.evidence.json_view import JsonView
from dpone_core.model.vocabulary import GateStatus, GateType, Severity
from dpone_core.quality.gates import NO_ROWS

_NOT_JUDGED: Final = "not judged"
_EXPECTED: Final = {
    GateType.NOT_NULL: "no NULL",
    GateType.UNIQUE: "no key twice",
    GateType.ACCEPTED_VALUES: "listed values alone",
    GateType.FRESHNESS: "a newest value that is young enough",
    GateType.CUSTOM_SQL: "no row that breaks the rule",
}


def first_blocking(report: JsonView) -> JsonView:
    """The result of the first gate that blocked the load; a view of None where none did."""
    blocking = (GateStatus.FAILED, Severity.ERROR)
    found = (one for one in report.items("results") if (one.text("status"), one.text("severity")) == blocking)
    return next(found, JsonView(None))


def gate_name(result: JsonView) -> str:
    """`unique(order_id)`, before it the id of the gate where that says more than its type; else the id alone."""
    gate_id, kind = result.text("gate_id") or "unknown", result.text("type")
    columns = result.texts("columns")
    if not columns:
        return gate_id
    rule = f"{kind}({', '.join(columns)})"
    return rule if gate_id == kind else f"{gate_id} {rule}"


def gate_finding(result: JsonView) -> str:
    """What was counted: `12 of 200,000 rows` broke the rule. What nobody counted is not judged, never zero."""
    metrics = result.at("metrics")
    match result.text("type"):
        case GateType.ROW_COUNT_RECONCILIATION:
            source, target = _rows(metrics, "source_row_count"), _rows(metrics, "target_row_count")
            allowed = metrics.count("allowed_difference")
            tolerated = "" if allowed is None else f", at most {allowed:,} apart wanted"
            return f"{source} of the source, {target} of the target{tolerated}"
        case GateType.MIN_ROWS:
            side = metrics.text("side") or "target"
            return f"{_rows(metrics, 'row_count')} of the {side}, at least {_number(metrics, 'threshold')} wanted"
        case GateType.TYPED_HASH_RECONCILIATION:
            hashes = metrics.text("source_hash"), metrics.text("target_hash")
            if None in hashes:
                return _NOT_JUDGED
            return "equal hashes" if hashes[0] == hashes[1] else "the hashes of source and target differ"
        case GateType.FRESHNESS:
            return _age(result, metrics)
        case _:
            return _failed_rows(metrics)


def expectation(result: JsonView) -> str:
    """What a rule about columns wants, in words; of another gate its message, or `as declared`."""
    kind = next((known for known in _EXPECTED if known == result.text("type")), None)
    return _EXPECTED[kind] if kind is not None else result.text("message") or "as declared"


def failed_gate_line(report: JsonView) -> str | None:
    """`unique(order_id): 12 of 200,000 rows` of the first gate that blocked the load; None where none did."""
    gate = first_blocking(report)
    return f"{gate_name(gate)}: {gate_finding(gate)}" if gate else None


def _failed_rows(metrics: JsonView) -> str:
    failed, evaluated = metrics.count("failed_rows"), metrics.count("evaluated_rows")
    if failed is None or evaluated is None:
        return _NOT_JUDGED
    return f"{failed:,} of {evaluated:,} row{'' if evaluated == 1 else 's'}"


def _age(result: JsonView, metrics: JsonView) -> str:
    age = metrics.count("newest_age_seconds")
    if age is not None:
        return f"the newest value is {age:,} s old"
    return "no value that has an age" if result.text("message") == NO_ROWS else _NOT_JUDGED


def _rows(metrics: JsonView, name: str) -> str:
    count = metrics.count(name)
    return "rows not counted" if count is None else f"{count:,} row{'' if count == 1 else 's'}"


def _number(metrics: JsonView, name: str) -> str:
    count = metrics.count(name)
    return "unknown" if count is None else f"{count:,}"
