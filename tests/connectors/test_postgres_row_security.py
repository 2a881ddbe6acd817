"""Rows that a policy of PostgreSQL hides from the role are an error, unless the manifest asks for visible rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from dpone_core.connectors.postgres.open import open_source
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import KeyRange
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from tests.connectors.sessions import connection
from tests.live.servers import scratch_postgres
from tests.spec.builders import Project, flow

TABLE = ExtractRequest(table=TableName(schema="public", name="guarded"))
QUERY = ExtractRequest(query=SqlText(text="SELECT id, who FROM guarded"))
VIEW = ExtractRequest(table=TableName(schema="public", name="as_reader"))
SQL = """
CREATE TABLE guarded (id int8 PRIMARY KEY, who text);
INSERT INTO guarded VALUES (1, '{role}'), (2, 'other'), (3, NULL);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON guarded USING (who = current_user);
CREATE VIEW as_reader WITH (security_invoker = true) AS SELECT * FROM guarded;
CREATE ROLE {role} LOGIN; GRANT SELECT ON guarded, as_reader TO {role};
"""


@pytest.fixture(scope="module")
def reader_uri() -> Iterator[str]:
    role = f"reader_{uuid4().hex[:12]}"
    with scratch_postgres() as uri, psycopg.connect(uri, autocommit=True) as server:
        server.execute(SQL.format(role=role).encode())
        try:
            yield uri.replace("postgres@", f"{role}@")
        finally:
            server.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.fixture(scope="module")
def source(reader_uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(reader_uri)) as ports:
        yield ports


def ids(ports: SourcePorts, request: ExtractRequest) -> list[int]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [value for batch in stream.batches() for value in batch.column("id").to_pylist()]


@pytest.mark.parametrize("request_", [TABLE, QUERY, VIEW], ids=["table", "query", "view"])
def test_hidden_rows_are_an_error(source: SourcePorts, request_: ExtractRequest) -> None:
    with pytest.raises(ConnectorError) as raised:
        ids(source, request_)
    assert raised.value.code == "source_rows_hidden"
    assert "rows: visible" in str(raised.value.fix) and "other" not in str(raised.value)


def test_hidden_rows_are_an_error_of_every_question(source: SourcePorts) -> None:
    metrics, ranges = source.metrics, source.ranges
    assert metrics is not None and ranges is not None
    schema = source.source.describe(replace(TABLE, visible_rows=True))
    asked, bounds = MetricRequest(side=Side.SOURCE, extract=VIEW), KeyRange(partition_index=0, lower="1", upper="9")
    for question in (
        lambda: source.source.cursor_maximum(VIEW, "id"),
        lambda: metrics.collect(asked),
        lambda: ranges.key_bounds(VIEW, schema, "id", None),
        lambda: list(ranges.open_range(VIEW, schema, "id", bounds, None).batches()),
    ):
        with pytest.raises(ConnectorError) as raised:
            question()
        assert raised.value.code == "source_rows_hidden"


@pytest.mark.parametrize("request_", [TABLE, QUERY, VIEW], ids=["table", "query", "view"])
def test_visible_rows_are_what_the_role_sees(source: SourcePorts, request_: ExtractRequest) -> None:
    visible = replace(request_, visible_rows=True)
    metrics, ranges = source.metrics, source.ranges
    assert metrics is not None and ranges is not None
    assert ids(source, visible) == [1]
    assert source.source.cursor_maximum(visible, "id") == "1"
    asked = MetricRequest(side=Side.SOURCE, extract=visible, row_count=True)
    assert metrics.collect(asked)["row_count"] == 1
    assert ranges.key_bounds(visible, source.source.describe(visible), "id", None).rows == 1


def test_the_owner_of_the_rows_reads_all(reader_uri: str) -> None:
    owner = "postgres@" + reader_uri.split("@")[1]
    with open_source(connection(f"postgresql://{owner}")) as ports:
        assert sorted(ids(ports, TABLE)) == [1, 2, 3]


def test_a_load_of_visible_rows_says_so(tmp_path: Path, reader_uri: str) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_PG": reader_uri})
    table = {"schema": "public", "name": "guarded"}
    project.written(flow(source={"type": "postgres", "connection_ref": "pg", "table": table}))
    refused = project.run("--run-id", "r1")
    assert refused.exit_code == 1 and "source_rows_hidden" in refused.stdout
    visible = {"type": "postgres", "connection_ref": "pg", "table": table, "options": {"rows": "visible"}}
    project.written(flow(source=visible))
    loaded = project.run("--run-id", "r2")
    assert loaded.exit_code == 0, loaded.stdout
    assert project.target("SELECT id FROM raw.orders") == [(1,)]
    evidence = json.dumps(loaded.result)
    assert "source_rows_visible_only" in evidence


def test_a_source_that_hides_no_rows_takes_no_such_word(tmp_path: Path) -> None:
    project = Project(tmp_path)
    source = {"type": "sqlite", "connection_ref": "shop", "table": {"name": "orders"}, "options": {"rows": "visible"}}
    project.written(flow(source=source))
    refused = project.run("--run-id", "r1")
    assert refused.exit_code == 2 and "source.options.rows" in refused.stdout
