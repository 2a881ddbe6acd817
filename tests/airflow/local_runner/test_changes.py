"""Patches change what they may, events tell what happened, and watches deliver both in order."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import watch
from kubernetes.client import ApiException

from dpone_airflow.local.journal import HISTORY_LENGTH
from dpone_airflow.local.patches import JSON_MERGE, STRATEGIC_MERGE, apply_patch
from dpone_airflow.local.wire import ApiError
from tests.airflow.local_runner.kube import NAMESPACE, Kube, shell, until


def pod() -> dict[str, Any]:
    containers = [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "args": ["x", "y"]}]
    return {"metadata": {"name": "p", "labels": {"k": "v", "l": "w"}}, "spec": {"containers": containers}, "status": {}}


def test_a_label_is_patched_through_the_client(kube: Kube) -> None:
    kube.run(shell("true"))

    kube.api.patch_namespaced_pod("subject", NAMESPACE, {"metadata": {"labels": {"already_checked": "True"}}})

    assert kube.read().metadata.labels == {"already_checked": "True"}


def test_null_removes_a_label() -> None:
    document = pod()

    apply_patch(document, {"metadata": {"labels": {"k": None}}}, STRATEGIC_MERGE)

    assert document["metadata"]["labels"] == {"l": "w"}


def test_a_strategic_patch_merges_named_lists_and_replaces_others() -> None:
    document = pod()

    apply_patch(document, {"spec": {"containers": [{"name": "b", "args": ["z"]}, {"name": "c"}]}}, STRATEGIC_MERGE)

    assert document["spec"]["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "1", "args": ["z"]},
        {"name": "c"},
    ]


def test_a_json_merge_patch_replaces_every_list() -> None:
    document = pod()

    apply_patch(document, {"spec": {"containers": [{"name": "c"}]}}, JSON_MERGE)

    assert document["spec"]["containers"] == [{"name": "c"}]


def test_a_patch_does_not_reach_the_status() -> None:
    document = pod()

    apply_patch(document, {"status": {"phase": "Succeeded"}}, JSON_MERGE)

    assert document["status"] == {}


@pytest.mark.parametrize(
    ("patch", "content_type", "code"),
    [
        ([], STRATEGIC_MERGE, 415),
        ([], "application/json-patch+json", 415),
        ({}, "application/json", 415),
        ({"metadata": {"name": "other"}}, JSON_MERGE, 422),
        ({"metadata": {"uid": "other"}}, STRATEGIC_MERGE, 422),
    ],
)
def test_other_patches_are_refused(patch: Any, content_type: str, code: int) -> None:
    with pytest.raises(ApiError) as refusal:
        apply_patch(pod(), patch, content_type)

    assert refusal.value.code == code


def test_the_events_of_a_pod_tell_its_life(kube: Kube) -> None:
    kube.run(shell("true"))
    kube.create(shell("true"), name="other")

    events = kube.api.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=subject").items

    assert [event.reason for event in events] == ["Scheduled", "Started"]
    assert {event.involved_object.name for event in events} == {"subject"}


def test_a_watch_of_pods_ends_with_the_deletion(kube: Kube) -> None:
    kube.run(shell("true"))
    kube.api.delete_namespaced_pod("subject", NAMESPACE)
    until(lambda: not kube.exists())

    changes = watch.Watch().stream(kube.api.list_namespaced_pod, NAMESPACE, timeout_seconds=1, resource_version="1")
    seen = [(change["type"], change["object"].status.phase) for change in changes]

    assert seen[0] == ("ADDED", "Pending")
    assert seen[-1] == ("DELETED", "Succeeded")
    assert {kind for kind, _ in seen[1:-1]} == {"MODIFIED"}


def test_a_watch_without_a_version_begins_with_what_is_there(kube: Kube) -> None:
    kube.run(shell("true"))

    changes = watch.Watch().stream(
        kube.api.list_namespaced_event, NAMESPACE, field_selector="involvedObject.name=subject", timeout_seconds=1
    )

    assert [change["object"].reason for change in changes] == ["Scheduled", "Started"]


def test_a_watch_sees_what_happens_after_it_began(kube: Kube) -> None:
    changes = watch.Watch().stream(kube.api.list_namespaced_event, NAMESPACE, timeout_seconds=20)
    listed = kube.api.list_namespaced_event(NAMESPACE)
    kube.create(shell("true"))

    assert next(changes)["object"].reason == "Scheduled"
    changes.close()
    assert listed.items == []


def test_a_version_that_is_no_longer_held_is_gone(kube: Kube) -> None:
    kube.run(shell("true"))
    for _ in range(HISTORY_LENGTH):
        kube.runner._call(lambda server: server.cluster.find(NAMESPACE, "subject").refresh())

    with pytest.raises(ApiException) as refusal:
        list(watch.Watch().stream(kube.api.list_namespaced_pod, NAMESPACE, timeout_seconds=5, resource_version="1"))

    assert refusal.value.status == 410
