"""A step works with the bundle that was reviewed or not at all: pack, expectation and disk agree byte for byte.

Contract: DAG-07.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.gitops.pack import BundleMismatchError, pack_of, require_pack
from dpone_core.manifest.resolve import Manifest, load_manifest
from tests.spec.builders import Project, flow


def read(project: Project) -> Manifest:
    return load_manifest(project.root / "m.yaml", project_root=project.root)


@pytest.fixture(name="project")
def query_in_a_file(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    (tmp_path / "orders.sql").write_text("SELECT id FROM orders", encoding="utf-8")
    project.written(flow(source__table=None, source__options={"query": {"sql_file": "orders.sql"}}))
    return project


def test_the_reviewed_bundle_agrees_with_its_pack(project: Project) -> None:
    pack = pack_of(read(project))
    require_pack(pack, pack.pack_fingerprint, read(project))


def test_another_pack_than_the_expected_one_is_refused(project: Project) -> None:
    pack = pack_of(read(project))
    with pytest.raises(BundleMismatchError, match="differs from the one"):
        require_pack(pack, "sha256:" + "0" * 64, read(project))


def test_a_file_that_changed_since_is_refused_by_name(project: Project) -> None:
    pack = pack_of(read(project))
    (project.root / "orders.sql").write_text("SELECT id, name FROM orders", encoding="utf-8")
    with pytest.raises(BundleMismatchError) as caught:
        require_pack(pack, pack.pack_fingerprint, read(project))
    assert caught.value.paths == ("orders.sql",)
