"""A run-spec step becomes pod arguments without secrets, bounded in time, with Jinja only where identity stands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from dpone_airflow.mapping import FanOut
from dpone_airflow.pod_args import Platform, ProcessPods, inline_step, label_value, pod_name
from dpone_core.contracts.platform import IDENTITY_VARIABLES, OWN_KEYWORDS
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep, parse_run_spec
from dpone_core.errors import ETLConfigurationError
from dpone_core.invocation import RunArguments, resolve_invocation
from dpone_core.model.vocabulary import WithoutReceipt
from tests.spec.contracts.documents import (
    IMAGE,
    SHA_A,
    fanned_out_steps,
    hook_step,
    load_step,
    receipt,
    run_spec_document,
    verify_step,
)

EVERYTHING = Platform.of(
    {
        "namespace": "etl",
        "kubernetes_conn_id": "cluster",
        "in_cluster": False,
        "config_file": "/etc/kubeconfig",
        "service_account_name": "dpone",
        "image_pull_policy": "Always",
        "node_selector": {"disk": "ssd"},
        "pod_template_file": "/etc/pod.yaml",
        "priority_class_name": "high",
        "schedule_timeout_seconds": 60,
        "pool": "dwh",
        "queue": "etl",
        "priority_weight": 3,
        "kubernetes_pod_operator": {"log_events_on_startup": False},
    }
)


def spec(**changes: Any) -> RunSpec:
    return parse_run_spec(json.dumps(run_spec_document(**changes)))


FANNED_OUT = spec(steps=fanned_out_steps())


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """All pure arguments of one step's operator, and what needs vendor types."""

    operator: dict[str, Any]
    optional: dict[str, Any]
    secrets: list[tuple[str, str, str]]
    execution_timeout_seconds: int


def arguments(step: RunSpecStep | None = None, platform: Platform | None = None) -> Made:
    pods = ProcessPods(spec(), platform or Platform(), dpone_version="0.1.0")
    own = pods.arguments(step or spec().load, task_ids={"pre_hook_refresh_mart": "g.pre_hook_refresh_mart"})
    return Made(
        operator={**pods.shared, **own.operator},
        optional=pods.optional,
        secrets=[(one.name, one.secret, one.key) for one in own.secret_env],
        execution_timeout_seconds=own.execution_timeout_seconds,
    )


def fanned_out_environment(step: RunSpecStep, platform: Platform | None = None) -> dict[str, str]:
    pods = ProcessPods(FANNED_OUT, platform or Platform(), dpone_version="0.1.0")
    task_ids = {one.step_id: f"g.{one.step_id}" for one in FANNED_OUT.steps}
    made: Any = pods.arguments(step, task_ids=task_ids).operator["env_vars"]
    return dict(made)


def environment(platform: Platform | None = None) -> dict[str, str]:
    return dict(arguments(platform=platform).operator["env_vars"])


def rendered(name: str, **context: Any) -> str:
    template = SandboxedEnvironment(undefined=StrictUndefined).from_string(environment()[name])
    return template.render(**context)


def test_the_command_is_the_reviewed_one() -> None:
    made = arguments()
    assert (made.operator["cmds"], made.operator["arguments"]) == (["dpone"], list(spec().load.argv[1:]))
    assert made.operator["image"] == IMAGE
    assert made.operator["dpone_command"].startswith("dpone run flights.yaml --separate-hooks receipts --receipt-path ")


def test_what_keeps_a_run_honest_cannot_be_configured_away() -> None:
    operator = arguments().operator
    assert operator["do_xcom_push"] is True
    assert operator["log_pod_spec_on_failure"] is False
    assert operator["termination_message_policy"] == "FallbackToLogsOnError"
    assert arguments().optional["automount_service_account_token"] is False


def test_templates_stand_only_in_the_environment() -> None:
    operator = {name: value for name, value in arguments().operator.items() if name != "env_vars"}
    assert "{{" not in json.dumps(operator)


def test_the_environment_is_that_of_the_design() -> None:
    assert sorted(environment()) == [
        "DPONE_DAG_ID",
        "DPONE_DAG_RUN_ID",
        "DPONE_FIRST_TRY",
        "DPONE_INTERVAL_END",
        "DPONE_INTERVAL_START",
        "DPONE_LOGICAL_DATE",
        "DPONE_MAP_INDEX",
        "DPONE_PROJECT_DIR",
        "DPONE_RUN_SPEC_FINGERPRINT",
        "DPONE_STEP_ID",
        "DPONE_STEP_RECEIPTS",
        "DPONE_TRY_NUMBER",
        "DPONE_UPSTREAM",
    ]
    assert environment()["DPONE_RUN_SPEC_FINGERPRINT"] == spec().fingerprint
    assert environment()["DPONE_PROJECT_DIR"] == "/opt/dpone/bundle"


@pytest.mark.parametrize("held", [receipt().wire(), None])
def test_receipts_are_pulled_per_task_id_and_a_missing_one_stays_visible(held: dict[str, object] | None) -> None:
    asked: list[tuple[str, int]] = []

    def pull(task_ids: str, map_indexes: int) -> object:
        asked.append((task_ids, map_indexes))
        return held

    text = rendered("DPONE_STEP_RECEIPTS", ti=SimpleNamespace(xcom_pull=pull, map_index=-1))
    assert json.loads(text) == {"pre_hook_refresh_mart": held}
    assert asked == [("g.pre_hook_refresh_mart", -1)]


def test_a_run_without_interval_has_empty_texts() -> None:
    run = SimpleNamespace(logical_date=None, data_interval_start=None, data_interval_end=None)
    names = ("DPONE_LOGICAL_DATE", "DPONE_INTERVAL_START", "DPONE_INTERVAL_END")
    assert [rendered(name, dag_run=run) for name in names] == ["", "", ""]


def test_a_step_that_takes_no_receipts_gets_none() -> None:
    made = arguments(spec().steps[0])
    assert "DPONE_STEP_RECEIPTS" not in str(made.operator["env_vars"])


def test_secrets_are_references_and_only_those_of_the_step() -> None:
    made = arguments()
    assert made.secrets == [("DPONE_CONN_DWH", "dpone-dwh", "uri")]
    assert "dpone-dwh" not in json.dumps(made.operator)


@pytest.mark.parametrize("step_index", [0, 1, 2])
def test_the_orphan_limit_comes_after_airflow_s_own_timeout(step_index: int) -> None:
    step = spec().steps[step_index]
    made = arguments(step, Platform(startup_timeout_seconds=100, termination_grace_seconds=30))
    deadline = made.operator["active_deadline_seconds"]
    assert made.execution_timeout_seconds == 100 + step.timeout_seconds
    assert deadline > made.execution_timeout_seconds + 30


def test_retries_are_those_of_the_step() -> None:
    assert [arguments(step).operator["retries"] for step in spec().steps] == [2, 0, 1]


def test_the_run_spec_is_shown_by_reference() -> None:
    shown = arguments().operator["run_spec_ref"]
    assert len(json.dumps(shown)) < 1024
    assert shown["run_spec_fingerprint"] == spec().fingerprint


def test_labels_are_values_kubernetes_accepts() -> None:
    made = arguments(platform=Platform(labels={"team": "dwh"})).operator["labels"]
    assert made["team"] == "dwh" and made["dpone_step"] == "dpone_run_flights"
    assert all(0 < len(value) <= 63 for value in made.values())


def test_distinct_long_names_stay_distinct_and_short_enough() -> None:
    names = {pod_name("p" * 120, f"{'s' * 100}{number}") for number in range(10)}
    labels = {label_value(f"{'v' * 100}{number}") for number in range(10)} | {label_value("a b"), label_value("a_b")}
    assert len(names) == 10 and max(map(len, names)) <= 50
    assert len(labels) == 12 and max(map(len, labels)) <= 63


def test_settings_the_platform_does_not_make_are_left_to_the_cluster() -> None:
    assert not {"namespace", "in_cluster", "pool", "node_selector"} & set(arguments().operator)
    made = arguments(platform=Platform(namespace="etl", in_cluster=False, node_selector={"disk": "ssd"})).operator
    assert (made["namespace"], made["in_cluster"], made["node_selector"]) == ("etl", False, {"disk": "ssd"})


def test_variables_of_the_platform_reach_every_step_beside_its_identity() -> None:
    platform = Platform(env={"TZ": "UTC"})
    every_step = [fanned_out_environment(step, platform) for step in FANNED_OUT.steps]
    assert {variables["TZ"] for variables in every_step} == {"UTC"}
    assert set().union(*every_step) - {"TZ"} == IDENTITY_VARIABLES


def test_a_mapped_task_learns_its_item_and_the_load_the_plan_that_was_staged() -> None:
    steps = {step.step_id: fanned_out_environment(step) for step in FANNED_OUT.steps}
    assert [name for name, variables in steps.items() if "DPONE_AIRFLOW_MAPPING_ITEM" in variables] == [
        "transfer_partition"
    ]
    assert [name for name, variables in steps.items() if "DPONE_TRANSFER_PLAN" in variables] == ["dpone_run_flights"]
    item = FanOut(transfer_plan=SHA_A, partitions=3).item(2)
    template = SandboxedEnvironment(undefined=StrictUndefined).from_string(
        steps["transfer_partition"]["DPONE_AIRFLOW_MAPPING_ITEM"]
    )
    text = template.render(task=SimpleNamespace(mapping_item=item))
    known = resolve_invocation(RunArguments(), {"DPONE_AIRFLOW_MAPPING_ITEM": text}, "r")
    assert json.loads(text) == item == known.mapping_item


@pytest.mark.parametrize(
    ("held", "plan"), [({"transfer_plan": SHA_A}, SHA_A), ({"transfer_plan": None}, ""), (None, "")]
)
def test_the_load_gets_the_plan_of_the_plan_s_receipt_or_the_empty_text(held: Any, plan: str) -> None:
    asked: list[str] = []

    def pull(task_ids: str, map_indexes: int) -> object:
        asked.append(task_ids)
        return held

    text = fanned_out_environment(FANNED_OUT.load)["DPONE_TRANSFER_PLAN"]
    template = SandboxedEnvironment(undefined=StrictUndefined).from_string(text)
    assert template.render(ti=SimpleNamespace(xcom_pull=pull, map_index=-1)) == plan
    assert set(asked) == {"g.transfer_plan"}


def test_the_single_task_reads_all_partitions_itself() -> None:
    single = inline_step(FANNED_OUT)
    assert "--partitions" not in single.argv and "staged" not in single.argv
    pods = ProcessPods(FANNED_OUT, Platform(), dpone_version="0.1.0")
    variables: Any = pods.arguments(single, task_ids={single.step_id: single.step_id}).operator["env_vars"]
    assert "DPONE_TRANSFER_PLAN" not in variables


def test_no_argument_that_dpone_sets_can_be_overridden() -> None:
    made = arguments(platform=EVERYTHING)
    assert {*made.operator, *made.optional} - {"log_events_on_startup"} <= OWN_KEYWORDS


def test_a_further_argument_of_the_operator_is_passed_on_and_never_wins() -> None:
    assert arguments(platform=EVERYTHING).operator["log_events_on_startup"] is False
    with pytest.raises(ETLConfigurationError, match="'do_xcom_push' is set by dpone"):
        Platform.of({"kubernetes_pod_operator": {"do_xcom_push": False}})


def test_a_deadline_that_would_take_the_receipt_is_refused() -> None:
    limit = 600 + 7200 + 60
    assert arguments(platform=Platform(active_deadline_seconds=limit)).operator["active_deadline_seconds"] == limit
    with pytest.raises(ETLConfigurationError, match="before its step's own limit"):
        arguments(platform=Platform(active_deadline_seconds=limit - 1))


def test_a_platform_comes_from_a_mapping() -> None:
    platform = Platform.of({"namespace": "etl", "image_pull_secrets": ["registry"], "deferrable": True})
    assert (platform.namespace, platform.image_pull_secrets, platform.deferrable) == ("etl", ("registry",), True)
    assert Platform.of(None) == Platform() and Platform.of(platform) is platform


@pytest.mark.parametrize(
    "mapping",
    [
        {"namespaces": "etl"},
        {"namespace": 1},
        {"image_pull_secrets": "registry"},
        {"labels": {"a": 1}},
        {"startup_timeout_seconds": 0},
        {"startup_timeout_seconds": True},
        {"deferrable": "yes"},
        {"in_cluster": "no"},
    ],
)
def test_an_unknown_or_ill_typed_platform_setting_is_refused(mapping: dict[str, object]) -> None:
    with pytest.raises(ETLConfigurationError) as caught:
        Platform.of(mapping)
    assert caught.value.code == "DPONE_PLATFORM_INVALID"


def test_the_single_task_runs_everything_inline_with_every_secret() -> None:
    single = inline_step(spec())
    assert single.argv[single.argv.index("--separate-hooks") + 1] == "inline"
    assert [one.name for one in single.secret_env] == ["DPONE_CONN_DWH", "DPONE_CONN_ERP"]
    assert (single.depends_on, single.receipts_from) == ((), ())
    assert single.timeout_seconds == 300 + 3600 + 7200


def test_the_single_task_obeys_the_strictest_step() -> None:
    single = inline_step(spec())
    assert (single.retries, single.without_receipt) == (0, WithoutReceipt.STOP)


def test_the_single_task_says_inline_even_without_separate_hooks() -> None:
    argv = ["dpone", "run", "flights.yaml", "--receipt-path", "/airflow/xcom/return.json"]
    steps = [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[], argv=argv)]
    assert inline_step(spec(steps=steps)).argv == (*argv, "--separate-hooks", "inline")


def test_one_connection_from_two_secrets_is_refused() -> None:
    other = [{"name": "DPONE_CONN_ERP", "secret": "other", "key": "uri"}]
    with pytest.raises(ETLConfigurationError, match="different secrets"):
        inline_step(spec(steps=[verify_step(), hook_step(), load_step(secret_env=other)]))
