"""A pack is every byte a manifest opens under one fingerprint; every step re-hashes them and refuses another bundle.

Contract: AIR-02, DAG-02, DAG-06, DAG-07, DAG-23, DAG-25.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.spec.builders import Finished, Project, flow, hook, hooks, project_with_orders

PLATFORM = {
    "kind": "dpone.platform.v1",
    "image": "registry.example/dpone@sha256:" + "0" * 64,
    "connections": {"shop": {"secret": "dpone-orders", "key": "shop"}, "dwh": {"secret": "dpone-orders", "key": "dwh"}},
    "steps": {
        "bundle_verify": {"timeout_seconds": 120, "retries": 1},
        "hook": {"timeout_seconds": 600, "retries": 1},
        "load": {"timeout_seconds": 900, "retries": 1},
    },
    "defaults": {"local_pod_runner": True},
}
SEPARATE = {"execution": {"cli": "inline", "airflow": "separate_task"}}


def filed_hook(hook_id: str, **changes: object) -> dict[str, object]:
    value = hook(hook_id, "", sql_file=f"sql/{hook_id}.sql", retry_policy="none", **{**SEPARATE, **changes})
    del value["sql"]
    return value


@pytest.fixture(name="project")
def packed_project(tmp_path: Path) -> Project:
    """One process whose mart is refreshed by a hook in a task of its own, packed and compiled."""
    project = project_with_orders(tmp_path)
    (tmp_path / "dpone.yaml").touch()
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "refresh.sql").write_text("UPDATE orders SET name = upper(name);\n")
    project.written(flow(source__options=hooks(pre=[filed_hook("refresh")])))
    project.written(PLATFORM, "platform.yaml")
    assert pack(project).exit_code == 0
    return project


def pack(project: Project, *arguments: str) -> Finished:
    return project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json", *arguments)


def packed(project: Project) -> dict[str, Any]:
    return dict(json.loads((project.root / "m.pack.json").read_text()))


def bound(project: Project) -> tuple[str, ...]:
    return ("--pack", "m.pack.json", "--pack-fingerprint", str(packed(project)["pack_fingerprint"]))


def compiled(project: Project, *arguments: str) -> Finished:
    options = ("--pack", "m.pack.json", "--platform", "platform.yaml")
    return project.dpone("gitops", "airflow", "run-spec", "m.yaml", *options, *arguments)


def verify(project: Project) -> Finished:
    receipt = str(project.root / "receipt.json")
    return project.dpone("gitops", "verify", *bound(project), "--format", "json", "--receipt-path", receipt)


def test_a_pack_lists_every_file_the_manifest_opens(project: Project) -> None:
    listed = [(item["kind"], item["path"]) for item in packed(project)["dependencies"]]
    assert sorted(listed) == [("hook_sql", "sql/refresh.sql"), ("manifest", "m.yaml")]
    assert all(item["sha256"].startswith("sha256:") for item in packed(project)["dependencies"])


def test_the_file_of_a_gate_belongs_to_the_pack(project: Project) -> None:
    project.written("SELECT count(*) FROM {{ staged }} WHERE id < 0", "rules/negative.sql")
    project.written(flow(quality={"gates": [{"type": "custom_sql", "sql_file": "rules/negative.sql"}]}))
    assert pack(project).exit_code == 0
    assert ("gate_sql", "rules/negative.sql") in [
        (item["kind"], item["path"]) for item in packed(project)["dependencies"]
    ]
    project.written("SELECT 0 * count(*) FROM {{ staged }}", "rules/negative.sql")
    refused = verify(project)
    assert (refused.exit_code, refused.code) == (2, "DPONE_BUNDLE_MISMATCH"), refused.stdout


def test_equal_inputs_give_equal_bytes_wherever_they_lie(project: Project, tmp_path: Path) -> None:
    spec = compiled(project).stdout
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("m.yaml", "dpone.yaml", "platform.yaml"):
        shutil.copy(project.root / name, moved / name)
    shutil.copytree(project.root / "sql", moved / "sql")
    other = Project(moved)
    assert pack(other).exit_code == 0
    assert (moved / "m.pack.json").read_bytes() == (project.root / "m.pack.json").read_bytes()
    assert compiled(other).stdout == spec
    assert pack(project, "--check").exit_code == 0


def test_a_stale_artifact_is_found_by_check(project: Project) -> None:
    project.written(flow(name="orders_2"))
    finished = pack(project, "--check")
    assert finished.exit_code == 2 and "DPONE_OUTPUT_STALE" in finished.stdout


def test_an_untouched_bundle_verifies(project: Project) -> None:
    finished = verify(project)
    assert finished.exit_code == 0 and finished.document["files"] == 2
    assert finished.receipt is not None and finished.receipt["kind"] == "bundle_verify"
    assert finished.receipt["pack_fingerprint"] == packed(project)["pack_fingerprint"]


def tampered_sql(project: Project) -> None:
    (project.root / "sql" / "refresh.sql").write_text("DELETE FROM orders;\n")


def one_byte_more(project: Project) -> None:
    with (project.root / "sql" / "refresh.sql").open("a") as file:
        file.write(" ")


def another_manifest(project: Project) -> None:
    changed = yaml.safe_load((project.root / "m.yaml").read_text())
    changed["quality"] = {"gates": [{"type": "min_rows", "threshold": 0}]}
    project.written(changed)


@pytest.mark.parametrize(
    "tamper",
    [tampered_sql, *(pytest.param(other, marks=pytest.mark.slow) for other in (one_byte_more, another_manifest))],
)
def test_every_step_refuses_a_bundle_that_is_not_the_reviewed_one(project: Project, tamper: Any) -> None:
    reference = bound(project)
    tamper(project)
    steps = [
        ("gitops", "verify", *reference, "--format", "json"),
        ("hooks", "execute", "m.yaml", "--phase", "pre_hook", *reference, "--format", "json"),
        ("run", "m.yaml", *reference, "--format", "json"),
    ]
    for arguments in steps:
        finished = project.dpone(*arguments)
        assert (finished.exit_code, finished.code) == (2, "DPONE_BUNDLE_MISMATCH"), arguments
    assert not (project.root / "dwh.duckdb").exists()


def test_another_fingerprint_than_the_compiled_one_is_a_mismatch(project: Project) -> None:
    wrong = ("--pack", "m.pack.json", "--pack-fingerprint", "sha256:" + "0" * 64)
    finished = project.dpone("run", "m.yaml", *wrong, "--format", "json")
    assert (finished.exit_code, finished.code) == (2, "DPONE_BUNDLE_MISMATCH")


def test_a_run_spec_is_verify_then_hooks_then_load(project: Project) -> None:
    spec = json.loads(compiled(project).stdout)
    steps = {step["step_id"]: step for step in spec["steps"]}
    assert list(steps) == ["bundle_verify", "pre_hook_refresh", "dpone_run_orders"]
    hook_step, load = steps["pre_hook_refresh"], steps["dpone_run_orders"]
    assert hook_step["depends_on"] == ["bundle_verify"] and load["depends_on"] == ["pre_hook_refresh"]
    assert (hook_step["retries"], hook_step["without_receipt"]) == (0, "stop")
    assert load["receipts_from"] == ["pre_hook_refresh"]
    assert load["argv"][-4:-2] == ["--separate-hooks", "receipts"]
    assert spec["steps"][1]["secret_env"][0]["secret"] == "dpone-orders"
    assert [item["name"] for item in hook_step["secret_env"]] == ["DPONE_CONN_SHOP"]
    assert [item["name"] for item in load["secret_env"]] == ["DPONE_CONN_DWH", "DPONE_CONN_SHOP"]
    assert all(step["argv"][-2:] == ["--receipt-path", "/airflow/xcom/return.json"] for step in steps.values())
    assert "UPDATE" not in json.dumps(spec)


def test_a_connection_without_a_secret_is_refused_at_compile(project: Project) -> None:
    project.written({**PLATFORM, "connections": {"shop": {"secret": "s", "key": "k"}}}, "platform.yaml")
    finished = compiled(project)
    assert finished.exit_code == 2 and "DPONE_PLATFORM_CONNECTION_UNMAPPED" in finished.stdout


def test_a_separate_hook_that_waits_for_an_inline_one_is_refused_at_compile(project: Project) -> None:
    inline = hook("inline", "DELETE FROM orders")
    project.written(flow(source__options=hooks(pre=[inline, filed_hook("refresh", depends_on=["inline"])])))
    assert pack(project).exit_code == 0
    finished = compiled(project)
    assert finished.exit_code == 2 and "DPONE_RUN_SPEC_REFUSED" in finished.stdout and "'inline'" in finished.stdout


def test_a_stale_pack_is_refused_at_compile(project: Project) -> None:
    tampered_sql(project)
    finished = compiled(project)
    assert (
        finished.exit_code == 2 and "DPONE_BUNDLE_MISMATCH" in finished.stdout and "sql/refresh.sql" in finished.stdout
    )


def test_a_sql_file_outside_the_repository_is_refused(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "evil.sql"
    outside.write_text("DELETE FROM orders;")
    (project.root / "sql" / "refresh.sql").unlink()
    (project.root / "sql" / "refresh.sql").symlink_to(outside)
    assert pack(project).exit_code == 2


STEP = {
    "DPONE_DAG_ID": "orders",
    "DPONE_DAG_RUN_ID": "scheduled__1",
    "DPONE_RUN_SPEC_FINGERPRINT": "sha256:" + "1" * 64,
}


def hook_receipt(project: Project, **environment: str) -> dict[str, Any]:
    """The receipt that the hook's own task leaves."""
    path = str(project.root / "hook.json")
    finished = project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--hook-id", "refresh", *bound(project)),
        *("--receipt-path", path),
        environment={**STEP, "DPONE_STEP_ID": "pre_hook_refresh", **environment},
    )
    assert finished.receipt is not None
    return finished.receipt


def load(project: Project, receipts: object, **environment: str) -> Finished:
    given = {} if receipts is None else {"DPONE_STEP_RECEIPTS": json.dumps(receipts)}
    return project.run(
        *("--separate-hooks", "receipts", *bound(project)),
        environment={**STEP, "DPONE_STEP_ID": "dpone_run_orders", **given, **environment},
    )


def test_the_load_takes_the_receipt_and_does_not_run_the_hook_again(project: Project) -> None:
    receipt = hook_receipt(project)
    project.orders([(1, "after the hook", 10)])
    finished = load(project, {"pre_hook_refresh": receipt})
    assert finished.exit_code == 0, finished.stdout
    assert project.target() == [(1, "after the hook", 10)], "run again, the hook would have written upper case"
    (step,) = [step for step in finished.result["details"]["load_steps"] if step["step_id"] == "refresh"]
    assert step["details_json"]["evidence"] == "verified_receipt"


@pytest.mark.slow
def test_a_receipt_that_is_not_this_steps_is_refused_and_the_hook_is_never_run_inline(project: Project) -> None:
    good = hook_receipt(project)
    before = sorted(project.files())
    cases: dict[str, tuple[object, dict[str, str], str]] = {
        "none at all": (None, {}, "DPONE_RECEIPT_REQUIRED"),
        "an empty mapping": ({}, {}, "DPONE_RECEIPT_REQUIRED"),
        "not a mapping": ([], {}, "DPONE_RECEIPT_INVALID"),
        "one with a changed field": ({"pre_hook_refresh": {**good, "run_id": "x"}}, {}, "DPONE_RECEIPT_INVALID"),
        "one of another DAG run": ({"pre_hook_refresh": good}, {"DPONE_DAG_RUN_ID": "other"}, "DPONE_RECEIPT_MISMATCH"),
        "one of another map index": ({"pre_hook_refresh": good}, {"DPONE_MAP_INDEX": "1"}, "DPONE_RECEIPT_MISMATCH"),
        "one of another run-spec": (
            {"pre_hook_refresh": good},
            {"DPONE_RUN_SPEC_FINGERPRINT": "sha256:" + "2" * 64},
            "DPONE_RUN_SPEC_CHANGED",
        ),
        "one under another step": ({"pre_hook_other": good}, {}, "DPONE_RECEIPT_REQUIRED"),
    }
    for name, (receipts, environment, code) in cases.items():
        finished = load(project, receipts, **environment)
        assert (finished.exit_code, finished.code) == (2, code), name
    assert sorted(project.files() - {"receipt.json"}) == before
    failed = {**STEP, "DPONE_CONN_SHOP": f"sqlite:///{project.root / 'absent.sqlite'}", "DPONE_DAG_RUN_ID": "failing"}
    receipt = hook_receipt(project, **failed)
    finished = load(project, {"pre_hook_refresh": receipt}, DPONE_DAG_RUN_ID="failing")
    assert (finished.exit_code, finished.code) == (2, "DPONE_RECEIPT_NOT_SUCCEEDED")


def test_a_missing_receipt_is_refused_and_the_hook_is_not_run(project: Project) -> None:
    finished = load(project, None)
    assert (finished.exit_code, finished.code) == (2, "DPONE_RECEIPT_REQUIRED")
    assert not (project.root / "dwh.duckdb").exists()


def test_inline_is_the_default_and_runs_every_hook(project: Project) -> None:
    assert project.run(*bound(project)).exit_code == 0
    assert [row[1] for row in project.target()] == ["A", "B", "C"]
