"""`plan` says, without any connection, which way a load goes, what a reader may rely on and what a retry means.

Contract: PLAN-01, PLAN-02, PLAN-03, PLAN-04.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone_core import api
from dpone_core.declared.registry import descriptor_of
from dpone_core.errors import ETLConfigurationError
from dpone_core.model.connector import ConnectorType
from tests.spec.builders import Project, append_flow, flow, hook, hooks

CLICKHOUSE = {"sink__type": "clickhouse"}


def plan_of(directory: Path, manifest: dict[str, object]) -> dict[str, Any]:
    project = Project(directory)
    (plan,) = api.plan(project.written(manifest), project_dir=directory, environment={})
    return dict(plan)


@pytest.mark.parametrize(
    ("manifest", "promise"),
    [
        (flow(), "waits for the next run"),
        (append_flow(), "waits for the next run"),
        (flow(**CLICKHOUSE), "waits for the next run"),
        (append_flow(**CLICKHOUSE), "waits for the next run"),
    ],
)
def test_every_strategy_states_its_delivery_and_its_retry(
    tmp_path: Path, manifest: dict[str, object], promise: str
) -> None:
    delivery = plan_of(tmp_path, manifest)["delivery"]
    assert delivery["semantics"] and delivery["retry_after_unknown_commit"]
    is_append = manifest["sink"]["strategy"]["mode"] == "incremental_append"  # type: ignore[index]
    assert (promise in delivery["semantics"]) is is_append


def test_no_way_of_publishing_claims_what_is_not_claimed() -> None:
    """What is done is said: one publication per load id, whose marker is looked at. Exactly-once is not claimed."""
    sinks = {kind: descriptor_of(kind).sink for kind in ConnectorType}
    told = {f"{kind} {each.name}": each.delivery for kind, sink in sinks.items() if sink for each in sink.finalisers}
    assert len(told) > 15 and not [name for name, text in told.items() if "exactly" in text.lower()]
    assert all("one publication per load id" in text or "at least once" in text for text in told.values()), told


def test_a_plan_opens_nothing_and_creates_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.written(flow(sink__connection_ref="nobody_knows"))
    finished = project.dpone("plan", "m.yaml", "--format", "json", environment={"DPONE_CONN_SHOP": ""})
    assert finished.exit_code == 0 and finished.document["connections"] == ["nobody_knows", "shop"]
    assert project.files() == {"m.yaml"}


def test_equal_manifests_have_equal_plans_and_no_sql_text(tmp_path: Path) -> None:
    manifest = flow(source__options=hooks(pre=[hook("refresh", "DELETE FROM very_private_table")]))
    first, second = plan_of(tmp_path / "a", manifest), plan_of(tmp_path / "b", manifest)
    assert first == second
    assert "very_private_table" not in str(first)
    assert first["hooks"]["pre_hook"][0]["sql_hash"].startswith("sha256:")


def test_the_plan_says_what_the_finaliser_assumes_and_is_atomic_for(tmp_path: Path) -> None:
    (target,) = plan_of(tmp_path, flow(**CLICKHOUSE))["targets"]
    assert target["finaliser"]["name"] and target["finaliser"]["atomic_for"]
    assert isinstance(target["finaliser"]["assumes"], list)
    assert target["memory_limit_bytes"] > 0


@pytest.mark.parametrize(
    ("preset", "key", "columns"),
    [
        ("off", [], []),
        ("minimal", ["id"], ["load_id", "loaded_at"]),
        ("bulk_standard", [], ["run_id", "load_id", "loaded_at", "extracted_at"]),
        ("bulk_standard", ["id"], ["run_id", "load_id", "loaded_at", "extracted_at", "row_id"]),
        ("standard", ["id"], ["load_id", "loaded_at", "extracted_at", "row_id"]),
        ("debug", ["id"], ["load_id", "loaded_at", "extracted_at", "op", "meta", "row_id"]),
    ],
)
def test_a_preset_is_a_set_of_columns_and_a_row_id_needs_a_key(
    tmp_path: Path, preset: str, key: list[str], columns: list[str]
) -> None:
    strategy = {"mode": "full_refresh", **({"unique_key": key} if key else {})}
    options = {"lineage": {"enabled": preset != "off", "preset": preset}}
    plan = plan_of(tmp_path, flow(sink__strategy=strategy, sink__options=options))
    assert sorted(plan["targets"][0]["lineage_columns"]) == sorted(f"__dpone__{name}" for name in columns)


def test_a_row_id_that_cannot_be_is_a_warning_or_a_refusal_as_declared(tmp_path: Path) -> None:
    lineage: dict[str, object] = {"enabled": True, "preset": "standard"}
    assert plan_of(tmp_path, flow(sink__options={"lineage": lineage}))["warnings"] == [
        "row_identity_without_unique_key"
    ]
    strict = {**lineage, "row_identity": {"mode": "auto", "unsupported_policy": "fail"}}
    with pytest.raises(ETLConfigurationError, match="unique_key"):
        plan_of(tmp_path, flow(sink__options={"lineage": strict}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sink__options": {"load_governance": {"finalization_phase": "legacy_post_finalize"}}}, "finalization_phase"),
        ({"sink__options": {"lineage": {"enabled": True, "preset": "hierarchical"}}}, "preset"),
    ],
)
def test_what_contradicts_the_route_is_refused_by_its_field(
    tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    with pytest.raises(ETLConfigurationError, match=named):
        plan_of(tmp_path, flow(**changes))


def test_hooks_are_planned_in_dependency_order(tmp_path: Path) -> None:
    late = hook("late", "DELETE FROM a", depends_on=["early"])
    plan = plan_of(tmp_path, flow(source__options=hooks(pre=[late, hook("early", "DELETE FROM b")])))
    assert [item["id"] for item in plan["hooks"]["pre_hook"]] == ["early", "late"]


def test_a_plan_says_what_the_gates_demand_and_which_rows_are_read_again(tmp_path: Path) -> None:
    gates = [
        {"type": "min_rows", "threshold": 7, "side": "source"},
        {"type": "row_count_reconciliation", "tolerance": {"mode": "pct", "value": 2}},
        {"type": "typed_hash_reconciliation", "severity": "warning"},
    ]
    incremental = {"incremental": {"cursor_column": "updated_at", "lookback": "PT1H"}}
    manifest = flow(
        sink__strategy={"mode": "incremental_merge", "unique_key": ["id"]},
        source__options=incremental,
        state={"type": "sink"},
        quality={"gates": gates},
    )
    plan = plan_of(tmp_path, manifest)
    assert plan["quality"]["gates"] == [
        {"gate_id": "min_rows", "type": "min_rows", "severity": "error", "side": "source", "threshold": 7},
        {
            "gate_id": "row_count_reconciliation",
            "type": "row_count_reconciliation",
            "severity": "error",
            "tolerance": {"mode": "pct", "value": 2.0},
        },
        {
            "gate_id": "typed_hash_reconciliation",
            "type": "typed_hash_reconciliation",
            "severity": "warning",
            "mode": "full",
        },
    ]
    assert plan["strategy"]["lookback"] == "1:00:00"


def test_a_plan_shows_the_columns_that_a_manifest_declares(tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "amount", "type": "decimal(12,2)"}]
    source = {"type": "files", "options": {"path": "*.csv", "format": "csv", "columns": columns}}
    assert plan_of(tmp_path / "files", flow(source=source))["route"]["columns"] == {
        "id": "int64",
        "amount": "decimal(12,2)",
    }
    assert plan_of(tmp_path / "table", flow())["route"]["columns"] == "those of the source, asked at run"


def test_a_refusal_names_the_place_in_the_manifest_once_and_its_code_once(tmp_path: Path) -> None:
    """As well a refusal of the route, which is found when the document is known to be valid."""
    lookback = {"incremental": {"cursor_column": "updated_at", "lookback": "PT1H"}}
    refused = [
        ("DPONE_ROUTE_REFUSED", append_flow(source__options=lookback)),
        ("DPONE_MANIFEST_UNKNOWN_VALUE", flow(sink__strategy={"mode": "guess"})),
    ]
    for code, manifest in refused:
        with pytest.raises(ETLConfigurationError) as caught:
            plan_of(tmp_path, manifest)
        said = str(caught.value)
        assert said.startswith(f"{code}: m.yaml:") and said.count(code) == said.count("m.yaml:") == 1
