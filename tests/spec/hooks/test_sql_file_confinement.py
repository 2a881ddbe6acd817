"""A hook's `sql_file` is read once, bounded, inside the repository root, whatever its name tries (HOOK-27)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpone_core.manifest.project_files import MAX_FILE_BYTES
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.fingerprint import sha256_bytes
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.model.sql import sql_hash_of
from tests.spec.builders import Project, flow, hooks

OUTSIDE = "DPONE_SQL_FILE_OUTSIDE_PROJECT"
ABSENT = "DPONE_PROJECT_FILE_NOT_FOUND"
SELECT = "SELECT 1\n"


@pytest.fixture(name="project")
def repository_beside_a_secret(tmp_path: Path) -> Project:
    """A repository whose manifest lies two directories deep; the SQL beside it and a secret outside."""
    (tmp_path / "secret.sql").write_text("SELECT 'CANARY'")
    project = Project(tmp_path / "repository")
    (project.root / ".git").mkdir()
    for directory in ("manifests/daily", "sql"):
        (project.root / directory).mkdir(parents=True)
    (project.root / "sql" / "inside.sql").write_text(SELECT)
    (project.root / "manifests" / "daily" / "beside.sql").write_text(SELECT)
    return project


def loaded(project: Project, name: str) -> str | None:
    """The code the file is refused with; None when its hook was read."""
    manifest = flow(source__options=hooks(pre=[{"id": "a", "sql_file": name}]))
    path = project.written(manifest, "manifests/daily/orders.yaml")
    try:
        load_manifest(path, project_root=project.root)
    except ManifestInvalidError as error:
        (problem,) = error.problems
        assert problem.path == "source.options.hooks.pre_hook[0].sql_file" and problem.position is not None
        assert "CANARY" not in str(problem) and str(project.root) not in str(problem)
        return problem.code
    return None


@pytest.mark.parametrize("name", ["beside.sql", "./beside.sql", "../../sql/inside.sql", "../daily/../daily/beside.sql"])
def test_a_file_inside_the_root_is_read_however_it_is_reached(project: Project, name: str) -> None:
    assert loaded(project, name) is None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("../../../secret.sql", OUTSIDE),
        ("../../../repository/../secret.sql", OUTSIDE),
        ("../../../../../../../../etc/passwd", OUTSIDE),
        ("/etc/passwd", OUTSIDE),
        ("//etc/passwd", OUTSIDE),
        ("C:/windows/win.ini", OUTSIDE),
        ("c:inside.sql", OUTSIDE),
        ("\\\\server\\share\\x.sql", OUTSIDE),
        ("..\\..\\sql\\inside.sql", OUTSIDE),
        ("file:///etc/passwd", ABSENT),
        ("https://example.com/x.sql", ABSENT),
        ("~/x.sql", ABSENT),
        ("$HOME/x.sql", ABSENT),
        ("%2e%2e/%2e%2e/%2e%2e/secret.sql", ABSENT),
        ("BESIDE.sql", ABSENT),
        ("beside.SQL", ABSENT),
        ("beside.sql ", ABSENT),
        ("a/" * 3000 + "x.sql", "DPONE_PROJECT_FILE_INVALID"),
        ("x" * 300, "DPONE_PROJECT_FILE_INVALID"),
        ("absent.sql", ABSENT),
        (".", "DPONE_PROJECT_FILE_INVALID"),
        ("../../sql", "DPONE_PROJECT_FILE_INVALID"),
    ],
)
def test_a_file_that_is_elsewhere_or_no_file_is_refused(project: Project, name: str, code: str) -> None:
    assert loaded(project, name) == code


def linked(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (linked("../../../secret.sql"), OUTSIDE),
        (linked("/etc/passwd"), OUTSIDE),
        (linked("link.sql"), "DPONE_PROJECT_FILE_INVALID"),
        (linked("absent.sql"), ABSENT),
        (linked("../../sql/inside.sql"), None),
        (lambda path: path.write_bytes(b"-" * (MAX_FILE_BYTES + 1)), "DPONE_PROJECT_FILE_TOO_LARGE"),
        (lambda path: path.write_bytes(b"SELECT '\xff'"), "DPONE_MANIFEST_VALUE_INVALID"),
        (lambda path: path.write_bytes("SELECT 1".encode("utf-16")), "DPONE_MANIFEST_VALUE_INVALID"),
        (lambda path: path.write_bytes(b"SELECT 1\x00"), "DPONE_MANIFEST_VALUE_INVALID"),
        (lambda path: path.write_bytes(b" \n"), "DPONE_MANIFEST_VALUE_INVALID"),
        (lambda path: path.write_bytes(b"\xef\xbb\xbfSELECT 1"), None),
        (lambda path: path.mkdir(), "DPONE_PROJECT_FILE_INVALID"),
        (os.mkfifo, "DPONE_PROJECT_FILE_INVALID"),
    ],
)
def test_what_stands_under_a_good_name_is_judged_too(
    project: Project, make: Callable[[Path], None], code: str | None
) -> None:
    make(project.root / "manifests" / "daily" / "link.sql")
    assert loaded(project, "link.sql") == code


def test_a_linked_directory_does_not_lead_out(project: Project) -> None:
    (project.root / "sql" / "elsewhere").symlink_to(project.root.parent, target_is_directory=True)
    assert loaded(project, "../../sql/elsewhere/secret.sql") == OUTSIDE


def test_a_neighbour_whose_name_begins_like_the_root_is_outside(project: Project) -> None:
    neighbour = project.root.with_name("repository_two")
    neighbour.mkdir()
    (neighbour / "x.sql").write_text(SELECT)
    assert loaded(project, "../../../repository_two/x.sql") == OUTSIDE


def test_the_file_is_a_dependency_by_its_bytes_and_evidence_by_its_text(project: Project) -> None:
    manifest = flow(source__options=hooks(pre=[{"id": "a", "sql_file": "../../sql/inside.sql"}]))
    path = project.written(manifest, "manifests/daily/orders.yaml")
    read = load_manifest(path, project_root=project.root)
    (dependency,) = [file for file in read.dependencies if file.kind == "hook_sql_file"]
    assert (dependency.path, dependency.sha256) == ("sql/inside.sql", sha256_bytes(SELECT.encode()))
    (hook,) = read.processes[0].hooks
    assert hook.sql_hash == sql_hash_of(SELECT)
