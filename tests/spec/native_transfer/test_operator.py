"""What stands in the way of a load, and what an operator may do about it. Contract: NAT-13, NAT-45, NAT-63."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone_core.manifest.resolve import load_manifest
from dpone_core.native_transfer.checkpoint_file import CheckpointFiles
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.native_transfer.report import report_path
from dpone_core.planning.partitions import route_of
from dpone_core.use_cases.plan import plan_process
from tests.spec.builders import Finished, Project, append_flow, code_of, outcome_of, project_with_orders
from tests.spec.native_transfer.builders import transferred
from tests.spec.native_transfer.test_transfers import ROWS, STAGING, append, broken, refresh, report, split

LAST = ROWS[-1][0]


@pytest.fixture(name="project")
def append_in_ranges(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, by_file(), [*ROWS, (101, "waits", 1001)])


def by_file(**changes: object) -> dict[str, object]:
    """An append whose checkpoints this test can write too."""
    options = {
        "incremental": {"cursor_column": "updated_at"},
        "partitioning": split(workers=1, checkpoints="file"),
    }
    return append(**{"source__options": options, **changes})


def store(project: Project) -> CheckpointStore:
    return CheckpointFiles(root=project.root / "evidence/native_transfer/checkpoints")


def half_published(project: Project) -> Any:
    """Run `half` staged its ranges and failed; then one of them is committed, as its process would have done."""
    broken(project, LAST)
    project.source(f"UPDATE orders SET name = x'00', updated_at = {LAST * 10} WHERE id = {LAST}")
    assert code_of(project.execute("half")) == "source_value_out_of_range"
    project.source(f"UPDATE orders SET name = 'n{LAST}' WHERE id = {LAST}")
    (config,) = load_manifest(project.root / "m.yaml", project_root=project.root).processes
    return route_of(plan_process(config).plan)


def committed(project: Project, run_id: str = "half", *, armed: bool = False) -> None:
    from dpone_core.native_transfer.ledger import TransferLedger
    from dpone_core.testing.fakes import FixedClock

    route, files = half_published(project), store(project)
    run = files.run(route, run_id)
    assert run is not None
    ledger = TransferLedger(store=files, run=run, clock=FixedClock())
    ledger.latest.update((record.partition_id, record) for record in files.latest(route, run_id))
    partition = run.plan.partitions(route, run.plan.query_hash, run.plan.schema_hash)[1]
    commit = ledger.guard_commit([transferred(partition, 11)], {"load_id": partition.id, "attempt": 1, "mark": None})
    commit.arm()
    if not armed:
        commit.commit()


def transfer(project: Project, *arguments: str) -> Finished:
    action, *rest = arguments
    return project.dpone("transfer", action, "m.yaml", "--format", "json", *rest)


def test_another_run_waits_for_one_that_stands_half_published(project: Project) -> None:
    committed(project)
    other = project.execute("other")
    assert code_of(other) == "native_transfer_run_incomplete"
    context = outcome_of(other).failure_context()
    assert context is not None and context["target_state"] == "not_mutated"
    assert context["retry_classification"] == "operator_verification_required"
    assert "--run-id half" in str(getattr(other.error, "fix", ""))
    released = transfer(project, "reconcile", "--run-id", "half", "--found", "removed", "--reason", "rows deleted")
    assert released.exit_code == 0 and released.document["run"]["state"] == "released"
    assert project.execute("other").error is None
    assert project.target() == ROWS


def test_a_run_half_published_does_not_read_something_else(project: Project) -> None:
    """Its rows would stand beside rows of another shape, and some of them twice."""
    committed(project)
    project.source("ALTER TABLE orders ADD COLUMN note TEXT")
    changed = project.execute("half")
    assert code_of(changed) == "native_transfer_workload_changed"
    assert outcome_of(changed).failure_context()["retry_classification"] == (  # type: ignore[index]
        "operator_verification_required"
    )


def test_a_run_whose_cursor_was_moved_does_not_go_on(project: Project) -> None:
    """Its window would be loaded again by whoever reads the cursor that was saved since."""
    half_published(project)
    unsplit = append_flow()
    project.written(unsplit)
    assert project.execute("beside").error is None
    project.written(by_file())
    assert code_of(project.execute("half")) == "native_transfer_cursor_moved"


def test_an_unsplit_load_of_the_same_target_waits_as_well(project: Project) -> None:
    """Removing `partitioning` does not make a half published run harmless."""
    options = {"incremental": {"cursor_column": "updated_at"}, "partitioning": split(workers=1)}
    project.written(append(source__options=options))
    died = project.dpone("p1", launcher=(*PYTHON, "-c", DIES_IN_THE_SECOND_PUBLICATION))
    assert died.exit_code == -9, died.stderr
    project.written(append_flow())
    waiting = project.execute("unsplit")
    assert code_of(waiting) in ("native_transfer_manual_reconciliation_required", "native_transfer_run_incomplete")
    assert len(project.target()) < len(ROWS)


PYTHON = (sys.executable,)
DIES_IN_THE_SECOND_PUBLICATION = """
import os, signal, sys
from pathlib import Path
from dpone_core.api import RunOptions, RunProcessPorts, execute_run
from dpone_core.invocation import RunArguments
from contextlib import contextmanager
from dpone_core.wiring.runtime import NoCancellation
class Cancellation(NoCancellation):
    entered = 0
    @contextmanager
    def shield(self):
        Cancellation.entered += 1
        if Cancellation.entered == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield
options = RunOptions(arguments=RunArguments(run_id="p1"))
execute_run(Path("m.yaml"), options, ports=RunProcessPorts(cancellation=Cancellation()))
"""


def test_a_guard_blocks_until_it_is_reconciled_by_the_command(project: Project) -> None:
    """The show of the guard: blocked, looked at, declared, released, finished."""
    committed(project, armed=True)
    blocked = project.run("--run-id", "half")
    assert (blocked.exit_code, blocked.code) == (1, "native_transfer_manual_reconciliation_required")
    shown = transfer(project, "show").document
    (run,) = shown["runs"]
    (batch,) = run["unresolved"]
    assert (batch["phase"], batch["load_marker_says"], batch["rows"]) == ("armed", "not_published", 11)
    assert run["checkpoint_summary"]["exported"] == 1
    cleanup = project.dpone("cleanup", "m.yaml", "--run-id", "half", "--format", "json")
    assert cleanup.exit_code == 1 and cleanup.code == "native_transfer_manual_reconciliation_required"
    settled = transfer(project, "reconcile", "--run-id", "half", "--found", "not_published", "--reason", "looked")
    assert settled.exit_code == 0
    (record,) = project.root.glob("evidence/runs/orders/transfer_reconciliations/*.json")
    written = json.loads(record.read_text("utf-8"))
    assert (written["status"], written["found"], written["reason"]) == ("applied", "not_published", "looked")
    finished = project.run("--run-id", "half")
    assert finished.exit_code == 0 and project.target() == ROWS


def test_a_declaration_needs_a_reason_a_run_and_something_to_declare(project: Project) -> None:
    half_published(project)
    blank = transfer(project, "reconcile", "--run-id", "half", "--found", "published", "--reason", " ")
    assert (blank.exit_code, blank.code) == (2, "DPONE_STATE_REASON_REQUIRED")
    unknown = transfer(project, "reconcile", "--run-id", "nobody", "--found", "published", "--reason", "r")
    assert (unknown.exit_code, unknown.code) == (2, "DPONE_RUN_UNKNOWN")
    nothing = transfer(project, "reconcile", "--run-id", "half", "--found", "published", "--reason", "r")
    assert (nothing.exit_code, nothing.code) == (2, "DPONE_TRANSFER_NOTHING_TO_RECONCILE")


def test_cleanup_removes_the_staged_ranges_of_a_run_and_they_are_read_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders(ROWS)
    project.written(refresh(source__options={"partitioning": split(workers=1)}))
    broken(project, LAST)
    project.execute("r1")
    assert len(project.target(STAGING)) == 9
    cleaned = project.dpone("cleanup", "m.yaml", "--run-id", "r1", "--format", "json")
    assert cleaned.exit_code == 0 and len(cleaned.document["removed"]) == 9
    assert project.target(STAGING) == []
    project.source(f"UPDATE orders SET updated_at = {LAST * 10} WHERE id = {LAST}")
    again = project.execute("r1")
    assert again.error is None and project.target() == ROWS
    assert outcome_of(again).result.extracted_rows == 100


def test_a_torn_checkpoint_is_said_and_its_range_read_again(project: Project) -> None:
    half_published(project)
    (path,) = project.root.rglob("half-*.jsonl")
    path.write_bytes(path.read_bytes()[:-30])
    again = project.execute("half")
    assert again.error is None and project.target() == ROWS
    assert "checkpoint_tail_torn" in outcome_of(again).warnings


def test_damaged_checkpoints_stop_the_run_before_it_reads(project: Project) -> None:
    half_published(project)
    (path,) = project.root.rglob("half-*.jsonl")
    path.write_bytes(b"{}\n" + path.read_bytes())
    again = project.execute("half")
    assert code_of(again) == "partition_checkpoint_unreadable"
    assert outcome_of(again).failure_context()["target_state"] == "not_mutated"  # type: ignore[index]


def test_a_mixed_full_refresh_reads_every_range_again_and_counts_it_once(tmp_path: Path) -> None:
    """NAT-68: nine committed ranges and one that is not are ten to read."""
    project = Project(tmp_path)
    project.orders(ROWS)
    project.written(refresh(source__options={"partitioning": split(workers=1, checkpoints="file")}))
    in_the_way = project.root / f"evidence/{report_path('orders', 'r1')}.json"
    in_the_way.mkdir(parents=True)
    failed = project.execute("r1")
    context = outcome_of(failed).failure_context()
    assert context is not None and context["checkpoint_state"] == "committed"
    assert context["retry_classification"] == "retry_via_native_resume"
    in_the_way.rmdir()
    (path,) = project.root.rglob("r1-*.jsonl")
    path.write_bytes(path.read_bytes()[:-10])
    assert code_of(project.execute("r1")) == "native_transfer_manual_reconciliation_required"
    declared = ("reconcile", "--run-id", "r1", "--found", "not_published", "--reason", "target restored")
    assert transfer(project, *declared).code == "DPONE_TRANSFER_MARKER_CONTRADICTS"
    assert transfer(project, *declared, "--override-marker").exit_code == 0
    again = project.execute("r1")
    assert again.error is None and project.target() == ROWS
    scope = report(project, "r1")["quality_scope"]
    assert (scope["active_count"], scope["skipped_committed_count"], scope["reactivated_count"]) == (10, 9, 9)
    assert (scope["source_rows"], scope["target_rows"]) == (100, 100)
    assert outcome_of(again).result.extracted_rows == 100
