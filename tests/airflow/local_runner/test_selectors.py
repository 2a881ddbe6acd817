"""Selectors choose as Kubernetes does; one that cannot be read is an error, never everything."""

from __future__ import annotations

import pytest

from dpone_airflow.local.selectors import fields_match, labels_match
from dpone_airflow.local.wire import ApiError
from tests.airflow.local_runner.kube import NAMESPACE, Kube, shell

LABELS = {"dag_id": "flights", "task_id": "g.load", "kubernetes_pod_operator": "True"}
POD = {"metadata": {"name": "a", "namespace": "default"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, True),
        ("", True),
        ("dag_id=flights", True),
        ("dag_id==flights", True),
        ("dag_id=other", False),
        ("dag_id!=other", True),
        ("dag_id!=flights", False),
        ("already_checked!=True", True),
        ("dag_id", True),
        ("airflow-worker", False),
        ("!airflow-worker", True),
        ("!dag_id", False),
        ("dag_id in (flights, trains)", True),
        ("dag_id in (trains)", False),
        ("absent in (x)", False),
        ("dag_id notin (trains)", True),
        ("dag_id notin (flights)", False),
        ("absent notin (x)", True),
        ("dag_id in (flights,trains),task_id=g.load", True),
        ("dag_id=flights,task_id=other", False),
        ("dag_id=flights,kubernetes_pod_operator=True,already_checked!=True,!airflow-worker", True),
    ],
)
def test_label_selectors(selector: str | None, matches: bool) -> None:
    assert labels_match(selector, LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, True),
        ("metadata.name=a", True),
        ("metadata.name!=a", False),
        ("status.phase==Running,metadata.namespace=default", True),
        ("spec.nodeName=", True),
        ("spec.nodeName=n1", False),
    ],
)
def test_field_selectors(selector: str | None, matches: bool) -> None:
    assert fields_match(selector, POD) is matches


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "a b", "=x", "a in (x"])
def test_an_unreadable_selector_is_refused(selector: str) -> None:
    with pytest.raises(ApiError) as refusal:
        labels_match(selector, LABELS)

    assert refusal.value.code == 400


def test_a_list_holds_the_selected_pods_only(kube: Kube) -> None:
    kube.create(shell("true"), name="one", metadata={"labels": {"dag_id": "x"}})
    kube.create(shell("true"), name="two", metadata={"labels": {"dag_id": "x", "already_checked": "True"}})
    kube.create(shell("true"), name="three", metadata={"labels": {"dag_id": "y"}})

    listed = kube.api.list_namespaced_pod(NAMESPACE, label_selector="dag_id=x,already_checked!=True")

    assert [pod.metadata.name for pod in listed.items] == ["one"]
    assert len(kube.api.list_pod_for_all_namespaces().items) == 3
    assert kube.api.list_namespaced_pod("elsewhere").items == []
