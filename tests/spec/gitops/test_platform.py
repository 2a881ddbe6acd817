"""The platform file decides the cluster's part of a run-spec: defaults, overrides, secrets, volumes.

Nothing in it is ignored. Contract: DAG-11, DAG-21, DAG-22.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_core.contracts.pack import render_pack
from dpone_core.contracts.run_spec import RunSpec, parse_run_spec, render_run_spec
from dpone_core.errors import ETLConfigurationError
from dpone_core.use_cases.gitops import compile_manifest, pack_manifest
from tests.spec.builders import Project, flow, hook, hooks

IMAGE = "registry.example/dpone@sha256:" + "0" * 64
OTHER = "registry.example/dpone@sha256:" + "1" * 64
CONNECTIONS = {ref: {"secret": f"dpone-{ref}", "key": "uri"} for ref in ("shop", "dwh")}
EVIDENCE = {"name": "evidence", "persistent_volume_claim": "evidence", "mounts": [{"path": "/evidence"}]}
WAREHOUSE = {"name": "warehouse", "persistent_volume_claim": "warehouse", "mounts": [{"path": "/warehouse"}]}
EMBEDDED = {"shop": {"uri": "sqlite:////shop/shop.db"}, "dwh": {"uri": "chdb:////warehouse/dwh"}}


@pytest.fixture(name="project")
def orders_into_clickhouse(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    (tmp_path / "dpone.yaml").write_text("# root\n")
    project.written(flow(sink__type="clickhouse"))
    return project


def compiled(project: Project, **platform: Any) -> RunSpec:
    document = {"kind": "dpone.platform.v1", "image": IMAGE, "connections": CONNECTIONS, **platform}
    project.written(document, "platform.yaml")
    manifest = project.root / "m.yaml"
    pack = project.root / "m.pack.json"
    pack.write_bytes(render_pack(pack_manifest(manifest)))
    return compile_manifest(manifest, pack_file=pack, platform_file=project.root / "platform.yaml")


def refused(project: Project, **platform: Any) -> ETLConfigurationError:
    with pytest.raises(ETLConfigurationError) as caught:
        compiled(project, **platform)
    return caught.value


def test_the_section_of_the_run_spec_is_the_merge_of_defaults_and_process(project: Project) -> None:
    defaults = {"namespace": "dpone", "labels": {"team": "dwh", "tier": "1"}, "image_pull_secrets": ["a", "b"]}
    override = {"labels": {"tier": "2"}, "image_pull_secrets": ["c"], "resources": {"limits": {"memory": "8Gi"}}}
    spec = compiled(project, defaults=defaults, processes={"orders": override})
    assert spec.platform.namespace == "dpone"
    assert spec.platform.labels == {"team": "dwh", "tier": "2"}, "mappings merge"
    assert spec.platform.image_pull_secrets == ("c",), "lists replace"
    assert spec.platform.resources is not None and spec.platform.resources.limits == {"memory": "8Gi"}


def test_image_secrets_and_limits_of_one_process_differ(project: Project) -> None:
    override = {
        "image": OTHER,
        "connections": {"shop": {"secret": "orders-only", "key": "shop"}},
        "steps": {"load": {"retries": 3}},
    }
    spec = compiled(project, steps={"load": {"timeout_seconds": 900}}, processes={"orders": override})
    assert spec.image == OTHER
    assert (spec.load.timeout_seconds, spec.load.retries) == (900, 3)
    secrets = {one.name: one.secret for one in spec.load.secret_env}
    assert secrets == {"DPONE_CONN_DWH": "dpone-dwh", "DPONE_CONN_SHOP": "orders-only"}


def test_the_override_of_another_process_of_the_project_has_no_effect_here(project: Project) -> None:
    project.written(flow(name="customers"), "customers.yaml")
    assert compiled(project, processes={"customers": {"pool": "small"}}).platform.pool is None


def test_an_override_of_no_process_of_the_project_is_refused_where_it_stands(project: Project) -> None:
    error = refused(project, processes={"ordes": {"pool": "small"}})
    assert "platform.yaml:" in error.message and "processes.ordes" in error.message and "'orders'" in str(error.fix)


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ({"connections": {"erp": {"secret": "s", "key": "k"}}}, "processes.orders.connections.erp"),
        ({"steps": {"hook": {"retries": 0}}}, "processes.orders.steps.hook"),
        ({"poll_interval_seconds": 30}, "processes.orders.poll_interval_seconds"),
    ],
)
def test_an_override_without_effect_is_refused_where_it_stands(
    project: Project, override: dict[str, Any], path: str
) -> None:
    error = refused(project, processes={"orders": override})
    assert path in error.message and error.message.startswith("platform.yaml:")


def test_an_override_with_effect_is_not(project: Project) -> None:
    separate = hook("refresh", "UPDATE orders SET name = name", execution={"airflow": "separate_task"})
    project.written(flow(sink__type="clickhouse", source__options=hooks(pre=[separate])))
    override = {"deferrable": True, "poll_interval_seconds": 30, "steps": {"hook": {"timeout_seconds": 60}}}
    spec = compiled(project, processes={"orders": override})
    assert spec.steps[1].timeout_seconds == 60 and spec.platform.poll_interval_seconds == 30


def test_settings_that_contradict_each_other_only_when_merged_are_placed(project: Project) -> None:
    error = refused(project, defaults={"config_file": "/etc/kubeconfig"}, processes={"orders": {"in_cluster": True}})
    assert "exclude each other" in error.message and "platform.yaml:" in error.message


def test_a_deadline_below_a_step_s_limit_is_refused(project: Project) -> None:
    assert "before its step's own limit" in refused(project, defaults={"active_deadline_seconds": 100}).message


def test_the_fingerprint_covers_the_variables_of_the_section(project: Project) -> None:
    first, second = compiled(project), compiled(project, defaults={"env": {"TZ": "UTC"}})
    assert first.fingerprint != second.fingerprint
    assert parse_run_spec(render_run_spec(second)).fingerprint == second.fingerprint


def test_the_command_writes_the_section_and_names_file_line_and_column(project: Project) -> None:
    compiled(project, defaults={"namespace": "dpone", "env": {"TZ": "UTC"}})
    command = ("gitops", "airflow", "run-spec", "m.yaml", "--pack", "m.pack.json", "--platform", "platform.yaml")
    written = json.loads(project.dpone(*command).stdout)
    assert written["platform"] == {"namespace": "dpone", "env": {"TZ": "UTC"}}
    project.written(f'kind: dpone.platform.v1\nimage: "{IMAGE}"\ndefaults:\n  names: x\n', "platform.yaml")
    finished = project.dpone(*command)
    assert finished.exit_code == 2 and "platform.yaml:4:3: DPONE_MANIFEST_UNKNOWN_FIELD" in finished.stdout


def test_the_asset_is_the_target_by_name_and_holds_no_credential(project: Project) -> None:
    assert compiled(project).asset == "x-dpone://dwh/raw/orders"


def test_evidence_outside_a_volume_would_die_with_its_pod(project: Project) -> None:
    env = {"env": {"DPONE_EVIDENCE_DIR": "/evidence/dpone"}}
    error = refused(project, defaults=env)
    assert error.code == "DPONE_PLATFORM_VOLUME_REQUIRED" and "'/evidence/dpone'" in error.message
    assert compiled(project, defaults={**env, "volumes": [EVIDENCE]}).platform.volumes[0].name == "evidence"
    assert compiled(project, defaults={**env, "durable_paths": ["/evidence"]}).platform.durable_paths == ("/evidence",)
    assert compiled(project, defaults={**env, "local_pod_runner": True}).platform.local_pod_runner


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "evidence", "empty_dir": {}, "mounts": [{"path": "/evidence"}]},
        {"name": "evidence", "secret": "s", "mounts": [{"path": "/evidence"}]},
        {"name": "evidence", "persistent_volume_claim": "c", "mounts": [{"path": "/evidence", "read_only": True}]},
        {"name": "evidence", "persistent_volume_claim": "c", "mounts": [{"path": "/evid"}]},
        {"name": "evidence", "persistent_volume_claim": "c", "mounts": [{"path": "/evidence/deeper"}]},
    ],
)
def test_only_a_writable_claim_over_the_path_keeps_it(project: Project, volume: dict[str, Any]) -> None:
    defaults = {"env": {"DPONE_EVIDENCE_DIR": "/evidence"}, "volumes": [volume]}
    assert refused(project, defaults=defaults).code == "DPONE_PLATFORM_VOLUME_REQUIRED"


def test_a_path_does_not_climb_out_of_its_volume(project: Project) -> None:
    defaults = {"env": {"DPONE_EVIDENCE_DIR": "/evidence/../tmp"}, "volumes": [EVIDENCE]}
    assert refused(project, defaults=defaults).code == "DPONE_PLATFORM_VOLUME_REQUIRED"


def test_embedded_engines_of_a_manifest_need_a_volume_over_their_path(project: Project) -> None:
    project.written(flow(sink__type="clickhouse", connections=EMBEDDED))
    error = refused(project, connections={})
    assert (
        error.code == "DPONE_PLATFORM_VOLUME_REQUIRED" and "the target 'chdb://' at '/warehouse/dwh'" in error.message
    )
    assert "the source 'sqlite://'" in refused(project, connections={}, defaults={"volumes": [WAREHOUSE]}).message
    shop = {"name": "shop", "persistent_volume_claim": "shop", "mounts": [{"path": "/shop", "read_only": True}]}
    spec = compiled(project, connections={}, defaults={"volumes": [WAREHOUSE, shop]})
    assert spec.load.secret_env == (), "the manifest says where they lie"


def test_a_relative_path_lies_on_no_volume(project: Project) -> None:
    relative = {**EMBEDDED, "dwh": {"uri": "chdb:///warehouse/dwh"}}
    project.written(flow(sink__type="clickhouse", connections=relative))
    assert "at 'warehouse/dwh'" in refused(project, connections={}, defaults={"volumes": [WAREHOUSE]}).message
    assert compiled(project, connections={}, defaults={"local_pod_runner": True}).process == "orders"


@pytest.mark.parametrize("kind", ["duckdb", "files"])
def test_a_target_that_is_always_a_file_needs_a_volume_wherever_its_secret_points(project: Project, kind: str) -> None:
    project.written(flow(sink__type=kind))
    error = refused(project)
    assert error.code == "DPONE_PLATFORM_VOLUME_REQUIRED" and f"the target of type {kind}" in error.message
    assert compiled(project, defaults={"volumes": [WAREHOUSE]}).process == "orders"


def test_a_served_target_needs_none(project: Project) -> None:
    assert compiled(project).platform.volumes == ()


def test_checkpoints_in_files_need_a_volume(project: Project) -> None:
    """A resume in another pod would not find them, nor the guard that must stop it."""
    split = {"partitioning": {"column": "id", "num_partitions": 2, "checkpoints": "file"}}
    project.written(flow(sink__type="clickhouse", source__options=split))
    assert "checkpoints of type file" in refused(project).message


def test_each_kind_of_step_has_its_own_resources_and_pool(project: Project) -> None:
    small = {"requests": {"memory": "256Mi"}}
    spec = compiled(project, steps={"bundle_verify": {"resources": small, "pool": "checks"}})
    verify, *others = spec.steps
    assert verify.resources is not None and verify.resources.requests == {"memory": "256Mi"}
    assert verify.pool == "checks"
    assert {step.pool for step in others} == {None} and {step.resources for step in others} == {None}


def test_a_process_name_that_is_no_step_id_is_spelt_as_one(project: Project) -> None:
    project.written(flow(name="shop-orders", sink__type="clickhouse"))
    spec = compiled(project)
    assert (spec.process, spec.load.step_id) == ("shop-orders", "dpone_run_shop_orders")
