"""Several processes of one manifest run in authored order up to the first failure; a receipt is of one process.

Contract: CLI-12, FAIL-16, FAIL-17, HOOK-18.
"""

from __future__ import annotations

from tests.spec.builders import Project, append_flow, flow, hook, hooks


def process(name: str, table: str = "orders", **changes: object) -> dict[str, object]:
    value = flow(name=name, source__table={"name": table}, sink__table={"schema": "raw", "name": name}, **changes)
    return {key: item for key, item in value.items() if key != "kind"}


def written(project: Project, *processes: dict[str, object]) -> None:
    project.written({"kind": "dpone.flow.v1", "processes": list(processes)})


def test_all_processes_run_in_authored_order_as_one_object(project: Project) -> None:
    written(project, process("zebra"), process("apple"))
    finished = project.dpone("run", "m.yaml", "--format", "json", "--run-id", "r1")
    assert finished.exit_code == 0
    document = finished.document
    assert (document["kind"], document["passed"]) == ("dpone.run_set.v1", True)
    assert [(run["process"], run["run_id"]) for run in document["runs"]] == [("zebra", "r1"), ("apple", "r1")]


def test_the_first_failure_stops_the_set_and_keep_going_does_not(project: Project) -> None:
    written(project, process("one"), process("two", table="absent"), process("three"))
    stopped = project.dpone("run", "m.yaml", "--format", "json")
    assert stopped.exit_code == 1
    assert [(run["process"], run["passed"]) for run in stopped.document["runs"]] == [("one", True), ("two", False)]
    went_on = project.dpone("run", "m.yaml", "--format", "json", "--keep-going")
    assert went_on.exit_code == 1
    assert [run["passed"] for run in went_on.document["runs"]] == [True, False, True]


def test_what_one_process_cannot_is_refused_before_the_first_runs(project: Project) -> None:
    written(project, process("one"), process("two", sink__connection_ref="nowhere"))
    before = project.files()
    finished = project.dpone("run", "m.yaml", "--format", "json", "--keep-going")
    assert (finished.exit_code, finished.code) == (2, "DPONE_CONNECTION_UNRESOLVED")
    assert project.files() == before


def test_a_receipt_of_several_processes_is_refused_and_a_selector_makes_it_one(project: Project) -> None:
    written(project, process("one"), process("two"))
    refused = project.run()
    assert (refused.exit_code, refused.code) == (2, "DPONE_RECEIPT_NEEDS_ONE_PROCESS")
    assert refused.receipt is not None and refused.receipt["status"] == "refused"
    chosen = project.run("--selector", "two")
    assert chosen.exit_code == 0 and chosen.document["process"] == "two"
    assert chosen.receipt is not None and chosen.receipt["process"] == "two"
    assert project.target("SELECT table_name FROM information_schema.tables WHERE table_schema = 'raw'") == [("two",)]


def test_the_same_run_id_gives_every_process_its_own_evidence(project: Project) -> None:
    written(project, process("one"), process("two"))
    project.dpone("run", "m.yaml", "--run-id", "a/b c")
    found = {path.relative_to(project.root / "evidence").parts[1] for path in project.root.rglob("run.json")}
    assert found == {"one", "two"}


def test_a_failure_before_the_mutation_is_retried_as_often_as_asked(project: Project) -> None:
    project.written(flow(source__table={"name": "absent"}))
    finished = project.run("--retry-attempts", "2")
    assert finished.exit_code == 1
    assert (finished.document["attempts"], finished.document["max_attempts"]) == (3, 3)


def test_a_failure_after_the_commit_is_never_retried(project: Project) -> None:
    broken = hook("tidy", "DELETE FROM nobody_made_this")
    project.written(
        append_flow(source__options={"incremental": {"cursor_column": "updated_at"}, **hooks(post=[broken])})
    )
    finished = project.run("--retry-attempts", "2")
    assert (finished.exit_code, finished.code, finished.document["attempts"]) == (1, "hook_failed", 1)
    assert finished.result["failure_context"]["retry_classification"] == "operator_verification_required"
    assert finished.receipt is not None and finished.receipt["source_state"] == "advanced"
    assert len(project.target()) == 2


def test_a_failed_hook_that_may_not_be_repeated_is_never_retried(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[hook("refresh", "DELETE FROM absent", retry_policy="none")])))
    finished = project.run("--retry-attempts", "2")
    assert finished.document["attempts"] == 1
    assert finished.result["failure_context"]["retry_classification"] == "operator_verification_required"


def test_a_failed_hook_that_may_be_repeated_is(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[hook("refresh", "DELETE FROM absent", retry_policy="default")])))
    assert project.run("--retry-attempts", "1").document["attempts"] == 2


def test_a_post_hook_failure_has_report_evidence_and_receipt_and_is_repaired_by_hooks_execute(project: Project) -> None:
    tidy = hook("tidy", "INSERT INTO done VALUES (1)", retry_policy="default")
    project.written(flow(source__options=hooks(post=[tidy])))
    finished = project.run("--run-id", "r1")
    assert (finished.exit_code, finished.code) == (1, "hook_failed")
    assert finished.receipt is not None and finished.receipt["inserted_rows"] == 3
    assert (project.root / "evidence" / finished.receipt["evidence_path"]).is_file()
    project.source("CREATE TABLE done (id INTEGER)")
    repaired = project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", "post_hook", "--hook-id", "tidy", "--run-id", "r1")
    )
    assert repaired.exit_code == 0
