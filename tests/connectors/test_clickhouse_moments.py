"""A moment of ClickHouse is the same thing to its source and to its sink: an instant, unless dpone's comment says else.

The session's zone is UTC on both sides (CH-23).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpone_core.connectors.clickhouse.open import open_source
from dpone_core.connectors.clickhouse.source.types import source_column
from dpone_core.connectors.clickhouse.types import COMMENTS, column_of
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import batch_of, stage_request
from tests.connectors.sessions import APPEND, connection, embedded_clickhouse, session_of

NAIVE = COMMENTS[ColumnKind.TIMESTAMP]
MOMENTS = [
    "DateTime",
    "DateTime('UTC')",
    "DateTime('Asia/Tokyo')",
    "DateTime64(0)",
    "DateTime64(3)",
    "DateTime64(6)",
    "DateTime64(9, 'UTC')",
    "Nullable(DateTime64(6, 'Asia/Tokyo'))",
]


@pytest.mark.parametrize("text", MOMENTS)
@pytest.mark.parametrize(
    ("comment", "kind"),
    [("", ColumnKind.TIMESTAMP_TZ), ("of the shop", ColumnKind.TIMESTAMP_TZ), (NAIVE, ColumnKind.TIMESTAMP)],
)
def test_source_and_sink_agree_on_every_moment(text: str, comment: str, kind: ColumnKind) -> None:
    read, written = source_column("at", text, comment), column_of("at", text, comment)
    assert read.type.kind is written.type.kind is kind
    assert (read.type.fraction, read.nullable) == (written.type.fraction, written.nullable)


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("DateTime", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("DateTime64(6)", datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("DateTime64(6, 'Asia/Tokyo')", datetime(2026, 3, 29, 1, 30, 0, 250_000, tzinfo=UTC)),
        (f"DateTime64(6) COMMENT '{NAIVE}'", datetime(2026, 3, 29, 1, 30, 0, 250_000)),
        (f"DateTime COMMENT '{NAIVE}'", datetime(2026, 3, 29, 1, 30)),
    ],
)
def test_a_moment_is_appended_to_a_table_that_somebody_made_by_hand(
    tmp_path: Path, declared: str, stored: datetime
) -> None:
    source, target = TableName(schema="hand", name="source"), TableName(schema="hand", name="target")
    with embedded_clickhouse(tmp_path) as sink:
        session = session_of(sink)
        session.command("CREATE DATABASE hand")
        for table in (source, target):
            session.command(f"CREATE TABLE hand.{table.name} (at {declared}) ENGINE = MergeTree ORDER BY tuple()")
        literal = stored.replace(tzinfo=None).isoformat(" ")
        session.command(f"INSERT INTO hand.source SELECT toDateTime64('{literal}', 6, 'UTC')")
    with open_source(connection(f"chdb:///{tmp_path / 'warehouse'}")) as ports:
        request = ExtractRequest(table=source)
        schema = ports.source.describe(request)
        batches = list(ports.source.open_stream(request, schema).batches())
    with embedded_clickhouse(tmp_path) as sink:
        session = session_of(sink)
        for load in ("L1", "L2"):
            staged = stage_request(target, load, schema=schema, strategy=APPEND)
            sink.ports.target.preflight(staged)
            sink.load(staged, *batches)
        ((kept,),) = session.rows("SELECT DISTINCT toString(toDateTime64(at, 6, 'UTC')) FROM hand.target")
        assert kept == stored.replace(tzinfo=None).isoformat(" ", timespec="microseconds")
        assert session.rows("SELECT count() FROM hand.target") == [[2]]


def test_a_wall_clock_is_no_instant_of_a_table_that_does_not_say_so(tmp_path: Path) -> None:
    target = TableName(schema="hand", name="target")
    naive = TableSchema(columns=(Column(name="at", type=ColumnType(kind=ColumnKind.TIMESTAMP, fraction=6)),))
    with embedded_clickhouse(tmp_path) as sink:
        session = session_of(sink)
        session.command("CREATE DATABASE hand")
        session.command("CREATE TABLE hand.target (at DateTime64(6)) ENGINE = MergeTree ORDER BY tuple()")
        request = stage_request(target, "L1", schema=naive, strategy=APPEND)
        with pytest.raises(ConnectorError) as raised:
            sink.load(request, batch_of(naive, [{"at": datetime(2026, 3, 29, 1, 30)}]))
        assert "'at'" in str(raised.value) and session.rows("SELECT count() FROM hand.target") == [[0]]
