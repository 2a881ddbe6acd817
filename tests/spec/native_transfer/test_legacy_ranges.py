"""The files sink takes range after range, each in files of its own, judged once all are committed.

Contract: NAT-15, NAT-53, NAT-77.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spec.builders import Project, append_flow, code_of, outcome_of
from tests.spec.native_transfer.test_transfers import QUALITY, ROWS, report, split

GATES: list[dict[str, object]] = [{"type": "row_count_reconciliation"}]


def into_files(gates: list[dict[str, object]] | None = None, **changes: object) -> dict[str, object]:
    options = {"incremental": {"cursor_column": "updated_at"}, "partitioning": split(workers=1)}
    quality = {**QUALITY, "gates": gates or GATES}
    return append_flow(
        **{
            "sink__type": "files",
            "sink__connection_ref": "lake",
            "source__options": options,
            "quality": quality,
            **changes,
        }
    )


@pytest.fixture(name="project")
def append_into_files(tmp_path: Path) -> Project:
    project = Project(tmp_path, environment={"DPONE_CONN_LAKE": f"file:///{tmp_path / 'lake'}"})
    project.orders([*ROWS, (101, "waits", 1001)])
    project.written(into_files())
    return project


def parts(project: Project) -> dict[str, list[int]]:
    """Ids by visible data file."""
    paths = sorted((project.root / "lake/raw/orders").glob("part-*"))
    return {path.name: [row["id"] for row in pq.read_table(path).to_pylist()] for path in paths}


def ids(project: Project) -> list[int]:
    return sorted(number for found in parts(project).values() for number in found)


def cursor(project: Project) -> str | None:
    path = project.root / "lake/etl_state/__dpone__cursor_state.jsonl"
    rows = [json.loads(line) for line in path.read_text("ascii").splitlines()] if path.is_file() else []
    saved = [row["row"]["cursor_value"] for row in rows if "row" in row]
    return saved[-1] if saved else None


def finalized(execution: Any) -> list[str]:
    return [step.step_id for step in outcome_of(execution).steps if step.step_id == "finalized"]


def test_each_range_has_files_of_its_own(project: Project) -> None:
    execution = project.execute("r1")
    assert execution.error is None
    assert ids(project) == [row[0] for row in ROWS]
    with_rows = [found for found in parts(project).values() if found]
    assert len(with_rows) == 9 and all(found == list(range(found[0], found[-1] + 1)) for found in with_rows)
    assert cursor(project) == "1001"
    scope = report(project, "r1")["quality_scope"]
    assert (scope["planned_count"], scope["source_rows"], scope["target_rows"]) == (10, 100, 100)


def test_a_range_that_fails_leaves_the_others_committed_and_is_loaded_next(project: Project) -> None:
    project.source("UPDATE orders SET name = x'00' WHERE id = 50")
    first = project.execute("r1")
    assert code_of(first) == "source_value_out_of_range"
    context = outcome_of(first).failure_context()
    assert context == {
        "failure_boundary": "post_commit",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "committed",
        "source_state": "not_advanced",
        "retry_classification": "retry_via_native_resume",
    }
    before = parts(project)
    assert ids(project) == list(range(1, max(ids(project)) + 1)) and cursor(project) is None
    project.source("UPDATE orders SET name = 'n50' WHERE id = 50")
    again = project.execute("r1")
    assert again.error is None and ids(project) == [row[0] for row in ROWS]
    assert before.items() <= parts(project).items(), "committed ranges are not written again"
    assert outcome_of(again).result.extracted_rows == 100 - len([n for found in before.values() for n in found])
    scope = report(project, "r1")["quality_scope"]
    assert (scope["planned_count"], scope["source_rows"], scope["target_rows"]) == (10, 100, 100)


def test_gates_that_fail_after_the_commit_keep_it_and_are_judged_again_without_the_sink(project: Project) -> None:
    """NAT-15: the checkpoints stay committed, and the next run does not call the sink."""
    project.written(into_files([{"type": "min_rows", "threshold": 101}]))
    first = project.execute("r1")
    assert code_of(first) == "DPONE_QUALITY_GATES_FAILED"
    result = first.report.as_json()["result"]  # type: ignore[index]
    assert result["failure_context"]["retry_classification"] == "retry_via_native_resume"
    assert result["failure_context"]["checkpoint_state"] == "committed"
    assert result["inserted_rows"] == 100 and result["extracted_rows"] == 100
    written = parts(project)
    assert ids(project) == [row[0] for row in ROWS] and cursor(project) is None
    second = project.execute("r1")
    assert code_of(second) == "DPONE_QUALITY_GATES_FAILED"
    context = outcome_of(second).failure_context()
    assert context is not None and context["failure_boundary"] == "resume_validation"
    assert context["target_state"] == "not_mutated" and finalized(second) == []
    project.written(into_files([{"type": "min_rows", "threshold": 100}]))
    third = project.execute("r1")
    assert third.error is None and parts(project) == written and cursor(project) == "1001"
    assert outcome_of(third).result.inserted_rows == 0


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"sink__strategy": {"mode": "full_refresh"}, "state": {"type": "disabled"}}, "source.options.partitioning"),
        ({}, "source.options.partitioning.workers"),
    ],
)
def test_what_ranges_cannot_add_up_to_without_staging_is_refused(
    project: Project, changes: dict[str, object], path: str
) -> None:
    options: dict[str, object] = {"partitioning": split(workers=2)}
    if not changes:
        options["incremental"] = {"cursor_column": "updated_at"}
    project.written(into_files(source__options=options, **changes))
    refused = project.execute("r1")
    assert code_of(refused) == "DPONE_ROUTE_REFUSED" and path in str(refused.error)
