"""Nested columns are refused by name and never flattened, and no package of tables is half swapped: there is none.

Contract: LIFE-33, MAN-20.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_core.manifest.availability import NOT_AVAILABLE_YET
from tests.spec.builders import Project, code_of, flow, loaded_project, outcome_of

NESTED = {
    "list": pa.array([[1, 2], None]),
    "struct": pa.array([{"a": 1}, None]),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "list of structs": pa.array([[{"a": [1]}], None]),
}
OLD = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


@pytest.fixture(name="project")
def project_after_a_load(tmp_path: Path) -> Project:
    """`raw.orders` holds what an earlier load published."""
    return loaded_project(tmp_path, OLD)


def files(source_format: str) -> dict[str, object]:
    return {"type": "files", "options": {"path": f"a.{source_format}", "format": source_format}}


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
def test_a_load_into_several_tables_is_refused_by_every_verb(project: Project, verb: str) -> None:
    project.written(flow(sink__options={"normalization": {"enabled": True}}))
    known = project.files()
    refused = project.dpone(verb, "m.yaml")
    assert refused.exit_code == 2 and "Traceback" not in refused.stderr
    told = refused.stdout + refused.stderr
    assert NOT_AVAILABLE_YET in told and "sink.options.normalization" in told
    assert project.execute("r1").refusal is not None
    assert project.target() == OLD and project.files() == known


@pytest.mark.parametrize("kind", NESTED)
def test_a_nested_column_of_a_file_is_refused_by_name(project: Project, kind: str) -> None:
    pq.write_table(pa.table({"id": pa.array([1, 2]), "items": NESTED[kind]}), project.root / "a.parquet")
    project.written(flow(source=files("parquet")))
    execution = project.execute("r1")
    assert code_of(execution) == "source_column_unsupported"
    context = outcome_of(execution).failure_context()
    assert context is not None and context["target_state"] == "not_mutated"
    assert "'items'" in str(execution.error) and project.target() == OLD
    assert project.target("SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'raw'") == [(1,)]


@pytest.mark.parametrize("value", ['{"a": 1}', "[1, 2]", "[]", "{}"])
def test_a_nested_value_of_a_line_is_refused_by_line_and_column(project: Project, value: str) -> None:
    lines = f'{{"id": 1, "items": null}}\n{{"id": 2, "items": {value}}}\n'
    (project.root / "a.ndjson").write_text(lines, encoding="utf-8")
    source = files("ndjson")
    source["options"] |= {"columns": [{"name": "id", "type": "int64"}, {"name": "items", "type": "string"}]}  # type: ignore[operator]
    project.written(flow(source=source))
    execution = project.execute("r1")
    assert code_of(execution) is not None and execution.refusal is None
    told = str(execution.error)
    assert "line 2" in told and "'items'" in told and "a nested value is not read" in told
    assert project.target() == OLD
