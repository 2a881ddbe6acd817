"""An authored quality block is exactly right or refused with a code and a path (GATE-01, GATE-02).

A misspelt, foreign or ambiguous field never changes what is judged.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from types import ModuleType

import jsonschema
import pytest

import dpone_core.authoring.acceptance as authoring_acceptance
import dpone_core.authoring.quality as authoring_quality
from dpone_core.authoring.quality import QualitySection
from dpone_core.authoring.validate import validate
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.quality.policy import quality_section

UNKNOWN_FIELD = "DPONE_MANIFEST_UNKNOWN_FIELD"
MISSING = "DPONE_MANIFEST_MISSING_FIELD"
WRONG_TYPE = "DPONE_MANIFEST_WRONG_TYPE"
UNKNOWN_VALUE = "DPONE_MANIFEST_UNKNOWN_VALUE"
INVALID = "DPONE_MANIFEST_VALUE_INVALID"
CONFLICT = "DPONE_MANIFEST_CONFLICT"


def gate(**fields: object) -> dict[str, object]:
    return {"gates": [{"type": "min_rows", "threshold": 1, **fields}]}


def tolerance(**fields: object) -> dict[str, object]:
    return {"gates": [{"type": "row_count_reconciliation", "tolerance": fields}]}


def check(mode: str = "fail", **fields: object) -> dict[str, object]:
    return {"mode": mode, "checks": [fields]}


def accepted(**fields: object) -> dict[str, object]:
    return {"gates": [{"type": "accepted_values", "column": "a"} | fields]}


def fresh(**fields: object) -> dict[str, object]:
    return {"gates": [{"type": "freshness", "column": "at"} | fields]}


MIN: dict[str, object] = {"type": "min_rows", "threshold": 1}
VALID = [
    {},
    {
        "gates": [
            {"type": "row_count_reconciliation", "severity": "warning", "tolerance": {"mode": "pct", "value": 0.5}}
        ]
    },
    gate(side="source", id="enough", severity="error"),
    gate(threshold=0),
    {"gates": [{"type": "typed_hash_reconciliation", "mode": "sample"}]},
    {"gates": [{"type": "custom_sql", "sql": "select 1"}]},
    {"gates": [{"type": "not_null", "columns": ["a", "b"]}, {"type": "unique", "columns": ["a"], "within": "target"}]},
    {"gates": [{"type": "freshness", "column": "at", "max_age": "P1DT1S", "reference": "now"}]},
    {"gates": [{"type": "accepted_values", "column": "a", "values": [1, "1", True, 1.5], "allow_null": True}]},
    {"gates": [{"type": "unique", "columns": ["a"], "tolerance": {"mode": "pct", "value": 0.5}}]},
    check(type="min_rows", value=1),
    check(type="min_rows", value=1, threshold=1),
    check(type="source_target_count", tolerance_pct=0),
    check("warn", type="soda_scan", path="x", enabled=False),
    {
        "mode": "warn",
        "gates": [{"type": "not_null", "columns": ["a"]}],
        "checks": [{"type": "min_rows", "threshold": 1}],
    },
]
INVALID_SHAPES = [
    (gate(threshold=True), WRONG_TYPE, "gates[0].threshold"),
    (gate(threshold=1.0), WRONG_TYPE, "gates[0].threshold"),
    (gate(threshold=1e3), WRONG_TYPE, "gates[0].threshold"),
    (gate(threshold="1"), WRONG_TYPE, "gates[0].threshold"),
    (gate(threshold=-1), INVALID, "gates[0].threshold"),
    (gate(threshold=10**29), INVALID, "gates[0].threshold"),
    (gate(threshold=None), WRONG_TYPE, "gates[0].threshold"),
    ({"gates": [{"type": "min_rows"}]}, MISSING, "gates[0].threshold"),
    (gate(treshold=1), UNKNOWN_FIELD, "gates[0].treshold"),
    (gate(value=1), UNKNOWN_FIELD, "gates[0].value"),
    (gate(sied="target"), UNKNOWN_FIELD, "gates[0].sied"),
    (gate(enabled=False), UNKNOWN_FIELD, "gates[0].enabled"),
    (gate(side="staged"), UNKNOWN_VALUE, "gates[0].side"),
    (gate(severity="warn"), UNKNOWN_VALUE, "gates[0].severity"),
    (gate(id=""), INVALID, "gates[0].id"),
    (gate(id=" "), INVALID, "gates[0].id"),
    (gate(id=None), WRONG_TYPE, "gates[0].id"),
    ({"gates": [{"type": "row_count_reconciliation", "threshold": 1}]}, UNKNOWN_FIELD, "gates[0].threshold"),
    ({"gates": [{"type": "typed_hash_reconciliation", "sql": "x"}]}, UNKNOWN_FIELD, "gates[0].sql"),
    ({"gates": [{"type": "not_null", "columns": ["a"], "sql": "x"}]}, UNKNOWN_FIELD, "gates[0].sql"),
    ({"gates": [{"type": "not_null", "columns": ["a"], "side": "target"}]}, UNKNOWN_FIELD, "gates[0].side"),
    ({"gates": [{"type": "not_null"}]}, MISSING, "gates[0].columns"),
    ({"gates": [{"type": "not_null", "columns": []}]}, INVALID, "gates[0].columns"),
    ({"gates": [{"type": "not_null", "columns": ["a", "a"]}]}, INVALID, "gates[0].columns"),
    ({"gates": [{"type": "unique", "column": "a"}]}, MISSING, "gates[0].columns"),
    ({"gates": [{"type": "unique", "columns": ["a"], "within": "source"}]}, UNKNOWN_VALUE, "gates[0].within"),
    (accepted(values=[]), INVALID, "gates[0].values"),
    (accepted(values=[1, 1]), INVALID, "gates[0].values"),
    (accepted(values=list(range(1001))), INVALID, "gates[0].values"),
    (accepted(values=[1], allow_null="yes"), WRONG_TYPE, "gates[0].allow_null"),
    (fresh(max_age="24h"), INVALID, "gates[0].max_age"),
    (fresh(max_age="PT"), INVALID, "gates[0].max_age"),
    (fresh(max_age="PT1H", reference="yesterday"), UNKNOWN_VALUE, "gates[0].reference"),
    (fresh(max_age="PT1H", tolerance={"value": 1}), UNKNOWN_FIELD, "gates[0].tolerance"),
    ({"gates": [{"type": "custom_sql"}]}, MISSING, "gates[0].sql"),
    ({"gates": [{"type": "min_row", "threshold": 1}]}, UNKNOWN_VALUE, "gates[0]"),
    ({"gates": [{"threshold": 1}]}, MISSING, "gates[0]"),
    ({"gates": {}}, WRONG_TYPE, "gates"),
    ({"gates": None}, WRONG_TYPE, "gates"),
    ({"gates": [MIN, MIN]}, CONFLICT, "gates[1].id"),
    (tolerance(mode="pct"), MISSING, "gates[0].tolerance.value"),
    (tolerance(mode="percent", value=1), UNKNOWN_VALUE, "gates[0].tolerance.mode"),
    (tolerance(value=-0.1), INVALID, "gates[0].tolerance.value"),
    (tolerance(value=True), WRONG_TYPE, "gates[0].tolerance.value"),
    (tolerance(value="5%"), WRONG_TYPE, "gates[0].tolerance.value"),
    (tolerance(value=10**29), INVALID, "gates[0].tolerance.value"),
    (tolerance(value=float("inf")), WRONG_TYPE, ""),
    (tolerance(value=float("nan")), WRONG_TYPE, ""),
    (check(type="min_rows"), MISSING, "checks[0].threshold"),
    (check(type="min_rows", threshold=1, value=2), CONFLICT, "checks[0].value"),
    (check(type="min_rows", threshold=1, value=None), WRONG_TYPE, "checks[0].value"),
    (check(type="min_rows", threshold=1, value=True), WRONG_TYPE, "checks[0].value"),
    (check(type="min_rows", threshold=1, sied="target"), UNKNOWN_FIELD, "checks[0].sied"),
    (check(type="source_target_count", enabled=False), UNKNOWN_FIELD, "checks[0].enabled"),
    (check(type="soda_scan"), UNKNOWN_VALUE, "checks[0].type"),
    ({"checks": [{"type": "soda_scan"}]}, UNKNOWN_VALUE, "checks[0].type"),
    (check("warn", type="row_count_reconciliation"), UNKNOWN_VALUE, "checks[0].type"),
    (check("warn", path="x"), MISSING, "checks[0].type"),
    ({"mode": "fail", "checks": ["min_rows"]}, WRONG_TYPE, "checks[0]"),
    ({"mode": "strict", "checks": []}, UNKNOWN_VALUE, "mode"),
    ({"mode": "warn", "gates": []}, CONFLICT, "mode"),
    (
        {"gates": [{"type": "not_null", "columns": ["a"]}], "checks": [{"type": "min_rows", "value": 1}]},
        CONFLICT,
        "checks",
    ),
    ({"mode": "warn", "gates": [MIN], "checks": [MIN]}, CONFLICT, "checks[0].id"),
    ({"gate": []}, UNKNOWN_FIELD, "gate"),
    ({"acceptance": None}, WRONG_TYPE, "acceptance"),
]


@pytest.mark.parametrize("quality", VALID)
def test_a_correct_block_is_accepted(quality: object) -> None:
    assert isinstance(validate(QualitySection, quality), QualitySection)


@pytest.mark.parametrize(("quality", "code", "path"), INVALID_SHAPES)
def test_a_malformed_block_is_refused_with_code_and_path(quality: object, code: str, path: str) -> None:
    problems = validate(QualitySection, quality)
    assert isinstance(problems, tuple)
    assert (problems[0].code, problems[0].path) == (code, path)


def test_problems_of_a_load_configuration_stand_below_quality() -> None:
    with pytest.raises(ManifestInvalidError) as refused:
        quality_section(gate(threshold=-1))
    assert refused.value.problems[0].path == "quality.gates[0].threshold"


@pytest.mark.parametrize("quality", [None, [], "gates", 5])
def test_quality_that_is_no_mapping_is_refused(quality: object) -> None:
    with pytest.raises(ManifestInvalidError) as refused:
        quality_section(quality)
    assert refused.value.problems[0].path == "quality"


@pytest.mark.parametrize("module", [authoring_quality, authoring_acceptance])
def test_every_authored_property_is_described(module: ModuleType) -> None:
    for model in ast.parse(inspect.getsource(module)).body:
        for statement, following in pairwise(model.body if isinstance(model, ast.ClassDef) else []):
            if isinstance(statement, ast.AnnAssign):
                is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                assert is_text, f"line {statement.lineno} has no description"


def test_the_generated_schema_accepts_the_correct_blocks() -> None:
    validator = jsonschema.Draft202012Validator(QualitySection.model_json_schema())
    for quality in VALID:
        validator.validate(quality)


def is_beyond_json_schema(quality: object, code: str, path: str) -> bool:
    """Cross-field rules, values without JSON form, and whole floats, which JSON Schema calls integers."""
    return code == CONFLICT or path == "" or quality in (gate(threshold=1.0), gate(threshold=1e3))


@pytest.mark.parametrize("quality", [case[0] for case in INVALID_SHAPES if not is_beyond_json_schema(*case)])
def test_the_generated_schema_refuses_what_the_models_refuse(quality: object) -> None:
    assert not jsonschema.Draft202012Validator(QualitySection.model_json_schema()).is_valid(quality)
