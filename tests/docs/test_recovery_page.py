"""The table of docs/how-to/recovery.md is the table that console, reports and gate use, row by row."""

from __future__ import annotations

from pathlib import Path

from dpone_core.evidence.recovery import RECOVERIES
from dpone_core.loading.commit_state import CommitState
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "recovery.md"


def rows() -> list[tuple[str, ...]]:
    """Of the table under Decide."""
    decide = PAGE.read_text(encoding="utf-8").partition("## 4. Decide")[2]
    lines = [line for line in decide.splitlines() if line.startswith("| `")]
    return [
        tuple(cell.strip().strip("`") for cell in line.removesuffix(" |").removeprefix("| ").split(" | "))
        for line in lines
    ]


def test_the_page_has_the_rows_of_the_table_and_no_other() -> None:
    table = [
        (row.boundary, row.target_state, row.retry, row.repetition or "", row.meaning, row.action) for row in RECOVERIES
    ]
    assert rows() == table


def test_no_facts_have_two_rows() -> None:
    facts = [(row.boundary, row.target_state, row.retry, row.repetition) for row in RECOVERIES]
    assert len(set(facts)) == len(facts)


def test_every_outcome_that_a_load_can_have_has_a_row() -> None:
    """What the position of a load, and the outcomes of failed gates, can say."""
    known = {(row.boundary, row.target_state, row.retry) for row in RECOVERIES}
    result = LoadResult()
    said: set[tuple[Boundary, TargetState, RetryClassification]] = set()
    for unproven in (False, True):
        for moved in ("start", "committing", "refused", "committed"):
            commit_state = CommitState(unproven_hook=unproven)
            if moved != "start":
                commit_state.mark_committing()
            if moved == "refused":
                commit_state.mark_refused()
            if moved == "committed":
                commit_state.mark_committed(result)
            said.add((commit_state.boundary, commit_state.target_state, commit_state.retry))
    for build in (
        QualityGateFailureOutcome.pre_commit,
        QualityGateFailureOutcome.legacy_returned,
        QualityGateFailureOutcome.native_committed,
        QualityGateFailureOutcome.native_uncommitted,
        QualityGateFailureOutcome.resume_validation,
    ):
        outcome = build(result)
        said.add((outcome.failure_boundary, outcome.target_state, outcome.retry_classification))
    assert said <= known
