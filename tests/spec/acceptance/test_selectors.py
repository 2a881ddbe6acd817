"""Selectors are resolved against the schema of the very side they measure (ACC-18)."""

from __future__ import annotations

import pytest

from dpone_core.acceptance.policy import AcceptanceMetricError
from dpone_core.acceptance.selectors import SelectedColumns, select_columns
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import Boundary, Side
from tests.spec.acceptance.builders import acceptance_policy, table_schema

SCHEMA = table_schema("id", "name", "__dpone__load_id", "__DPONE__x", unsupported=("shape",))


def selected(
    selection: object, *, schema: TableSchema = SCHEMA, mode: str = "warn_only", side: Side = Side.TARGET
) -> SelectedColumns:
    policy = acceptance_policy(mode=mode, checks={"null_counts": selection})
    return select_columns(policy, side=side, schema=schema, boundary=Boundary.PRE_COMMIT)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (False, ()),
        ("off", ()),
        ("none", ()),
        (True, ("id", "name", "__dpone__load_id", "__DPONE__x")),
        ("all_columns", ("id", "name", "__dpone__load_id", "__DPONE__x")),
        ("business_columns", ("id", "name")),
        ("source_and_binary_semantics", ("id", "name")),
        ("strict", ("id", "name")),
        (("name", "id"), ("id", "name")),
        (("__dpone__load_id",), ("__dpone__load_id",)),
    ],
)
def test_a_selector_stands_for_exact_columns_in_schema_order(selection: object, names: tuple[str, ...]) -> None:
    assert selected(selection).null_counts == names


@pytest.mark.parametrize("side", list(Side))
def test_an_unknown_column_fails_in_required_mode_with_the_side_in_the_code(side: Side) -> None:
    with pytest.raises(AcceptanceMetricError) as refused:
        selected(("id", "ID"), mode="required", side=side)
    assert refused.value.code == f"{side.value}_acceptance_metric_unknown_columns"
    assert refused.value.as_evidence() == {
        "failure_boundary": "pre_commit",
        "acceptance_side": side.value,
        "error_code": refused.value.code,
    }


def test_an_unknown_column_is_left_out_with_a_warning_in_warn_only_mode() -> None:
    assert selected(("id", "ghost")) == SelectedColumns(
        null_counts=("id",), distinct_counts=(), warnings=("acceptance_metric_unknown_columns",)
    )


@pytest.mark.parametrize("selection", ["all_columns", "business_columns", "source_and_binary_semantics"])
def test_a_type_that_cannot_be_counted_only_warns(selection: str) -> None:
    assert selected(selection, mode="required").warnings == ("acceptance_metric_uncountable_columns",)


@pytest.mark.parametrize("selection", ["strict", ("shape",)])
def test_a_type_that_cannot_be_counted_fails_where_it_was_asked_for_strictly(selection: object) -> None:
    with pytest.raises(AcceptanceMetricError) as refused:
        selected(selection, mode="required")
    assert refused.value.code == "target_acceptance_metric_uncountable_columns"
    assert selected(selection).warnings == ("acceptance_metric_uncountable_columns",)


def test_a_side_that_would_measure_nothing_is_no_evidence() -> None:
    nothing = {"row_count": False, "null_counts": "business_columns"}
    schema = table_schema("__dpone__load_id")
    with pytest.raises(AcceptanceMetricError) as refused:
        select_columns(acceptance_policy(checks=nothing), side=Side.SOURCE, schema=schema, boundary=Boundary.PRE_COMMIT)
    assert refused.value.code == "source_acceptance_metric_nothing_selected"
    warned = select_columns(
        acceptance_policy(checks=nothing, mode="warn_only"),
        side=Side.SOURCE,
        schema=schema,
        boundary=Boundary.PRE_COMMIT,
    )
    assert warned.warnings == ("acceptance_metric_nothing_selected",)
