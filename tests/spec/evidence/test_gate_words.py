"""What a gate found is told in words that name its columns and its figures, and never a zero that nobody counted.

Contract: GATE-55.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpone_core.evidence.gate_words import expectation, failed_gate_line, gate_finding, gate_name
from dpone_core.evidence.json_view import JsonView

FAILED = {"status": "failed", "severity": "error"}


def gate(kind: str, metrics: object = None, **fields: Any) -> JsonView:
    return JsonView({"gate_id": kind, "type": kind, **FAILED, "metrics": metrics, **fields})


@pytest.mark.parametrize(
    ("result", "name", "finding"),
    [
        (
            gate("unique", {"failed_rows": 12, "evaluated_rows": 200_000}, columns=["order_id", "line"]),
            "unique(order_id, line)",
            "12 of 200,000 rows",
        ),
        (
            gate("not_null", {"failed_rows": 1, "evaluated_rows": 1}, gate_id="named", columns=["a"]),
            "named not_null(a)",
            "1 of 1 row",
        ),
        (gate("custom_sql", {"failed_rows": None, "evaluated_rows": 3}), "custom_sql", "not judged"),
        (
            gate("freshness", {"newest_age_seconds": 90_000}, columns=["at"]),
            "freshness(at)",
            "the newest value is 90,000 s old",
        ),
        (
            gate("freshness", {"evaluated_rows": 0}, columns=["at"], message="no_rows"),
            "freshness(at)",
            "no value that has an age",
        ),
        (gate("freshness", {}, columns=["at"], message="not_executed"), "freshness(at)", "not judged"),
        (
            gate("min_rows", {"row_count": 3, "threshold": 1_000, "side": "source"}),
            "min_rows",
            "3 rows of the source, at least 1,000 wanted",
        ),
        (gate("min_rows", {"row_count": None}), "min_rows", "rows not counted of the target, at least unknown wanted"),
        (
            gate("row_count_reconciliation", {"source_row_count": 3, "target_row_count": 1, "allowed_difference": 0}),
            "row_count_reconciliation",
            "3 rows of the source, 1 row of the target, at most 0 apart wanted",
        ),
        (
            gate("typed_hash_reconciliation", {"source_hash": "a", "target_hash": "b"}),
            "typed_hash_reconciliation",
            "the hashes of source and target differ",
        ),
        (gate("typed_hash_reconciliation", {"source_hash": "a"}), "typed_hash_reconciliation", "not judged"),
        (gate("of_another_provider"), "of_another_provider", "not judged"),
        (JsonView(None), "unknown", "not judged"),
    ],
)
def test_a_gate_is_told_in_words(result: JsonView, name: str, finding: str) -> None:
    assert (gate_name(result), gate_finding(result)) == (name, finding)


def test_the_line_is_of_the_first_gate_that_blocked() -> None:
    warned = gate("not_null", {"failed_rows": 1, "evaluated_rows": 3}, severity="warning").value
    blocked = gate("unique", {"failed_rows": 2, "evaluated_rows": 3}, columns=["id"]).value
    later = gate("min_rows", {"row_count": 1, "threshold": 2}).value
    assert failed_gate_line(JsonView({"results": [warned, blocked, later]})) == "unique(id): 2 of 3 rows"
    assert failed_gate_line(JsonView({"results": [warned]})) is None
    assert failed_gate_line(JsonView(None)) is None


def test_what_a_rule_wants_is_told_without_its_values() -> None:
    assert expectation(gate("unique")) == "no key twice"
    assert expectation(gate("of_another_provider", message="quality_gate_skipped")) == "quality_gate_skipped"
    assert expectation(gate("of_another_provider")) == "as declared"
