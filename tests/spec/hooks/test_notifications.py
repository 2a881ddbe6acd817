"""Markers and webhooks tell what happened to a load: names and counters, to a place nobody else learns (HOOK-25).

HOOK-32: one deadline for the whole exchange.
HOOK-18: a failed notification after the commit is exit 1 with a report, and the load stays committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dpone_core.contracts.step_receipt import parse_receipt
from dpone_core.model.vocabulary import RetryClassification, SourceState, TargetState
from tests.spec.builders import Project, code_of, flow, hooks, outcome_of
from tests.spec.hooks.receiver import Receiver, receiving

MARKER = {"id": "ready", "kind": "notification", "type": "marker"}
WEBHOOK = {"id": "tell", "kind": "notification", "type": "webhook", "connection_ref": "pager"}
CANARY = "CANARY-very-secret-path"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(Receiver()) as one:
        yield one


def document_of(project: Project, pattern: str) -> dict[str, Any]:
    (path,) = (project.root / "evidence").glob(pattern)
    return dict(json.loads(path.read_text("ascii")))


def step_details(project: Project, step_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Status and details of every audit row of a step, oldest first."""
    rows = project.target(
        f"SELECT status, details_json FROM etl_state.__dpone__load_steps WHERE step_id = '{step_id}' "
        "ORDER BY __dpone__loaded_at, status"
    )
    return [(str(status), json.loads(str(details))) for status, details in rows]


def test_a_marker_tells_of_the_committed_load_and_nothing_more(project: Project) -> None:
    project.written(flow(source__options=hooks(post=[MARKER])))
    load_id = outcome_of(project.execute("run-1")).identity.load_id
    assert document_of(project, "runs/orders/*/markers/post_hook_ready.json") == {
        "schema": "dpone.hook_notification.v1",
        "process": "orders",
        "run_id": "run-1",
        "load_id": load_id,
        "phase": "post_hook",
        "hook_id": "ready",
        "outcome": {
            "target": "raw.orders",
            "strategy": "full_refresh",
            "target_state": "mutation_returned_success",
            "source_state": "not_applicable",
            "extracted_rows": 3,
            "staged_rows": 3,
            "inserted_rows": 3,
            "updated_rows": 0,
            "final_rows": 3,
        },
    }


def test_a_marker_before_the_load_knows_no_outcome(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[MARKER])))
    project.execute()
    assert document_of(project, "runs/orders/*/markers/pre_hook_ready.json")["outcome"] is None


def test_a_marker_of_a_load_that_fails_is_not_written(project: Project) -> None:
    project.written(flow(source__table__name="absent", source__options=hooks(post=[MARKER])))
    assert not outcome_of(project.execute()).passed
    assert not list((project.root / "evidence").glob("**/markers/*"))


def test_a_webhook_posts_the_outcome(project: Project, receiver: Receiver) -> None:
    project.environment["DPONE_CONN_PAGER"] = receiver.url()
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    assert outcome_of(project.execute()).passed
    ((method, path, headers, document),) = receiver.received
    assert (method, path, headers["Content-Type"]) == ("POST", f"/hooks/{CANARY}", "application/json")
    assert document["schema"] == "dpone.hook_notification.v1" and document["outcome"]["final_rows"] == 3
    assert step_details(project, "tell")[-1] == (
        "succeeded",
        {
            "type": "webhook",
            "lineage": {"inputs": [], "outputs": []},
            "action_hash": step_details(project, "tell")[0][1]["action_hash"],
            "retry_policy": "default",
            "http_status": 204,
        },
    )


def test_user_information_becomes_a_header_and_no_part_of_the_request_line(
    project: Project, receiver: Receiver
) -> None:
    project.environment["DPONE_CONN_PAGER"] = receiver.url("/x?y=1", "me:p%40ss@")
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    assert outcome_of(project.execute()).passed
    ((_, path, headers, _),) = receiver.received
    assert (path, headers["Authorization"]) == ("/x?y=1", "Basic bWU6cEBzcw==")
    assert "@" not in headers["Host"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400, 404, 500, 503])
def test_an_answer_outside_the_two_hundreds_fails_the_hook(project: Project, receiver: Receiver, status: int) -> None:
    receiver.status = status
    project.environment["DPONE_CONN_PAGER"] = receiver.url()
    with receiving(Receiver()) as elsewhere:
        receiver.location = elsewhere.url() if status < 400 else None
        project.written(flow(source__options=hooks(post=[WEBHOOK])))
        execution = project.execute()
        assert elsewhere.received == []
    assert code_of(execution) == "hook_failed" and "webhook_refused" in str(execution.error)
    assert len(receiver.received) == 1
    status_of_row, details = step_details(project, "tell")[-1]
    assert (status_of_row, details["reason"], details["http_status"]) == ("failed", "webhook_refused", status)


def test_a_redirect_within_the_same_host_is_not_followed_either(project: Project, receiver: Receiver) -> None:
    receiver.status, receiver.location = 302, "/elsewhere"
    project.environment["DPONE_CONN_PAGER"] = receiver.url()
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    assert code_of(project.execute()) == "hook_failed"
    assert [(method, path) for method, path, _, _ in receiver.received] == [("POST", f"/hooks/{CANARY}")]


def test_a_receiver_that_does_not_answer_in_time_fails_the_hook(project: Project, receiver: Receiver) -> None:
    receiver.delay_seconds = 1.5
    project.environment["DPONE_CONN_PAGER"] = receiver.url()
    project.written(flow(source__options=hooks(post=[{**WEBHOOK, "options": {"timeout_seconds": 1}}])))
    execution = project.execute()
    assert "webhook_unreachable" in str(execution.error)


def test_a_failed_post_hook_leaves_a_committed_load_a_report_and_exit_1(project: Project) -> None:
    with receiving(Receiver()) as gone:
        url = gone.url()
    project.environment["DPONE_CONN_PAGER"] = url
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 1 and finished.code == "hook_failed"
    assert project.target() == [(1, "a", 10), (2, "b", 20), (3, "c", 30)]
    assert document_of(project, "runs/orders/*/*/run.json")["report"]["passed"] is False
    receipt = parse_receipt(finished.receipt)
    assert receipt.target_state is TargetState.MUTATION_RETURNED_SUCCESS
    assert receipt.source_state is SourceState.NOT_APPLICABLE
    assert receipt.retry_classification is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION


def test_recovery_of_a_failed_notification_is_one_command(project: Project, receiver: Receiver) -> None:
    receiver.status = 500
    project.environment["DPONE_CONN_PAGER"] = receiver.url()
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    project.execute("r1")
    receiver.status = 200
    arguments = ("hooks", "execute", "m.yaml", "--phase", "post_hook", "--hook-id", "tell", "--format", "json")
    finished = project.dpone(*arguments, "--run-id", "r1")
    assert finished.exit_code == 0
    (step,) = finished.document["steps"]
    assert (step["type"], step["status"], step["result"]["http_status"]) == ("webhook", "succeeded", 200)
    assert receiver.received[-1][3]["outcome"] is None and receiver.received[-1][3]["run_id"] == "r1"


@pytest.mark.parametrize("status", [204, 500])
def test_the_url_appears_in_no_emitted_byte(project: Project, receiver: Receiver, status: int) -> None:
    receiver.status = status
    project.environment["DPONE_CONN_PAGER"] = receiver.url(userinfo="CANARY-user:CANARY-word@")
    project.environment["DPONE_LOG_LEVEL"] = "DEBUG"
    project.written(flow(source__options=hooks(pre=[MARKER], post=[WEBHOOK])))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == (0 if status == 204 else 1) and len(receiver.received) == 1
    emitted = [finished.stdout, finished.stderr, json.dumps(finished.receipt)]
    emitted += [path.read_text() for path in (project.root / "evidence").rglob("*") if path.is_file()]
    emitted += [str(project.target("SELECT * FROM etl_state.__dpone__load_steps"))]
    assert not [text for text in emitted if "CANARY" in text or str(receiver.port) in text]


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        (None, "DPONE_CONNECTION_UNRESOLVED"),
        ("sqlite:///CANARY.sqlite", "connection_uri_invalid"),
        ("file:///CANARY", "connection_uri_invalid"),
        ("http://", "connection_uri_invalid"),
        ("http://[CANARY", "connection_uri_invalid"),
        ("http://CANARY.example/a b", "connection_uri_invalid"),
        ("http://CANARY.example/\u00e9", "connection_uri_invalid"),
        ("http://CANARY.example:99999/", "connection_uri_invalid"),
    ],
)
def test_a_url_that_cannot_be_posted_to_is_refused_before_anything_runs(
    project: Project, uri: str | None, code: str
) -> None:
    if uri is not None:
        project.environment["DPONE_CONN_PAGER"] = uri
    project.written(flow(source__options=hooks(post=[WEBHOOK])))
    execution = project.execute()
    assert execution.refusal is not None and execution.refusal.code == code
    assert "CANARY" not in str(execution.refusal)
    assert not (project.root / "dwh.duckdb").exists()


def test_a_dry_run_of_notifications_tells_nobody(project: Project, receiver: Receiver) -> None:
    project.written(flow(source__options=hooks(post=[MARKER, WEBHOOK])))
    finished = project.dpone("hooks", "execute", "m.yaml", "--phase", "post_hook", "--dry-run", "--format", "json")
    assert [step["status"] for step in finished.document["steps"]] == ["planned", "planned"]
    assert receiver.received == [] and not (project.root / "evidence").exists()


@pytest.mark.parametrize("drips", ["head", "body"])
def test_a_receiver_that_answers_a_byte_at_a_time_is_left_at_the_deadline(
    project: Project, receiver: Receiver, drips: str
) -> None:
    """The deadline is one for the whole exchange; the body of an answer is not waited for."""
    receiver.drips = drips
    project.environment["DPONE_CONN_PAGER"] = receiver.url()
    project.written(flow(source__options=hooks(post=[{**WEBHOOK, "options": {"timeout_seconds": 1}}])))
    began = time.monotonic()
    outcome = outcome_of(project.execute())
    assert time.monotonic() - began < 30
    assert outcome.passed is (drips == "body")
    assert drips == "body" or (outcome.failure is not None and "webhook_unreachable" in outcome.failure.message)
