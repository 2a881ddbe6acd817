"""A volume that fills up while the verdict is written leaves no page that says something else than the exit code.

Contract: EVID-06, EVID-23.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dpone_core.errors import ETLExecutionError
from dpone_core.invocation import RunArguments
from dpone_core.manifest.resolve import load_manifest
from dpone_core.ports.runtime import EvidenceFiles
from dpone_core.state.evidence_files import EvidenceFilesError, LocalEvidenceFiles
from dpone_core.use_cases.call import Call
from dpone_core.use_cases.run import RunOptions, RunOutcome, prepare_run
from tests.spec.builders import Project, flow, project_with_orders

VERDICT = {"run.json", "report.md", "report.html"}


@pytest.fixture(name="project")
def orders(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path / "project", flow())


def run_with(project: Project, files: EvidenceFiles) -> RunOutcome:
    options = RunOptions(arguments=RunArguments(run_id="r1"))
    call = Call.of(options.arguments, project.environment, project.root, None)
    manifest = load_manifest(project.root / "m.yaml", project_root=project.root)
    (process,) = prepare_run(call, manifest, options).process_runs()
    return replace(process, runtime=replace(process.runtime, evidence=files)).run()


def published(root: Path) -> set[str]:
    """Names of all files below; temporary ones too."""
    return {path.name for path in root.rglob("*") if path.is_file()}


@dataclass(slots=True)
class ShortFiles:
    """Real files; no file of a verdict may be longer than `bytes_allowed`: the system refuses the rest of it."""

    root: Path
    bytes_allowed: int
    after: list[ETLExecutionError] = field(default_factory=list)

    def publish(self, relative_path: str, content: bytes) -> None:
        LocalEvidenceFiles(root=self.root).publish(relative_path, content)

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.bytes_allowed, hard))
        try:
            LocalEvidenceFiles(root=self.root).publish_together(contents)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if self.after:
            raise self.after.pop()

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        return LocalEvidenceFiles(root=self.root).read(relative_path, limit_bytes)

    def names(self, relative_path: str) -> tuple[str, ...]:
        return LocalEvidenceFiles(root=self.root).names(relative_path)

    def remove(self, relative_path: str) -> None:
        LocalEvidenceFiles(root=self.root).remove(relative_path)


@pytest.mark.parametrize("bytes_allowed", [100, 9_000], ids=["nothing fits", "run.json and report.md fit"])
def test_a_verdict_without_room_for_all_its_files_leaves_none(project: Project, bytes_allowed: int) -> None:
    outcome = run_with(project, ShortFiles(project.root / "evidence", bytes_allowed))
    assert outcome.report.failure is not None and outcome.report.failure.code == "evidence_publication_failed"
    assert published(project.root / "evidence") == {"load.json"}
    assert len(project.target()) == 3


def test_files_that_an_earlier_publication_left_are_taken_away(project: Project) -> None:
    """It said success and then failed; the second one, which would say so, finds no room: none says success."""
    files = ShortFiles(project.root / "evidence", 1 << 20, [EvidenceFilesError("refused"), EvidenceFilesError("too")])
    assert not run_with(project, files).report.passed
    assert files.after == [] and published(project.root / "evidence") == {"load.json"}


def test_what_can_be_published_after_all_says_that_the_run_failed(project: Project) -> None:
    files = ShortFiles(project.root / "evidence", 1 << 20, [EvidenceFilesError("refused")])
    assert not run_with(project, files).report.passed
    assert published(project.root / "evidence") == {"load.json", *VERDICT}
    (found,) = (project.root / "evidence").rglob("run.json")
    assert json.loads(found.read_bytes())["report"]["passed"] is False
    assert "succeeded" not in found.with_name("report.html").read_text().partition("<h1>")[2].partition("</h1>")[0]


@pytest.fixture(name="volume")
def volume_of_36_kilobytes(tmp_path: Path) -> Iterator[Path]:
    volume = tmp_path / "volume"
    volume.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=36k", "tmpfs", str(volume)], check=False, capture_output=True
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("UNVERIFIED: a small volume cannot be mounted here")
    yield volume
    subprocess.run(["umount", str(volume)], check=True)


def test_a_run_whose_evidence_volume_is_full_leaves_no_page_of_success(project: Project, volume: Path) -> None:
    finished = project.run(environment={"DPONE_EVIDENCE_DIR": str(volume)})
    assert (finished.exit_code, finished.code) == (1, "evidence_publication_failed")
    assert finished.receipt is not None and finished.receipt["evidence_path"] is None
    assert published(volume) == {"load.json"}
