"""Hooks of every type become run-spec steps with the secrets they use and no others (DAG-10).

A step without SQL has no SQL hash; its receipt is bound by the pack.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpone_core.contracts.run_spec import parse_run_spec
from tests.spec.builders import Project, flow, hook, hooks, project_with_orders
from tests.spec.hooks.receiver import Receiver, receiving

TASK = {"airflow": "separate_task"}
WEBHOOK = {"id": "tell", "kind": "notification", "type": "webhook", "connection_ref": "pager"}
MARKER = {"id": "ready", "kind": "notification", "type": "marker"}
PLATFORM = {
    "kind": "dpone.platform.v1",
    "image": "registry.example/dpone@sha256:" + "a" * 64,
    "connections": {ref: {"secret": f"dpone-{ref}", "key": "uri"} for ref in ("shop", "dwh", "pager")},
    "defaults": {"local_pod_runner": True},
}


@pytest.fixture(name="project")
def shop_with_platform(tmp_path: Path) -> Project:
    project = project_with_orders(tmp_path)
    project.written(yaml.safe_dump(PLATFORM), "platform.yaml")
    return project


def compiled(project: Project, **phases: Any) -> dict[str, Any]:
    """The run-spec as committed; the manifest is packed first."""
    project.written(flow(source__options=hooks(**phases)))
    packed = project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json")
    assert packed.exit_code == 0, packed.stderr
    done = project.dpone(
        *("gitops", "airflow", "run-spec", "m.yaml", "--pack", "m.pack.json"),
        *("--platform", "platform.yaml", "--output", "m.run_spec.json"),
    )
    assert done.exit_code == 0, done.stderr + done.stdout
    content = (project.root / "m.run_spec.json").read_bytes()
    parse_run_spec(content)
    return dict(json.loads(content))


def secrets(step: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in step.get("secret_env", [])]


def test_separate_notifications_are_steps_with_their_own_secret_only(project: Project) -> None:
    spec = compiled(project, pre=[{**WEBHOOK, "execution": TASK}, {**MARKER, "execution": TASK}])
    _, webhook, marker, load = spec["steps"]
    assert (webhook["step_id"], marker["step_id"]) == ("pre_hook_tell", "pre_hook_ready")
    assert secrets(webhook) == ["DPONE_CONN_PAGER"] and secrets(marker) == []
    assert secrets(load) == ["DPONE_CONN_DWH", "DPONE_CONN_SHOP"]
    assert load["receipts_from"] == ["pre_hook_tell", "pre_hook_ready"]
    for step in (webhook, marker):
        assert step["hook"].get("sql_hash") is None and step["hook"]["kind"] == "notification"
        assert step["without_receipt"] == "retry"


def test_the_load_has_the_secrets_of_the_hooks_it_runs_itself(project: Project) -> None:
    spec = compiled(project, pre=[MARKER], post=[WEBHOOK])
    assert secrets(spec["steps"][-1]) == ["DPONE_CONN_DWH", "DPONE_CONN_PAGER", "DPONE_CONN_SHOP"]


def test_a_probe_is_a_step_of_its_side(project: Project) -> None:
    probe = {"id": "orphans", "kind": "data_quality_probe", "sql": "SELECT count(*) FROM orders WHERE id IS NULL"}
    spec = compiled(project, pre=[{**probe, "execution": TASK}])
    step = spec["steps"][1]
    assert secrets(step) == ["DPONE_CONN_SHOP"] and step["hook"]["sql_hash"].startswith("sha256:")


def test_a_connection_without_secret_fails_the_compile(project: Project) -> None:
    platform = {
        **PLATFORM,
        "connections": {"shop": PLATFORM["connections"]["shop"], "dwh": {"secret": "d", "key": "u"}},
    }  # type: ignore[index]
    project.written(yaml.safe_dump(platform), "platform.yaml")
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json")
    done = project.dpone(
        *("gitops", "airflow", "run-spec", "m.yaml", "--pack", "m.pack.json", "--platform", "platform.yaml")
    )
    assert done.exit_code == 2 and "DPONE_PLATFORM_CONNECTION_UNMAPPED" in done.stderr + done.stdout


def test_a_separate_webhook_runs_in_its_task_and_the_load_takes_its_receipt_without_its_secret(
    project: Project,
) -> None:
    compiled(project, pre=[{**WEBHOOK, "execution": TASK}])
    fingerprint = json.loads((project.root / "m.pack.json").read_text())["pack_fingerprint"]
    identity = {
        "DPONE_DAG_ID": "d",
        "DPONE_DAG_RUN_ID": "r",
        "DPONE_TRY_NUMBER": "1",
        "DPONE_MAP_INDEX": "-1",
        "DPONE_RUN_SPEC_FINGERPRINT": "sha256:" + "b" * 64,
    }
    pack = ("--pack", "m.pack.json", "--pack-fingerprint", fingerprint)
    with receiving(Receiver()) as receiver:
        told = project.dpone(
            *("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--hook-id", "tell", *pack),
            *("--receipt-path", str(project.root / "hook.json")),
            environment={**identity, "DPONE_STEP_ID": "pre_hook_tell", "DPONE_CONN_PAGER": receiver.url()},
        )
        assert told.exit_code == 0, told.stderr
        receipts = json.dumps({"pre_hook_tell": json.loads((project.root / "hook.json").read_text())})
        loaded = project.run(
            *pack,
            *("--separate-hooks", "receipts"),
            environment={**identity, "DPONE_STEP_ID": "dpone_run_orders", "DPONE_STEP_RECEIPTS": receipts},
        )
        assert loaded.exit_code == 0, loaded.stdout
        assert len(receiver.received) == 1


def test_the_plan_shows_what_a_hook_is_without_its_values(project: Project) -> None:
    options = {"options": {"timeout_seconds": 7}}
    project.written(flow(source__options=hooks(pre=[hook("sql", "DELETE FROM t")], post=[{**WEBHOOK, **options}])))
    plan = project.dpone("plan", "m.yaml", "--format", "json").document
    (shown,) = plan["hooks"]["post_hook"]
    assert (shown["type"], shown["connection_ref"], shown["options"]) == ("webhook", "pager", ["timeout_seconds"])
    assert shown["sql_hash"] is None and "connector" not in shown
    assert plan["hooks"]["pre_hook"][0]["connector"] == "source"
    assert plan["connections"] == ["dwh", "pager", "shop"]
