"""Post-hooks with a task of their own: steps behind the load, which neither runs them nor holds their secrets.

Contract: DAG-24.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpone_core.contracts.run_spec import parse_run_spec
from dpone_core.contracts.wire import ContractInvalidError
from tests.spec.builders import Finished, Project, flow, hook, hooks, project_with_orders
from tests.spec.gitops.test_bundles import PLATFORM, SEPARATE, STEP, bound, compiled, load, pack


@pytest.fixture(name="project")
def shop_with_platform(tmp_path: Path) -> Project:
    project = project_with_orders(tmp_path)
    (tmp_path / "dpone.yaml").touch()
    project.written(PLATFORM, "platform.yaml")
    return project


def post_hook(hook_id: str, **changes: object) -> dict[str, object]:
    """A hook on the sink that counts how often it ran."""
    sql = f"CREATE TABLE IF NOT EXISTS raw.ran (hook TEXT); INSERT INTO raw.ran VALUES ('{hook_id}')"
    return hook(hook_id, sql, connector="sink", kind="target_maintenance", **{**SEPARATE, **changes})


def with_post_hooks(project: Project, *post: dict[str, object], pre: tuple[dict[str, object], ...] = ()) -> Finished:
    project.written(flow(source__options=hooks(pre=list(pre), post=list(post))))
    assert pack(project).exit_code == 0
    return compiled(project)


def test_separate_post_hooks_are_steps_behind_the_load_with_the_secret_they_use(project: Project) -> None:
    inline = post_hook("inline", execution={"airflow": "inline"})
    last = post_hook("last", depends_on=["once", "inline"], retry_policy="default")
    once = post_hook("once", retry_policy="none")
    spec = json.loads(with_post_hooks(project, last, once, inline, post_hook("alone", depends_on=["inline"])).stdout)
    steps = {step["step_id"]: step for step in spec["steps"]}
    assert list(steps) == ["bundle_verify", "dpone_run_orders", "post_hook_once", "post_hook_last", "post_hook_alone"]
    assert {name: step.get("depends_on") for name, step in steps.items() if name.startswith("post_hook")} == {
        "post_hook_once": ["dpone_run_orders"],
        "post_hook_last": ["post_hook_once"],
        "post_hook_alone": ["dpone_run_orders"],
    }
    assert [secret["name"] for secret in steps["post_hook_last"]["secret_env"]] == ["DPONE_CONN_DWH"]
    assert [(steps[name]["retries"], steps[name]["without_receipt"]) for name in list(steps)[2:]] == [
        (0, "stop"),
        (1, "retry"),
        (0, "stop"),
    ]
    load = steps["dpone_run_orders"]
    assert "receipts_from" not in load and load["argv"][-4:-2] == ["--separate-hooks", "receipts"]


def test_a_connection_that_only_a_separate_post_hook_uses_is_not_given_to_the_load(project: Project) -> None:
    connections = {**PLATFORM["connections"], "pager": {"secret": "pager", "key": "url"}}  # type: ignore[dict-item]
    project.written({**PLATFORM, "connections": connections}, "platform.yaml")
    tell = {"id": "tell", "kind": "notification", "type": "webhook", "connection_ref": "pager", **SEPARATE}
    spec = json.loads(with_post_hooks(project, tell).stdout)
    secrets = {step["step_id"]: [one["name"] for one in step.get("secret_env", [])] for step in spec["steps"]}
    assert secrets["post_hook_tell"] == ["DPONE_CONN_PAGER"]
    assert secrets["dpone_run_orders"] == ["DPONE_CONN_DWH", "DPONE_CONN_SHOP"]
    assert load(project, None).exit_code == 0, "the load needs no connection of a hook it does not run"


def test_an_inline_post_hook_that_waits_for_a_separate_one_is_refused_at_compile(project: Project) -> None:
    inline = post_hook("inside", depends_on=["behind"], execution={"airflow": "inline"})
    finished = with_post_hooks(project, post_hook("behind"), inline)
    assert finished.exit_code == 2 and "DPONE_RUN_SPEC_REFUSED" in finished.stdout
    assert "'inside'" in finished.stdout and "'behind'" in finished.stdout


def test_the_load_leaves_a_separate_post_hook_to_its_task_and_says_so(project: Project) -> None:
    once = post_hook("once", retry_policy="none")
    assert with_post_hooks(project, post_hook("inside", execution={"airflow": "inline"}), once).exit_code == 0
    finished = load(project, None)
    assert finished.exit_code == 0, finished.stdout
    assert project.target("SELECT hook FROM raw.ran") == [("inside",)]
    (step,) = [step for step in finished.result["details"]["load_steps"] if step["step_id"] == "once"]
    assert (step["status"], step["details_json"]["evidence"]) == ("skipped", "separate_task")
    again = project.run(*bound(project), environment=STEP)
    assert again.exit_code == 0, "a load that left the hook to its task is no start of the hook"
    assert sorted(project.target("SELECT hook FROM raw.ran")) == [("inside",), ("once",)]


def test_an_inline_run_runs_separate_post_hooks_as_well(project: Project) -> None:
    with_post_hooks(project, post_hook("once"))
    assert project.run(*bound(project)).exit_code == 0
    assert project.target("SELECT hook FROM raw.ran") == [("once",)]


def test_a_run_spec_whose_load_would_run_the_hooks_of_other_steps_again_is_no_run_spec(project: Project) -> None:
    spec = json.loads(with_post_hooks(project, post_hook("once")).stdout)
    argv = spec["steps"][1]["argv"]
    argv[argv.index("receipts")] = "inline"
    del spec["seal"]
    with pytest.raises(ContractInvalidError, match="--separate-hooks receipts"):
        parse_run_spec(json.dumps(spec))
