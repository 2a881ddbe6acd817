"""`load_manifest` gives frozen LoadConfigs and every dependency; SQL files stay inside the project (HOOK-09)."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path

import pytest

from dpone_core.errors import ExitClass
from dpone_core.manifest.resolve import SelectorUnknownError, load_manifest
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.model.sql import sql_hash_of
from tests.spec.manifest.manifests import BATCH, FLOW, flow, loaded, problems_of, written

SQL = "SELECT order_id FROM orders\n"


def with_query_file(name: str) -> dict[str, object]:
    return flow(source__table=None, source__options={"query": {"sql_file": name}})


def test_a_manifest_becomes_one_frozen_load_config(tmp_path: Path) -> None:
    manifest = loaded(tmp_path, FLOW)
    [process] = manifest.processes
    assert (process.process, process.manifest) == ("orders", "m.yaml")
    assert (str(process.source.table), str(process.sink.table)) == ("orders", "raw.orders")
    assert process.sink.governance.audit and process.sink.governance.state_schema == "etl_state"


def test_lookback_is_a_duration(tmp_path: Path) -> None:
    options = {"incremental": {"cursor_column": "d", "lookback": "P1DT2H3M4S"}}
    mode = {"sink__strategy__mode": "incremental_append", "state": {"type": "sink"}}
    [process] = loaded(tmp_path, flow(source__options=options, **mode)).processes
    assert process.source.incremental is not None
    assert process.source.incremental.lookback == timedelta(days=1, hours=2, minutes=3, seconds=4)


def test_a_sql_file_is_read_relative_to_the_manifest_and_listed(tmp_path: Path) -> None:
    written(tmp_path, SQL, "sql/q.sql")
    manifest = loaded(tmp_path, with_query_file("../sql/q.sql"), "manifests/m.yaml")
    [process] = manifest.processes
    assert process.source.query is not None
    assert process.source.query.text == SQL
    assert process.source.query.sql_hash == sql_hash_of(SQL)
    assert [(file.kind.value, file.path) for file in manifest.dependencies] == [
        ("manifest", "manifests/m.yaml"),
        ("query_sql_file", "sql/q.sql"),
    ]
    assert manifest.dependencies[1].sha256 == "sha256:" + hashlib.sha256(SQL.encode()).hexdigest()


def test_changed_sql_changes_the_meaning_of_the_manifest(tmp_path: Path) -> None:
    written(tmp_path, SQL, "q.sql")
    before = loaded(tmp_path, with_query_file("q.sql"))
    written(tmp_path, SQL.replace("order_id", "line_id"), "q.sql")
    after = loaded(tmp_path, with_query_file("q.sql"))
    assert before.source_fingerprint == after.source_fingerprint
    assert before.semantic_fingerprint != after.semantic_fingerprint


def test_comments_and_key_order_change_bytes_but_not_meaning(tmp_path: Path) -> None:
    reordered = "# note\n" + FLOW.replace("kind: dpone.flow.v1\nname: orders\n", "name: orders\nkind: dpone.flow.v1\n")
    before, after = loaded(tmp_path, FLOW), loaded(tmp_path, reordered)
    assert before.source_fingerprint != after.source_fingerprint
    assert before.semantic_fingerprint == after.semantic_fingerprint


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../etc/passwd", "C:/x.sql", "..\\x.sql", "link/passwd", "link.sql"]
)
def test_a_sql_file_outside_the_project_is_refused(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("SELECT 1")
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(outside)
    (project / "link.sql").symlink_to(outside / "passwd")
    [problem] = problems_of(project, with_query_file(name))
    assert problem.code == "DPONE_SQL_FILE_OUTSIDE_PROJECT"
    assert problem.path == "source.options.query.sql_file"
    assert str(tmp_path) not in str(problem)


def test_a_link_inside_the_project_is_followed(tmp_path: Path) -> None:
    written(tmp_path, SQL, "sql/q.sql")
    (tmp_path / "link.sql").symlink_to(tmp_path / "sql" / "q.sql")
    manifest = loaded(tmp_path, with_query_file("link.sql"))
    assert manifest.dependencies[1].path == "sql/q.sql"


def test_large_binary_or_empty_sql_files_are_refused(tmp_path: Path) -> None:
    for content in (b"-" * ((1 << 20) + 1), b"\xff\xfe", b"SELECT\x001", b" \n"):
        (tmp_path / "q.sql").write_bytes(content)
        [problem] = problems_of(tmp_path, with_query_file("q.sql"))
        assert problem.path == "source.options.query.sql_file"


def test_the_project_root_is_the_nearest_marked_ancestor(tmp_path: Path) -> None:
    (tmp_path / "dpone.yaml").write_text("")
    written(tmp_path, SQL, "sql/q.sql")
    path = written(tmp_path, with_query_file("../../sql/q.sql"), "a/b/m.yaml")
    assert load_manifest(path).project_root == tmp_path
    written(tmp_path, "", "a/b/pyproject.toml")
    with pytest.raises(ManifestInvalidError, match="DPONE_SQL_FILE_OUTSIDE_PROJECT"):
        load_manifest(path)


def test_a_manifest_outside_the_given_root_or_absent_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, FLOW)
    (tmp_path / "project").mkdir()
    with pytest.raises(ManifestInvalidError, match="DPONE_MANIFEST_OUTSIDE_PROJECT"):
        load_manifest(path, project_root=tmp_path / "project")
    with pytest.raises(ManifestInvalidError, match="DPONE_MANIFEST_NOT_FOUND") as caught:
        load_manifest(tmp_path / "absent.yaml")
    assert str(tmp_path) not in str(caught.value)
    assert caught.value.exit_class is ExitClass.REFUSED


def test_a_selector_names_a_process_or_is_refused_with_the_names(tmp_path: Path) -> None:
    manifest = loaded(tmp_path, BATCH)
    assert [process.process for process in manifest.select()] == ["main_orders", "main_customers"]
    assert [process.process for process in manifest.select("main_customers")] == ["main_customers"]
    with pytest.raises(SelectorUnknownError, match=r"main_orders, main_customers") as caught:
        manifest.select("main_order")
    assert caught.value.exit_class is ExitClass.REFUSED
    assert caught.value.fix == "did you mean 'main_orders'?"


def test_only_the_connections_of_a_process_enter_its_config(tmp_path: Path) -> None:
    connections = {"shop": {"uri": "sqlite:///shop.db"}, "dwh": {"uri": "chdb:///wh"}}
    [process] = loaded(tmp_path, flow(connections=connections)).processes
    assert process.connections == {"shop": "sqlite:///shop.db", "dwh": "chdb:///wh"}


def test_the_quality_mapping_is_the_resolved_authored_one(tmp_path: Path) -> None:
    quality = {"gates": [{"type": "min_rows", "threshold": 1}]}
    [process] = loaded(tmp_path, flow(quality=quality)).processes
    assert process.quality == quality
