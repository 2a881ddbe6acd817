"""A driver that a signal stopped reports a failure of its own; report and audit name the signal alike.

Contract: CLI-20.
"""

from __future__ import annotations

from pathlib import Path

from dpone_core.errors import RunTerminated
from tests.spec.builders import append_flow

from .harness import Attempt, HeldSignals


def test_report_and_audit_name_the_signal_and_not_the_drivers_complaint(tmp_path: Path) -> None:
    attempt = Attempt(
        manifest=append_flow(source__options={"incremental": {"cursor_column": "id"}}), directory=tmp_path
    ).fails("sink.stage", RuntimeError("interrupted"))
    attempt.cancellation = HeldSignals(attempt.journal, after="sink.stage", interruption=RunTerminated())
    outcome = attempt.ran().outcome
    assert outcome.failure is not None
    assert outcome.failure.code == "DPONE_RUN_TERMINATED"
    assert attempt.load_row()["error_message"] == "DPONE_RUN_TERMINATED"
    assert attempt.step("load_governance_failed")["error_message"] == "DPONE_RUN_TERMINATED"
