"""What a repeat does to a target that holds the load is said as it is: nothing, replaces, merges, or adds rows twice.

And a success counts what it has written, updated rows too. Contract: FAIL-32, EVID-24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.cli.run_text import run_text
from dpone_core.evidence.html import run_html
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.recovery import recovery_advice
from dpone_core.evidence.redaction import Redactor
from dpone_core.evidence.run_verdict import airflow_advice, next_commands, run_verdict
from dpone_core.invocation import RunArguments
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.repetition import Repetition, repetition_of
from dpone_core.model.vocabulary import RetryClassification, SourceState, StrategyMode, TargetState
from dpone_core.state.evidence_files import EvidenceFilesError, LocalEvidenceFiles
from dpone_core.use_cases.call import Call
from dpone_core.use_cases.run import RunOptions, RunOutcome, prepare_run
from dpone_core.wiring.runtime import NoCancellation
from tests.spec.builders import Project, append_flow, flow, project_with_orders
from tests.spec.state.test_incremental_merge import merge_flow

MAY_REPEAT = RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
COMMITTED = TargetState.MUTATION_RETURNED_SUCCESS
REPEATS = {
    (SourceState.ADVANCED, StrategyMode.INCREMENTAL_APPEND): Repetition.NOTHING,
    (SourceState.ADVANCED, StrategyMode.INCREMENTAL_MERGE): Repetition.NOTHING,
    (SourceState.NOT_ADVANCED, StrategyMode.INCREMENTAL_APPEND): Repetition.ADDS,
    (SourceState.UNKNOWN, StrategyMode.INCREMENTAL_APPEND): Repetition.ADDS,
    (SourceState.NOT_ADVANCED, StrategyMode.INCREMENTAL_MERGE): Repetition.MERGES,
    (SourceState.UNKNOWN, StrategyMode.INCREMENTAL_MERGE): Repetition.MERGES,
    (SourceState.NOT_ADVANCED, StrategyMode.FULL_REFRESH): Repetition.REPLACES,
    (SourceState.NOT_APPLICABLE, StrategyMode.FULL_REFRESH): Repetition.REPLACES,
    (SourceState.NOT_APPLICABLE, StrategyMode.PARTITION_REPLACE): Repetition.REPLACES,
    (SourceState.NOT_ADVANCED, None): Repetition.ADDS,
}


@pytest.mark.parametrize(("source_state", "strategy"), REPEATS)
def test_what_a_repeat_does_follows_from_state_and_strategy(source_state: SourceState, strategy: Any) -> None:
    found = repetition_of(MAY_REPEAT, COMMITTED, source_state, strategy)
    assert found is REPEATS[source_state, strategy]
    words = (str(fact) if fact else None for fact in (MAY_REPEAT, COMMITTED, source_state, strategy))
    assert repetition_of(*words) is found


@pytest.mark.parametrize("retry", [retry for retry in RetryClassification if retry is not MAY_REPEAT])
def test_every_other_classification_says_all_by_itself(retry: RetryClassification) -> None:
    assert repetition_of(retry, COMMITTED, SourceState.ADVANCED, StrategyMode.FULL_REFRESH) is None


@pytest.mark.parametrize("strategy", StrategyMode)
def test_an_unknown_target_is_never_called_harmless(strategy: StrategyMode) -> None:
    assert repetition_of(MAY_REPEAT, TargetState.UNKNOWN, SourceState.ADVANCED, strategy) is Repetition.ADDS


@dataclass(frozen=True, slots=True)
class LosingFiles(LocalEvidenceFiles):
    """Real files; one name finds no room."""

    lost: str = "run.json"

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        if any(path.endswith(self.lost) for path in contents):
            raise EvidenceFilesError("no room")
        LocalEvidenceFiles.publish_together(self, contents)


def lost_report(project: Project, lost: str = "run.json") -> RunOutcome:
    """A real run that commits, and then cannot write one of its evidence files."""
    options = RunOptions(arguments=RunArguments(run_id="r1", dag_id="orders"))
    call = Call.of(options.arguments, project.environment, project.root, None)
    manifest = load_manifest(project.root / "m.yaml", project_root=project.root)
    (process,) = prepare_run(call, manifest, options).process_runs()
    files = LosingFiles(root=project.root / "evidence", lost=lost)
    return replace(process, runtime=replace(process.runtime, evidence=files)).run()


def told(outcome: RunOutcome) -> str:
    """All that is said of the run: page, console and Airflow."""
    report = outcome.report
    assert report.outcome is not None
    view = JsonView(report.as_json())
    verdict = run_verdict(view, "raw.orders")
    advice = (
        *recovery_advice(report.outcome),
        str(airflow_advice(view, verdict)),
        *map(str, next_commands(view, verdict)),
    )
    page = run_html(report.as_json(), Redactor(), evidence_sha256=None)
    return "\n".join([page, run_text(report, None, None), *advice])


def test_a_load_that_lost_only_its_report_is_complete(tmp_path: Path) -> None:
    project = project_with_orders(tmp_path, append_flow())
    outcome = lost_report(project)
    said = told(outcome)
    assert "the load is complete" in said.lower() and "a retry loads none of it again" in said
    assert "second time" not in said and "deduplicate" not in said
    assert "clear the failed task and all downstream of it" in said
    before = project.target()
    again = project.execute("r1")
    assert again.report.passed and project.target() == before, "a repeat extracts nothing"


@pytest.mark.parametrize("lost", ["load.json", "run.json"])
def test_behind_the_commit_of_a_full_refresh_no_second_write_is_feared(tmp_path: Path, lost: str) -> None:
    project = project_with_orders(tmp_path, flow())
    said = told(lost_report(project, lost))
    assert "A retry writes this load again in its place; no row is doubled." in said
    assert "second time" not in said and "deduplicate" not in said
    assert project.execute("r1").report.passed and len(project.target()) == 3


def test_behind_the_commit_of_a_merge_a_repeat_updates_the_same_rows(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.source(
        "CREATE TABLE orders (id INTEGER, name TEXT, updated_at TIMESTAMP)",
        "INSERT INTO orders VALUES (1, 'a', '2026-01-01 10:00:00'), (2, 'b', '2026-01-01 10:01:00')",
    )
    project.written(merge_flow())
    said = told(lost_report(project, "load.json"))
    assert "A retry updates the same rows by their key; no row is doubled." in said and "second time" not in said
    assert project.execute("r1").report.passed and len(project.target()) == 2


def test_an_append_whose_state_has_not_advanced_is_still_feared(tmp_path: Path) -> None:
    said = told(lost_report(project_with_orders(tmp_path, append_flow()), "load.json"))
    assert "A retry may write this load a second time." in said and "deduplicate" in said


def test_a_termination_behind_the_state_says_that_the_load_is_complete(tmp_path: Path) -> None:
    """The signal waits until the state is saved, and then nothing of the load is missing."""

    class Terminating(NoCancellation):
        asked = 0

        def checkpoint(self) -> None:
            self.asked += 1
            if project.root.joinpath("dwh.duckdb").exists() and any((project.root / "evidence").rglob("load.json")):
                raise KeyboardInterrupt

    project = project_with_orders(tmp_path, append_flow())
    options = RunOptions(arguments=RunArguments(run_id="r1"))
    call = Call.of(options.arguments, project.environment, project.root, None)
    manifest = load_manifest(project.root / "m.yaml", project_root=project.root)
    (process,) = prepare_run(call, manifest, options).process_runs()
    outcome = replace(process, runtime=replace(process.runtime, cancellation=Terminating())).run()
    assert outcome.report.exit_code == 130 and outcome.report.outcome is not None
    assert outcome.report.outcome.retry is MAY_REPEAT and outcome.report.outcome.source_state is SourceState.ADVANCED
    assert "a retry loads none of it again" in told(outcome)


def sentence(inserted: int | None, updated: int | None, strategy: str) -> str:
    result = {
        "status": "success",
        "inserted_rows": inserted,
        "updated_rows": updated,
        "errors": [],
        "details": {"strategy": strategy},
    }
    return run_verdict(JsonView({"passed": True, "result": result}), "raw.orders").target


@pytest.mark.parametrize(
    ("inserted", "updated", "strategy", "said"),
    [
        (1000, 792, "incremental_merge", "this load of 1,792 rows: 1,000 inserted, 792 updated"),
        (0, 1500, "incremental_merge", "this load of 1,500 rows: 0 inserted, 1,500 updated"),
        (7, 0, "incremental_merge", "this load of 7 rows"),
        (7, None, "incremental_merge", "this load: 7 inserted, updated unknown"),
        (7, 0, "incremental_append", "this load of 7 rows"),
        (1, None, "full_refresh", "this load of 1 row"),
        (None, 3, "incremental_merge", "this load"),
    ],
)
def test_a_success_counts_every_row_it_has_written(
    inserted: int | None, updated: int | None, strategy: str, said: str
) -> None:
    assert sentence(inserted, updated, strategy) == f"The target raw.orders holds {said}."


def test_the_page_the_audit_row_and_the_throughput_of_a_merge_count_updated_rows(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.source("CREATE TABLE orders (id INTEGER, name TEXT, updated_at TIMESTAMP)")
    project.source("INSERT INTO orders VALUES (1, 'a', '2026-01-01 10:00:00'), (2, 'b', '2026-01-01 10:01:00')")
    project.written(merge_flow(quality={"acceptance": {"enabled": True}}))
    assert project.execute("r1").report.passed
    project.source("UPDATE orders SET name = 'c', updated_at = '2026-01-01 10:02:00'")
    project.source("INSERT INTO orders VALUES (3, 'd', '2026-01-01 10:02:00')")
    execution = project.execute("r2")
    (outcome,) = execution.outcomes
    assert outcome.evidence is not None
    page = (project.root / "evidence" / outcome.evidence.path).with_name("report.html").read_text()
    assert "holds this load of 3 rows: 1 inserted, 2 updated." in page
    loads = "SELECT inserted_rows, updated_rows, loaded_rows FROM etl_state.__dpone__loads WHERE run_id = 'r2'"
    assert project.target(loads)[-1] == (1, 2, 3)
    details: Any = execution.report.as_json()["result"]["details"]
    assert details["run_throughput"]["row_count"] == 3
    assert details["reconciliation_metrics"]["acceptance_metrics"]["load_result_rows"] == 3
