"""A mapped process compiles into plan, mapped partitions and a load that publishes them (NAT-22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone_core.api import RunOptions, execute_run
from dpone_core.contracts.run_spec import RunSpec
from dpone_core.errors import ETLConfigurationError
from dpone_core.use_cases.gitops import compile_manifest, pack_manifest
from dpone_core.use_cases.verify import PackReference
from tests.spec.builders import Project, flow, hook, hooks
from tests.spec.gitops.test_bundles import PLATFORM

SEPARATE = {"execution": {"airflow": "separate_task"}}
SPLIT = {"column": "id", "num_partitions": 16, "workers": 4, "airflow": "mapped"}


def written(root: Path, platform: dict[str, object], **changes: object) -> Project:
    project = Project(root)
    (root / "dpone.yaml").touch()
    options: dict[str, Any] = {"partitioning": SPLIT}
    project.written(flow(**{"source__options": options, "sink__type": "clickhouse", **changes}))
    project.written({**PLATFORM, **platform}, "platform.yaml")
    pack = pack_manifest(root / "m.yaml", project_dir=root, env={})
    (root / "m.pack.json").write_text(pack.model_dump_json(by_alias=True), encoding="utf-8")
    return project


def compiled(root: Path, **changes: object) -> RunSpec:
    written(root, changes.pop("platform", {}), **changes)  # type: ignore[arg-type]
    return compile_manifest(
        root / "m.yaml",
        pack_file=root / "m.pack.json",
        platform_file=root / "platform.yaml",
        project_dir=root,
        env={},
    )


def refusal(root: Path, **changes: object) -> ETLConfigurationError:
    with pytest.raises(ETLConfigurationError) as raised:
        compiled(root, **changes)
    return raised.value


def test_ranges_stand_between_hooks_and_load(tmp_path: Path) -> None:
    pre = hooks(pre=[hook("refresh", "UPDATE orders SET name = 'x'", **SEPARATE)])
    spec = compiled(tmp_path, source__options={"partitioning": SPLIT, **pre})
    assert [(step.step_id, step.depends_on) for step in spec.steps] == [
        ("bundle_verify", ()),
        ("pre_hook_refresh", ("bundle_verify",)),
        ("transfer_plan", ("pre_hook_refresh",)),
        ("transfer_partition", ("transfer_plan",)),
        ("dpone_run_orders", ("transfer_partition",)),
    ]
    plan, partition, load = spec.steps[2:]
    bound = ("--pack", "m.pack.json", "--pack-fingerprint", spec.pack_fingerprint)
    receipt = ("--receipt-path", "/airflow/xcom/return.json")
    hooked = ("--separate-hooks", "receipts")
    assert plan.argv == ("dpone", "transfer", "plan", "m.yaml", *bound, *hooked, *receipt)
    assert partition.argv == ("dpone", "transfer", "load", "m.yaml", *bound, *receipt)
    assert load.argv == ("dpone", "run", "m.yaml", *bound, "--once", *hooked, "--partitions", "staged", *receipt)
    assert plan.receipts_from == load.receipts_from == ("pre_hook_refresh",) and partition.receipts_from == ()
    assert (partition.mapped_over, partition.max_parallel) == ("transfer_plan", 4)
    assert {step.without_receipt for step in (plan, partition)} == {"retry"}
    assert [[secret.name for secret in step.secret_env] for step in (plan, partition, load)] == [
        ["DPONE_CONN_DWH", "DPONE_CONN_SHOP"]
    ] * 3


def test_without_hooks_the_plan_stands_behind_the_verification(tmp_path: Path) -> None:
    spec = compiled(tmp_path)
    assert spec.steps[1].depends_on == ("bundle_verify",) and "--separate-hooks" not in spec.steps[1].argv


def test_inline_ranges_stay_one_load(tmp_path: Path) -> None:
    spec = compiled(tmp_path, source__options={"partitioning": {**SPLIT, "airflow": "inline"}})
    assert [step.kind.value for step in spec.steps] == ["bundle_verify", "load"]
    assert "--partitions" not in spec.load.argv


def test_the_platform_limits_each_kind_of_step(tmp_path: Path) -> None:
    steps = {"transfer_plan": {"timeout_seconds": 60, "retries": 3}, "transfer_partition": {"timeout_seconds": 1800}}
    spec = compiled(tmp_path, platform={"steps": steps})
    limits = [(step.timeout_seconds, step.retries) for step in spec.steps[1:]]
    assert limits == [(60, 3), (1800, 2), (7200, 1)]


@pytest.mark.parametrize("kind", ["transfer_plan", "transfer_partition"])
def test_limits_of_ranges_that_a_process_has_not_are_refused(tmp_path: Path, kind: str) -> None:
    platform = {"processes": {"orders": {"steps": {kind: {"retries": 1}}}}}
    error = refusal(tmp_path, platform=platform, source__options={"partitioning": {**SPLIT, "airflow": "inline"}})
    assert "no key ranges with tasks of its own" in str(error)
    assert compiled(tmp_path, platform=platform).mapped is not None


def test_an_engine_inside_the_pod_is_refused(tmp_path: Path) -> None:
    error = refusal(
        tmp_path,
        platform={"connections": {"shop": {"secret": "dpone-orders", "key": "shop"}}},
        connections={"dwh": {"uri": "chdb:////data/house"}},
    )
    assert error.code == "DPONE_RUN_SPEC_REFUSED" and "one process" in error.message


def test_a_step_of_another_bundle_is_refused(tmp_path: Path) -> None:
    project = written(tmp_path, {})
    reference = PackReference(path=tmp_path / "m.pack.json", fingerprint="sha256:" + "0" * 64)
    for options in (RunOptions(pack=reference), RunOptions(pack=reference, partitions="staged")):
        execution = execute_run(tmp_path / "m.yaml", options, environment=project.environment, project_dir=project.root)
        assert getattr(execution.error, "code", None) == "DPONE_BUNDLE_MISMATCH"
    for command in ("plan", "load"):
        done = project.dpone(
            *("transfer", command, "m.yaml", "--pack", "m.pack.json", "--pack-fingerprint", reference.fingerprint),
            *("--format", "json"),
        )
        assert (done.exit_code, done.code) == (2, "DPONE_BUNDLE_MISMATCH")
