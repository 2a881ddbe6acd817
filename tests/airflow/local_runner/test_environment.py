"""A container sees what its pod declares, resolved as the kubelet does, and nothing else of the runner's variables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from dpone_airflow.local.environment import expand
from dpone_airflow.local.fixtures import FixtureError, Fixtures
from tests.airflow.local_runner.kube import Kube, shell, until

FIXTURES = Fixtures(
    secrets={"db": {"uri": "sqlite:///$(HOME)", "user": "ada"}}, config_maps={"mode": {"LEVEL": "info", "COLOR": "no"}}
)


def show(**fields: Any) -> dict[str, Any]:
    return {"name": "base", "image": "x", "command": ["/usr/bin/env"], **fields}


def environment(kube: Kube, **fields: Any) -> dict[str, str]:
    kube.run(show(**fields), metadata={"labels": {"team": "a"}, "annotations": {"note": "n"}})
    return dict(line.split("=", 1) for line in kube.log().splitlines())


def test_only_path_home_and_the_host_name_are_there_without_a_declaration(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment(kube).keys() == {"PATH", "HOME", "HOSTNAME"}
    assert len(os.environ) > 3


def test_a_variable_is_inherited_only_when_it_is_named(
    start: Callable[..., Kube], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMED", "yes")
    monkeypatch.setenv("UNNAMED", "no")

    seen = environment(start(pass_env=("NAMED", "ABSENT")))

    assert seen["NAMED"] == "yes"
    assert not {"UNNAMED", "ABSENT"} & seen.keys()


def test_the_search_path_comes_before_any_declared_path(start: Callable[..., Kube], tmp_path: Path) -> None:
    seen = environment(start(search_path=(tmp_path,)), env=[{"name": "PATH", "value": "/usr/bin:/bin"}])

    assert seen["PATH"] == f"{tmp_path}:/usr/bin:/bin"


def test_names_that_no_shell_accepts_reach_the_container(kube: Kube) -> None:
    seen = environment(kube, env=[{"name": "a.b-c", "value": "1"}, {"name": "IFS", "value": "x"}])

    assert (seen["a.b-c"], seen["IFS"]) == ("1", "x")


def test_references_are_expanded_in_values_and_words(kube: Kube) -> None:
    kube.run(
        {
            "name": "base",
            "command": ["echo", "$(B)", "$$(B)", "$(NONE)"],
            "args": ["$(A)"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "<$(A)$(LATER)>"},
                {"name": "LATER", "value": "x"},
            ],
        }
    )

    assert kube.log() == "<1$(LATER)> $(B) $(NONE) 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)", "1"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("$(", "$("), ("$A", "$A"), ("a$$b", "a$b"), ("$(Z)", "$(Z)")],
)
def test_the_reference_syntax_is_that_of_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_secrets_and_config_maps_come_by_key_and_as_a_whole(start: Callable[..., Kube]) -> None:
    seen = environment(
        start(fixtures=FIXTURES),
        envFrom=[{"configMapRef": {"name": "mode"}}, {"prefix": "DB_", "secretRef": {"name": "db"}}],
        env=[
            {"name": "URI", "valueFrom": {"secretKeyRef": {"name": "db", "key": "uri"}}},
            {"name": "COLOR", "value": "yes"},
            {"name": "LEVEL_2", "valueFrom": {"configMapKeyRef": {"name": "mode", "key": "LEVEL"}}},
        ],
    )

    assert (seen["LEVEL"], seen["LEVEL_2"], seen["COLOR"], seen["DB_user"]) == ("info", "info", "yes", "ada")
    assert seen["URI"] == "sqlite:///$(HOME)"  # what came from a secret is not expanded


def test_a_field_of_the_pod_can_be_a_value(kube: Kube) -> None:
    paths = {
        "NAME": "metadata.name",
        "SPACE": "metadata.namespace",
        "TEAM": "metadata.labels['team']",
        "NOTE": "metadata.annotations['note']",
        "NODE": "spec.nodeName",
        "IP": "status.podIP",
    }
    seen = environment(
        kube, env=[{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]
    )

    assert [seen[name] for name in paths] == ["subject", "default", "a", "n", "local", "127.0.0.1"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"envFrom": [{"secretRef": {"name": "nope"}}]}, 'secret "nope" not found'),
        ({"envFrom": [{"configMapRef": {"name": "nope"}}]}, 'configmap "nope" not found'),
        (
            {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "db", "key": "nope"}}}]},
            "couldn't find key nope in Secret default/db",
        ),
        (
            {"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
            "env X: valueFrom resourceFieldRef is not modelled by this runner",
        ),
    ],
)
def test_a_reference_without_target_is_a_container_config_error(
    start: Callable[..., Kube], fields: dict[str, Any], message: str
) -> None:
    kube = start(fixtures=FIXTURES)
    kube.create(shell("echo never", **fields))

    until(lambda: kube.state().waiting.reason == "CreateContainerConfigError")

    assert kube.state().waiting.message == message
    assert kube.phase() == "Pending"


def test_an_optional_reference_without_target_leaves_the_variable_unset(kube: Kube) -> None:
    optional = {"name": "nope", "key": "k", "optional": True}
    seen = environment(
        kube,
        envFrom=[{"secretRef": {"name": "nope", "optional": True}}],
        env=[{"name": "X", "valueFrom": {"secretKeyRef": optional}}],
    )

    assert "X" not in seen


def test_no_secret_is_in_the_state_or_in_the_pod(start: Callable[..., Kube]) -> None:
    kube = start(fixtures=Fixtures(secrets={"db": {"uri": "canary-4711"}}))
    kube.run(
        shell('test -n "$URI"', env=[{"name": "URI", "valueFrom": {"secretKeyRef": {"name": "db", "key": "uri"}}}])
    )

    assert kube.phase() == "Succeeded"
    assert "canary-4711" not in str(kube.runner.state())


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "expected an object"),
        ({"secret": {}}, "expected an object"),
        ({"secrets": []}, "secrets: "),
        ({"secrets": {"db": "x"}}, "secrets.db: "),
        ({"config_maps": {"m": {"k": 1}}}, "config_maps.m.k: "),
    ],
)
def test_a_malformed_fixture_file_is_refused_with_its_place(tmp_path: Path, document: Any, place: str) -> None:
    path = tmp_path / "fixtures.json"
    path.write_text(json.dumps(document))

    with pytest.raises(FixtureError, match=place):
        Fixtures.from_file(path)


def test_a_value_that_is_no_text_refuses_the_pod_as_the_api_server_does(kube: Kube) -> None:
    with pytest.raises(ApiException) as caught:
        kube.create(shell("true", env=[{"name": "COUNT", "value": 3}]))
    assert caught.value.status == 400
