"""A pre-hook that was started and never proved success is not run again by the next attempt of the same run.

Contract: HOOK-22.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.model.vocabulary import RetryClassification
from dpone_core.testing.builders import load_identity
from tests.spec.builders import flow, hook, hooks

from .harness import Attempt

AGAIN = load_identity("01KB6Q4X7D8M1T9N3VZ5C2R0AF")


def attempts(directory: Path, retry_policy: str) -> tuple[Attempt, Attempt]:
    """The second one meets the audit of the first, whose hook failed."""
    pre = hook("refresh", "INSERT INTO log VALUES (1)", retry_policy=retry_policy)
    manifest = flow(source__options=hooks(pre=[pre]))
    first = Attempt(manifest=manifest, directory=directory).fails("statements.execute")
    second = Attempt(manifest=manifest, directory=directory, identity=AGAIN)
    second.warehouse.control_rows = first.warehouse.control_rows
    second.warehouse.control_kinds = first.warehouse.control_kinds
    return first, second


def test_it_blocks_the_next_attempt_which_touches_nothing(tmp_path: Path) -> None:
    first, second = attempts(tmp_path, "none")
    assert first.ran().outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    outcome = second.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == "hook_outcome_unknown"
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    assert not [line for line in second.lines if line.startswith(("statements.", "source.", "sink.stage"))]


@pytest.mark.parametrize("retry_policy", ["default"])
def test_one_that_may_be_repeated_is_repeated(tmp_path: Path, retry_policy: str) -> None:
    first, second = attempts(tmp_path, retry_policy)
    first.ran()
    assert second.ran().outcome.passed and second.target_ids() == [1, 2, 3]
