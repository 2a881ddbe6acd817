"""Every setting of the platform section arrives in the pod and task that a real operator makes; none is ignored.

Contract: POD-10, POD-13.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dpone_core.contracts.platform import OWN_KEYWORDS, POD_OPERATOR_KEYWORDS, PlatformSettings
from dpone_core.resources import dag_factories_directory
from tests.airflow.airflow_environment import AirflowEnvironment
from tests.spec.contracts.documents import hook_step, load_step, run_spec_document, verify_step

pytestmark = pytest.mark.airflow

HERE = Path(__file__).parent
COMPLETE: dict[str, Any] = json.loads((HERE / "complete_platform.json").read_text(encoding="utf-8"))
OVERRIDE = '{"namespace": "other", "labels": {"tier": "1"}, "tolerations": []}'
DECLARED_ELSEWHERE = {"durable_paths", "local_pod_runner", "in_cluster", "config_file", "pod_template_file"}
UNKNOWN_ARGUMENT = {"kubernetes_pod_operator": {"no_such_argument": 1}}
REFUSED_ARGUMENT = {"kubernetes_pod_operator": {"ports": 7}}
SMALL: dict[str, Any] = {"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}}
STEPS = [{**verify_step(), "resources": SMALL, "pool": "checks"}, hook_step(), load_step()]


@pytest.fixture(scope="module")
def parsed(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("platform")
    factory = (dag_factories_directory() / "one_run_spec.py").read_text(encoding="utf-8")
    variants = {
        "complete": (COMPLETE, factory),
        "overridden": (COMPLETE, factory.replace("(dag=dag)", f"(dag=dag, platform={OVERRIDE})")),
        "unknown": (UNKNOWN_ARGUMENT, factory),
        "refused": (REFUSED_ARGUMENT, factory),
    }
    for name, (platform, text) in variants.items():
        folder = root / name
        folder.mkdir()
        (folder / "dag.py").write_text(text.replace('"orders"', f'"{name}"'), encoding="utf-8")
        document = json.dumps(run_spec_document(platform=platform, steps=STEPS))
        (folder / f"{name}.run_spec.json").write_text(document, encoding="utf-8")
    result = root / "result.json"
    airflow_environment.run_script(HERE / "parse_dags.py", str(root), str(result))
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    shutil.rmtree(root)
    return found


def load(parsed: dict[str, Any], dag: str) -> dict[str, Any]:
    found: dict[str, Any] = parsed["dags"][dag]["tasks"]["dpone_flights.dpone_run_flights"]
    return found


@pytest.fixture
def spec(parsed: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = load(parsed, "complete")["pod"]["spec"]
    return found


@pytest.fixture
def base(spec: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in spec["containers"] if one["name"] == "base")


def test_the_complete_platform_states_every_setting() -> None:
    assert set(COMPLETE) | DECLARED_ELSEWHERE | {"startup_check_interval_seconds"} == set(PlatformSettings.model_fields)


def test_where_and_as_whom_the_pod_runs(parsed: dict[str, Any], spec: dict[str, Any]) -> None:
    metadata = load(parsed, "complete")["pod"]["metadata"]
    assert metadata["namespace"] == "dpone" and metadata["annotations"]["example.com/owner"] == "data team"
    assert metadata["labels"]["team"] == "dwh" and metadata["labels"]["dpone_step"] == "dpone_run_flights"
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("dpone", False)
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("batch", {"kubernetes.io/arch": "amd64"})
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["runtimeClassName"] == "gvisor", "an argument that only the escape hatch knows"


def test_scheduling_rules_arrive(spec: dict[str, Any]) -> None:
    assert spec["tolerations"][0] == {
        "key": "dedicated",
        "operator": "Equal",
        "value": "etl",
        "effect": "NoSchedule",
    }
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0] == {"key": "pool", "operator": "In", "values": ["etl"]}


def test_security_of_pod_container_and_sidecar_arrives(spec: dict[str, Any], base: dict[str, Any]) -> None:
    assert spec["securityContext"] == {
        "fsGroup": 10001,
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    expected = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert base["securityContext"] == expected
    sidecar = next(one for one in spec["containers"] if one["name"] == "airflow-xcom-sidecar")
    assert sidecar["securityContext"] == expected, "a restricted namespace looks at every container"


def test_image_resources_and_variables_arrive(base: dict[str, Any]) -> None:
    assert base["imagePullPolicy"] == "IfNotPresent"
    assert base["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2.5Gi"}}
    variables = {one["name"]: one.get("value") for one in base["env"]}
    assert (variables["TZ"], variables["DPONE_EVIDENCE_DIR"]) == ("UTC", "/evidence")
    assert variables["DPONE_PROJECT_DIR"] == "/bundle"
    secret = next(one for one in base["env"] if one["name"] == "DPONE_CONN_DWH")
    assert secret["valueFrom"]["secretKeyRef"] == {"name": "dpone-dwh", "key": "uri"} and "value" not in secret


def test_volumes_of_every_kind_arrive_with_their_mounts(spec: dict[str, Any], base: dict[str, Any]) -> None:
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["evidence"]["persistentVolumeClaim"]["claimName"] == "dpone-evidence"
    assert volumes["certificates"]["secret"]["secretName"] == "ca-bundle"
    assert volumes["settings"]["configMap"]["name"] == "dpone-settings"
    assert volumes["scratch"]["emptyDir"] == {"sizeLimit": "10Gi"}
    assert volumes["share"]["nfs"] == {"server": "files.example.com", "path": "/exports/dpone", "readOnly": True}
    assert volumes["vault"]["csi"] == {
        "driver": "secrets-store.csi.k8s.io",
        "readOnly": True,
        "volumeAttributes": {"secretProviderClass": "orders"},
    }
    assert volumes["identity"]["projected"]["sources"] == [
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
        {"secret": {"name": "ca-bundle"}},
        {"configMap": {"name": "dpone-settings"}},
    ]
    mounts = {one["mountPath"]: one for one in base["volumeMounts"]}
    assert mounts["/etc/certificates"]["readOnly"] is True and mounts["/etc/dpone"]["subPath"] == "a.yaml"
    assert {"/evidence", "/scratch", "/var/tmp", "/airflow/xcom"} <= set(mounts)


def test_a_step_has_resources_and_a_pool_of_its_own(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["complete"]["tasks"]
    pools = {name: task["pool"] for name, task in parsed["dags"]["complete"]["read_back"]["tasks"].items()}
    verify, main = (f"dpone_flights.{name}" for name in ("bundle_verify", "dpone_run_flights"))
    base = next(one for one in tasks[verify]["pod"]["spec"]["containers"] if one["name"] == "base")
    assert base["resources"] == SMALL
    assert (pools[verify], pools[main]) == ("checks", COMPLETE["pool"])


def test_what_a_platform_may_pass_on_is_what_the_installed_operator_takes(parsed: dict[str, Any]) -> None:
    own, further = set(parsed["arguments"]) & OWN_KEYWORDS, set(parsed["arguments"]) - OWN_KEYWORDS
    assert further == POD_OPERATOR_KEYWORDS and own


def test_times_arrive(parsed: dict[str, Any], spec: dict[str, Any]) -> None:
    assert (spec["terminationGracePeriodSeconds"], spec["activeDeadlineSeconds"]) == (90, 86400)
    assert load(parsed, "complete")["execution_timeout_seconds"] == 300 + 7200
    settings = load(parsed, "complete")["settings"]
    assert settings == {
        "deferrable": True,
        "poll_interval": 30,
        "startup_timeout_seconds": 300,
        "schedule_timeout_seconds": 120,
        "on_finish_action": "delete_succeeded_pod",
        "kubernetes_conn_id": "kubernetes_default",
        "log_events_on_startup": False,
    }


def test_the_task_stands_in_its_pool_and_queue(parsed: dict[str, Any]) -> None:
    task = parsed["dags"]["complete"]["authored"]["tasks"]["dpone_flights.dpone_run_flights"]
    assert (task["pool"], task["queue"], task["priority_weight"], task["retry_delay"]) == ("dwh", "etl", "5", "0:00:00")


def test_a_dag_file_that_overrides_in_code_merges_over_the_section(parsed: dict[str, Any]) -> None:
    pod = load(parsed, "overridden")["pod"]
    assert (pod["metadata"]["namespace"], pod["spec"]["priorityClassName"]) == ("other", "batch")
    assert {pod["metadata"]["labels"][name] for name in ("team", "tier")} == {"dwh", "1"}
    assert not pod["spec"].get("tolerations")


def test_every_dag_reads_back_as_it_was_written(parsed: dict[str, Any]) -> None:
    for dag in parsed["dags"].values():
        assert dag["read_back"] == dag["authored"]


@pytest.mark.parametrize(
    ("dag", "group", "code", "says"),
    [
        ("unknown", "dpone_unknown", "DPONE_RUN_SPEC_INVALID", "KubernetesPodOperator has no argument"),
        ("refused", "dpone_flights", "DPONE_RUN_SPEC_NOT_WIRED", "Airflow refuses a task of this run-spec (TypeError"),
    ],
)
def test_an_argument_that_the_operator_lacks_or_refuses_fails_its_process_alone(
    parsed: dict[str, Any], dag: str, group: str, code: str, says: str
) -> None:
    tasks = parsed["dags"][dag]["tasks"]
    assert set(tasks) == {f"{group}.broken_run_spec", f"{group}.outcome_gate"}
    problem = tasks[f"{group}.broken_run_spec"]["doc_md"]
    assert problem.startswith(f"{code}: ") and says in problem
    assert parsed["import_errors"] == {}
