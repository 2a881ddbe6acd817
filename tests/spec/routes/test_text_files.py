"""CSV and NDJSON files are loaded as declared into engines and files, with gates and acceptance, or nothing is changed.

Contract: MAN-14, VAL-11.
"""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import clickhouse_connect
import duckdb
import pyarrow.parquet as pq
import pytest

from tests.spec.builders import Finished, Project, flow

COLUMNS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "name", "type": "string"},
    {"name": "amount", "type": "decimal(18,4)"},
]
CSV = 'id,name,amount\n1,"a ""b""\n",1.1\n2,\\N,\\N\n3,"",-0.0001\n'
NDJSON = (
    '{"id": 1, "name": "a \\"b\\"\\n", "amount": 1.1}\n'
    '{"id": 2, "name": null, "amount": null}\n{"id": 3, "name": "", "amount": "-0.0001"}\n'
)
ROWS = [(1, 'a "b"\n', Decimal("1.1000")), (2, None, None), (3, "", Decimal("-0.0001"))]
GATES = [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}]
ACCEPTANCE = {"enabled": True, "mode": "required", "checks": {"null_counts": "all_columns", "distinct_counts": ["id"]}}


def project_of(root: Path, sink: str, **options: Any) -> Project:
    types = {"duckdb": "duckdb", "chdb": "clickhouse", "file": "files"}
    project = Project(root, environment={"DPONE_CONN_DWH": f"{sink}:///{root / 'dwh'}"})
    (root / "in").mkdir()
    (root / "in/a.csv").write_text(CSV)
    (root / "in/a.ndjson").write_text(NDJSON)
    acceptance = ACCEPTANCE if sink != "file" else ACCEPTANCE | {"capture": {"staged": False}}
    source = {"type": "files", "options": {"path": "in", "format": "csv", "columns": COLUMNS} | options}
    project.written(flow(source=source, sink__type=types[sink], quality={"gates": GATES, "acceptance": acceptance}))
    return project


def reconciled(finished: Finished) -> None:
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert finished.receipt is not None
    assert (finished.receipt["final_rows"], finished.receipt["gates_passed"]) == (3, len(GATES))


def test_csv_into_clickhouse(tmp_path: Path) -> None:
    reconciled(project_of(tmp_path, "chdb").run())
    with closing(clickhouse_connect.get_client(interface="chdb", path=str(tmp_path / "dwh"))) as client:
        assert client.query("SELECT id, name, amount FROM raw.orders ORDER BY id").result_rows == ROWS


def test_ndjson_into_duckdb(tmp_path: Path) -> None:
    reconciled(project_of(tmp_path, "duckdb", format="ndjson").run())
    with closing(duckdb.connect(str(tmp_path / "dwh"), read_only=True)) as database:
        assert database.execute("SELECT id, name, amount FROM raw.orders ORDER BY id").fetchall() == ROWS


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_text_files_into_parquet_and_back_into_an_engine(tmp_path: Path, file_format: str) -> None:
    project = project_of(tmp_path, "file", format=file_format)
    reconciled(project.run())
    (part,) = (tmp_path / "dwh/raw/orders").glob("part-*.parquet")
    assert [tuple(row.values()) for row in pq.read_table(part).to_pylist()] == ROWS


def test_a_malformed_line_changes_nothing_and_says_where(tmp_path: Path) -> None:
    project = project_of(tmp_path, "duckdb")
    reconciled(project.run())
    with open(tmp_path / "in/a.csv", "a") as file:
        file.write('4,"s3cret"x,1\n')
    finished = project.run()
    assert (finished.exit_code, finished.code) == (1, "source_file_malformed")
    assert "file 0 of the source, line 6" in finished.stdout
    assert "s3cret" not in finished.stdout + finished.stderr
    with closing(duckdb.connect(str(tmp_path / "dwh"), read_only=True)) as database:
        assert database.execute("SELECT count(*) FROM raw.orders").fetchall() == [(3,)]


def test_a_null_where_the_manifest_says_none_changes_nothing(tmp_path: Path) -> None:
    finished = project_of(tmp_path, "duckdb", not_null=["name"]).run()
    assert (finished.exit_code, finished.code) == (1, "source_value_out_of_range")
    assert "column 'name'" in finished.stdout and "NULL" in finished.stdout


def test_a_declared_not_null_column_sorts_a_clickhouse_target(tmp_path: Path) -> None:
    project = project_of(tmp_path, "chdb")
    pq.write_table(pq.read_table(_parquet(tmp_path)), tmp_path / "in/a.parquet")
    source = {"type": "files", "options": {"path": "in", "format": "parquet", "not_null": ["id"]}}
    design = {"physical_design": {"order_by": ["id"]}}
    project.written(flow(source=source, sink__type="clickhouse", sink__options=design))
    assert project.run().exit_code == 0
    project.written(
        flow(source={"type": "files", "options": {"path": "in", "format": "parquet", "not_null": ["name"]}},
             sink__type="clickhouse", sink__options={"physical_design": {"order_by": ["name"]}})
    )  # fmt: skip
    finished = project.run()
    assert finished.exit_code == 1 and "'name'" in finished.stdout


def _parquet(root: Path) -> Path:
    path = root / "rows.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id, NULL::VARCHAR AS name) TO '{path}' (FORMAT parquet)")
    return path


@pytest.mark.parametrize("cursor", ["COALESCE(a,b)", "a || b", '"id"'])
def test_a_cursor_is_a_column_and_the_way_out_is_an_alias(tmp_path: Path, cursor: str) -> None:
    project = Project(tmp_path)
    project.written(
        flow(
            source__options={"incremental": {"cursor_column": cursor}},
            sink__strategy={"mode": "incremental_append"},
            state={"type": "sink"},
        )
    )
    checked = project.dpone("check", "m.yaml")
    assert checked.exit_code == 2
    assert "cursor_column: expected a plain column name" in checked.stdout and "alias" in checked.stdout
