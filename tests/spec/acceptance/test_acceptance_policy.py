"""One strict normaliser serves schema, check, plan, run and direct Python use."""

from __future__ import annotations

import jsonschema
import pytest

from dpone_core.acceptance.policy import AcceptanceMetricConfigurationError, AcceptanceMetricPolicy
from dpone_core.authoring.acceptance import AcceptanceSection, ColumnSelector
from dpone_core.errors import ETLConfigurationError, ExitClass
from dpone_core.model.vocabulary import AcceptanceMode, Side
from tests.spec.quality.builders import load_config

NO_SIDE = {"source": False, "staged": False, "target": False}


def enabled(**fields: object) -> dict[str, object]:
    return {"enabled": True, **fields}


def checks(**fields: object) -> dict[str, object]:
    return enabled(checks=fields)


NORMAL = {
    "enabled": True,
    "mode": "warn_only",
    "capture_source": True,
    "capture_staged": True,
    "capture_target": True,
    "row_count": True,
    "null_counts": "off",
    "distinct_counts": "off",
}
"""What an enabled policy without further words means."""
OFF = {"capture_source": False, "capture_staged": False, "capture_target": False}
NORMALISED: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"enabled": False}, {"enabled": False}),
    ({"enabled": False, "capture": NO_SIDE}, {"enabled": False, **OFF}),
    (enabled(), {}),
    (enabled(mode="required", capture={"staged": False}), {"mode": "required", "capture_staged": False}),
    (checks(row_count=False, null_counts=True), {"row_count": False, "null_counts": "all_columns"}),
    (checks(null_counts="off", distinct_counts="none"), {}),
    (
        checks(null_counts=["id", "id "], distinct_counts="business_columns"),
        {"null_counts": ["id", "id "], "distinct_counts": "business_columns"},
    ),
    (
        checks(distinct_counts="source_and_binary_semantics", null_counts="strict"),
        {"distinct_counts": "source_and_binary_semantics", "null_counts": "strict"},
    ),
    (checks(null_counts=["no", "on", "y"]), {"null_counts": ["no", "on", "y"]}),
]
VALID = [authored for authored, _ in NORMALISED]
INVALID = [
    ({}, "quality.acceptance.enabled"),
    ({"mode": "required"}, "quality.acceptance.enabled"),
    ({"enabled": "true"}, "quality.acceptance.enabled"),
    ({"enabled": 1}, "quality.acceptance.enabled"),
    ({"enabled": None}, "quality.acceptance.enabled"),
    (enabled(mode="requird"), "quality.acceptance.mode"),
    (enabled(mode=True), "quality.acceptance.mode"),
    (enabled(modes="required"), "quality.acceptance.modes"),
    (enabled(capture=True), "quality.acceptance.capture"),
    (enabled(capture=["source"]), "quality.acceptance.capture"),
    (enabled(capture={"source": "yes"}), "quality.acceptance.capture.source"),
    (enabled(capture={"sources": True}), "quality.acceptance.capture.sources"),
    (enabled(capture=NO_SIDE), "quality.acceptance.capture"),
    (enabled(checks=[]), "quality.acceptance.checks"),
    (checks(rows=True), "quality.acceptance.checks.rows"),
    (checks(row_count="exact"), "quality.acceptance.checks.row_count"),
    (checks(row_count=1), "quality.acceptance.checks.row_count"),
    (checks(row_count=False), "quality.acceptance.checks"),
    (checks(row_count=False, null_counts="off"), "quality.acceptance.checks"),
    (checks(row_count=False, distinct_counts=False), "quality.acceptance.checks"),
    (checks(null_counts="all"), "quality.acceptance.checks.null_counts"),
    (checks(null_counts="busines_columns"), "quality.acceptance.checks.null_counts"),
    (checks(null_counts=[]), "quality.acceptance.checks.null_counts"),
    (checks(null_counts=["id", "id"]), "quality.acceptance.checks.null_counts"),
    (checks(null_counts=["id", ""]), "quality.acceptance.checks.null_counts[1]"),
    (checks(null_counts=[" "]), "quality.acceptance.checks.null_counts[0]"),
    (checks(null_counts=["id", 1]), "quality.acceptance.checks.null_counts[1]"),
    (checks(null_counts=[True]), "quality.acceptance.checks.null_counts[0]"),
    (checks(null_counts=0), "quality.acceptance.checks.null_counts"),
    (checks(distinct_counts={"id": True}), "quality.acceptance.checks.distinct_counts"),
    (checks(distinct_counts=None), "quality.acceptance.checks.distinct_counts"),
    ({"enabled": False, "mode": "requird"}, "quality.acceptance.mode"),
    ({"enabled": False, "checks": {"null_counts": []}}, "quality.acceptance.checks.null_counts"),
    (None, "quality.acceptance"),
    ([], "quality.acceptance"),
    (True, "quality.acceptance"),
    ({1: True}, "quality.acceptance"),
    ({"enabled": True, "x": object()}, "quality.acceptance"),
]


@pytest.mark.parametrize(("acceptance", "changes"), NORMALISED)
def test_a_correct_policy_is_normalised(acceptance: object, changes: dict[str, object]) -> None:
    policy = AcceptanceMetricPolicy.from_load_config(load_config({"acceptance": acceptance}))
    assert policy.canonical() == {**NORMAL, **changes}


@pytest.mark.parametrize(("acceptance", "path"), INVALID)
def test_a_malformed_policy_is_refused_with_code_and_field_path(acceptance: object, path: str) -> None:
    with pytest.raises(AcceptanceMetricConfigurationError) as refused:
        AcceptanceMetricPolicy.from_load_config(load_config({"acceptance": acceptance}))
    assert (refused.value.code, refused.value.field_path) == ("DPONE_ACCEPTANCE_METRIC_CONFIGURATION_INVALID", path)


def test_the_error_is_a_configuration_error_and_a_value_error() -> None:
    assert issubclass(AcceptanceMetricConfigurationError, ETLConfigurationError)
    assert issubclass(AcceptanceMetricConfigurationError, ValueError)
    assert AcceptanceMetricConfigurationError.exit_class is ExitClass.REFUSED


def test_the_generated_schema_gives_the_same_verdicts() -> None:
    schema = jsonschema.Draft202012Validator(AcceptanceSection.model_json_schema())
    for acceptance in VALID:
        assert schema.is_valid(acceptance)
    for acceptance, path in INVALID:
        if path != "quality.acceptance" or acceptance in (None, [], True):  # the others have no JSON form
            assert not schema.is_valid(acceptance), acceptance


def test_quality_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(AcceptanceMetricConfigurationError):
        AcceptanceMetricPolicy.from_load_config(load_config("acceptance"))


def test_defaults_request_the_row_count_of_all_three_sides_and_only_warn() -> None:
    policy = AcceptanceMetricPolicy.from_load_config(load_config({"acceptance": enabled()}))
    assert policy.requested_sides == (Side.SOURCE, Side.STAGED, Side.TARGET)
    assert (policy.mode, policy.row_count, policy.is_required) == (AcceptanceMode.WARN_ONLY, True, False)
    assert (policy.null_counts, policy.distinct_counts) == (ColumnSelector.OFF, ColumnSelector.OFF)


@pytest.mark.parametrize("quality", [{}, {"acceptance": {"enabled": False, "mode": "required"}}])
def test_an_absent_or_disabled_policy_requests_nothing(quality: dict[str, object]) -> None:
    policy = AcceptanceMetricPolicy.from_load_config(load_config(quality))
    assert policy.requested_sides == ()
    assert not policy.is_required


def test_the_policy_is_independent_of_the_mapping_it_came_from() -> None:
    names = ["id"]
    policy = AcceptanceMetricPolicy.from_load_config(load_config({"acceptance": checks(null_counts=names)}))
    names.append("name")
    assert policy.null_counts == ("id",)
