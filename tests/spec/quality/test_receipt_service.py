"""The service behind a coordinator takes only the receipt of this load, and takes it before any evidence exists."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dpone_core.loading.commit_state import CommitState
from dpone_core.loading.context import LoadContext, LoadRequest, LoadSessions
from dpone_core.loading.payload import ExtractedPayload, LoadedPayload
from dpone_core.loading.service import PayloadCoordinator, PayloadLoadService
from dpone_core.loading.step_log import StepLog
from dpone_core.model.outcome import LoadResult
from dpone_core.model.vocabulary import Boundary, LoadPath
from dpone_core.ports.runtime import Runtime
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.receipt import QualityGateReceipt, QualityGateReceiptError
from dpone_core.quality.report import QualityGateReport
from dpone_core.testing.builders import ORDERS, load_identity
from dpone_core.testing.fakes import FixedClock, MemorySource
from dpone_core.wiring.runtime import NoCancellation, SilentProgress
from tests.spec.builders import flow
from tests.spec.lifecycle.harness import Attempt

GATE = {"type": "min_rows", "side": "target", "threshold": 1}
ROWS = QualitySideSnapshot(row_count=1)
Answer = Callable[[QualityGateExecution], QualityGateReceipt]


def judged(execution: QualityGateExecution) -> QualityGateReceipt:
    return execution.evaluate(boundary=Boundary.PRE_COMMIT, source=ROWS, target=ROWS)


def without_judging(execution: QualityGateExecution) -> QualityGateReceipt:
    return QualityGateReceipt(QualityGateReport(()), Boundary.PRE_COMMIT)


def a_copy(execution: QualityGateExecution) -> QualityGateReceipt:
    return replace(judged(execution))


def of_another_load(execution: QualityGateExecution) -> QualityGateReceipt:
    judged(execution)
    other = QualityGateExecution(execution.snapshot, load_identity("01KB6Q4X7D8M1T9N3VZ5C2R0AF"))
    other.select_path(LoadPath.STAGED)
    return judged(other)


@dataclass(frozen=True, slots=True)
class Answers:
    """A coordinator that loads nothing and hands back a receipt."""

    answer: Answer

    def load(self, payload: ExtractedPayload | None, execution: QualityGateExecution) -> LoadedPayload:
        return LoadedPayload(result=LoadResult(inserted_rows=1), receipt=self.answer(execution))


@dataclass(frozen=True, kw_only=True)
class Service(PayloadLoadService):
    """The real service in front of a coordinator of somebody else."""

    answer: Answer

    def _choose_coordinator(self) -> PayloadCoordinator:
        return Answers(self.answer)


def context_of(directory: Path) -> LoadContext:
    attempt = Attempt(manifest=flow(quality={"gates": [GATE]}), directory=directory)
    planned, identity = attempt.planned(), attempt.identity
    source = MemorySource(journal=attempt.journal, schema=ORDERS, data=())
    return LoadContext(
        request=LoadRequest(
            config=planned.config, plan=planned.plan, snapshot=planned.snapshot, token_values={}, hook_receipts=None
        ),
        runtime=Runtime(
            clock=FixedClock(), progress=SilentProgress(), cancellation=NoCancellation(), evidence=attempt.files
        ),
        sessions=LoadSessions(
            source=source.ports(), sink=attempt.warehouse.ports(), audit=None, cursor=None, lease=None
        ),
        identity=identity,
        step_log=StepLog(identity=identity, plan=planned.plan, clock=FixedClock(), audit=None),
        commit_state=CommitState(),
        commit_shield=ExitStack(),
    )


def loaded(directory: Path, answer: Answer) -> tuple[QualityGateExecution, Service]:
    context = context_of(directory)
    execution = QualityGateExecution(context.request.snapshot, context.identity)
    return execution, Service(context=context, answer=answer)


def test_the_receipt_of_this_load_is_accepted_and_makes_evidence(tmp_path: Path) -> None:
    execution, service = loaded(tmp_path, judged)
    service.load(None, execution)  # type: ignore[arg-type]
    assert execution.evidence() is not None


@pytest.mark.parametrize(
    ("answer", "code"),
    [(without_judging, "REQUIRED"), (a_copy, "MISMATCH"), (of_another_load, "MISMATCH")],
    ids=["not judged", "a copy", "of another load"],
)
def test_a_coordinator_that_hands_back_any_other_receipt_fails_the_load_before_evidence_exists(
    tmp_path: Path, answer: Answer, code: str
) -> None:
    execution, service = loaded(tmp_path, answer)
    with pytest.raises(QualityGateReceiptError) as refused:
        service.load(None, execution)  # type: ignore[arg-type]
    assert refused.value.code == f"DPONE_QUALITY_GATE_RECEIPT_{code}"
    with pytest.raises(QualityGateReceiptError):
        execution.evidence()
    assert service.context.step_log.steps == []
