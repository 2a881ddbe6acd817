"""Every attempt of a run publishes its own evidence, and the last one says where the others are.

Contract: FAIL-19, FAIL-20.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.api import RunExecution
from dpone_core.invocation import RunArguments
from dpone_core.manifest.resolve import load_manifest
from dpone_core.state.evidence_files import EvidenceFilesError, LocalEvidenceFiles
from dpone_core.use_cases.call import Call
from dpone_core.use_cases.run import RetryPolicy, RunOptions, prepare_run
from tests.spec.builders import Project, code_of, flow


@pytest.fixture(name="project")
def shop_without_orders(tmp_path: Path) -> Project:
    """A shop without the table that is to be loaded."""
    project = Project(tmp_path)
    project.source("CREATE TABLE other (id INTEGER)")
    project.written(flow())
    return project


def executed(project: Project, sleep: Callable[[float], None] = lambda seconds: None) -> RunExecution:
    return project.execute("r1", retry=RetryPolicy(retry_attempts=2, sleep=sleep))


def evidence(project: Project) -> list[dict[str, Any]]:
    """Every run.json of the run, oldest attempt first."""
    found = sorted((project.root / "evidence" / "runs" / "orders").glob("r1*/*/run.json"))
    return [json.loads(path.read_text("utf-8")) for path in found]


def earlier_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return list(document["report"]["result"]["details"]["earlier_attempts"])


def test_every_failed_attempt_keeps_its_own_evidence(project: Project) -> None:
    execution = executed(project)
    assert execution.outcomes[0].report.attempts == 3
    documents = evidence(project)
    assert [document["report"]["attempts"] for document in documents] == [1, 2, 3]
    assert len({document["load_id"] for document in documents}) == 3
    assert [len(earlier_of(document)) for document in documents] == [0, 1, 2]
    code = code_of(execution)
    for document, told in zip(documents, earlier_of(documents[-1]), strict=False):
        assert (told["attempt"], told["load_id"]) == (document["report"]["attempts"], document["load_id"])
        assert (told["error_code"], told["failure_boundary"]) == (code, "pre_commit")
        content = (project.root / "evidence" / told["evidence_path"]).read_bytes()
        assert told["evidence_sha256"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert json.loads(content)["report"]["result"]["error_code"] == code


def test_a_success_names_the_attempt_that_failed_before_it(project: Project) -> None:
    execution = executed(project, lambda seconds: project.orders())
    assert code_of(execution) is None and execution.outcomes[0].report.attempts == 2
    first, last = evidence(project)
    assert first["report"]["passed"] is False and last["report"]["passed"] is True
    (told,) = earlier_of(last)
    assert told["load_id"] == first["load_id"] and told["error_code"] == first["report"]["result"]["error_code"]
    (report,) = (project.root / "evidence").rglob(f"{last['load_id']}/report.md")
    assert f"attempt 1: `{told['error_code']}` (pre_commit), evidence `{told['evidence_path']}`" in report.read_text()


def test_an_interrupted_backoff_overwrites_nothing(project: Project) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    execution = executed(project, interrupted)
    assert execution.report.exit_code == 130
    (outcome,) = execution.outcomes
    (document,) = evidence(project)
    assert document["report"]["result"]["error_code"] not in (None, "DPONE_RUN_INTERRUPTED")
    assert outcome.evidence is not None and outcome.evidence.path.rpartition("/")[0].endswith(document["load_id"])
    assert [attempt.outcome.failure is not None for attempt in outcome.report.earlier] == [True]


def test_a_run_whose_evidence_has_no_place_begins_no_attempt(project: Project) -> None:
    (project.root / "evidence").write_text("not a directory", encoding="utf-8")
    execution = executed(project)
    assert execution.outcomes == () and code_of(execution) == "DPONE_EVIDENCE_NOT_WRITABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesThatTakeNoVerdict(LocalEvidenceFiles):
    """Real files on a volume that was writable when the run was asked for, and no longer is."""

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        raise EvidenceFilesError("the volume takes no more")


def test_an_attempt_whose_evidence_cannot_be_written_is_the_last(project: Project) -> None:
    options = RunOptions(arguments=RunArguments(run_id="r1"), retry=RetryPolicy(retry_attempts=2))
    call = Call.of(options.arguments, project.environment, project.root, None)
    manifest = load_manifest(project.root / "m.yaml", project_root=project.root)
    (process,) = prepare_run(call, manifest, options).process_runs()
    files = FilesThatTakeNoVerdict(root=project.root / "evidence")
    outcome = replace(process, runtime=replace(process.runtime, evidence=files)).run()
    assert (outcome.report.attempts, outcome.evidence, outcome.report.passed) == (1, None, False)
