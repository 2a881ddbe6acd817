"""Values on their way into SQL Server: exact, or refused by column. Wire-tested against a TDS double."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.testing.builders import TEXT, stage_request
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.mssql_servers import MssqlServer, mssql_server
from tests.connectors.sessions import mssql_sink

MERGE: Final = StrategyMode.INCREMENTAL_MERGE
K: Final = ColumnKind


@pytest.fixture(scope="module")
def server() -> Iterator[MssqlServer]:
    with mssql_server() as found:
        yield found


@pytest.fixture(scope="module")
def sink(server: MssqlServer) -> Iterator[OpenSink]:
    with mssql_sink(server.uri) as opened:
        yield opened


VALUES: Final[dict[str, tuple[ColumnType, list[Any]]]] = {
    "boolean": (ColumnType(kind=K.BOOLEAN), [True, False, None]),
    "int8": (ColumnType(kind=K.INT8), [-128, 127, None]),
    "int16": (ColumnType(kind=K.INT16), [-32768, 32767, None]),
    "int32": (ColumnType(kind=K.INT32), [-(2**31), 2**31 - 1, None]),
    "int64": (ColumnType(kind=K.INT64), [-(2**63), 2**63 - 1, None]),
    "uint8": (ColumnType(kind=K.UINT8), [0, 255, None]),
    "uint16": (ColumnType(kind=K.UINT16), [0, 65535, None]),
    "uint32": (ColumnType(kind=K.UINT32), [0, 2**32 - 1, None]),
    "uint64": (ColumnType(kind=K.UINT64), [0, 2**64 - 1, None]),
    "float32": (ColumnType(kind=K.FLOAT32), [0.1 + 0.4, -1.5, None]),
    "float64": (ColumnType(kind=K.FLOAT64), [0.1, 5e-324, 1.7976931348623157e308, None]),
    "decimal": (
        ColumnType(kind=K.DECIMAL, precision=38, scale=20),
        [Decimal("0.00000000000000000001"), Decimal("-123456789012345678.00000000000000000001"), None],
    ),
    "text": (TEXT, ["", " ", "é😀", "x" * 9000, "it's; --", None]),
    "binary": (ColumnType(kind=K.BINARY), [b"", b"\x00\xff", b"y" * 9000, None]),
    "date": (ColumnType(kind=K.DATE), [date(1, 1, 1), date(9999, 12, 31), None]),
    "time": (ColumnType(kind=K.TIME, fraction=6), [time(0), time(23, 59, 59, 999999), None]),
    "timestamp": (
        ColumnType(kind=K.TIMESTAMP, fraction=6),
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None],
    ),
    "timestamp_tz": (
        ColumnType(kind=K.TIMESTAMP_TZ, fraction=6),
        [datetime(1900, 1, 1, tzinfo=UTC), datetime(2026, 3, 29, 0, 30, 0, 1, UTC), None],
    ),
    "uuid": (ColumnType(kind=K.UUID), [UUID(int=1).bytes, UUID("00112233-4455-6677-8899-aabbccddeeff").bytes, None]),
}


def batch(schema: TableSchema, values: list[Any]) -> pa.RecordBatch:
    wanted = arrow_schema(schema)
    arrays = [pa.array(range(len(values)), wanted.field(0).type), pa.array(values, wanted.field(1).type)]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def keyed(kind: ColumnType, *, nullable: bool = True) -> TableSchema:
    key = Column(name="id", type=ColumnType(kind=K.INT64), nullable=False)
    return TableSchema(columns=(key, Column(name="v", type=kind, nullable=nullable)))


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_comes_back_exactly(sink: OpenSink, kind: str) -> None:
    column, values = VALUES[kind]
    schema = keyed(column)
    handle = sink.staged.stage(stage_request(fresh_table(), schema=schema), iter([batch(schema, values)]))
    assert sink.ports.staged_rows is not None
    rows = [row for found in sink.ports.staged_rows.read_back(handle) for row in found.to_pylist()]
    sink.staged.cleanup(handle.ref)
    assert [row["v"] for row in sorted(rows, key=lambda row: int(row["id"]))] == values


REFUSED: Final[dict[str, tuple[ColumnType, Any]]] = {
    "NaN": (ColumnType(kind=K.FLOAT64), float("nan")),
    "infinity": (ColumnType(kind=K.FLOAT32), float("-inf")),
    "a year before 1": (ColumnType(kind=K.DATE), -800_000),
    "a year after 9999": (ColumnType(kind=K.TIMESTAMP, fraction=0), 300_000_000_000),
    "the day before the first": (ColumnType(kind=K.DATE), -719_163),
    "the day after the last": (ColumnType(kind=K.DATE), 2_932_897),
    "the moment before the first": (ColumnType(kind=K.TIMESTAMP, fraction=6), -62_135_596_800_000_001),
    "the moment after the last": (ColumnType(kind=K.TIMESTAMP, fraction=6), 253_402_300_800_000_000),
    "the instant before the first": (ColumnType(kind=K.TIMESTAMP_TZ, fraction=6), -62_135_596_800_000_001),
    "the instant after the last": (ColumnType(kind=K.TIMESTAMP_TZ, fraction=6), 253_402_300_800_000_000),
    "a digit too many": (ColumnType(kind=K.TIMESTAMP, fraction=7), 1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_value_sql_server_does_not_hold_is_refused_by_column(sink: OpenSink, what: str) -> None:
    column, value = REFUSED[what]
    schema, table = keyed(column), fresh_table()
    wanted = arrow_schema(schema)
    raw = {K.DATE: pa.int32(), K.TIMESTAMP: pa.int64(), K.TIMESTAMP_TZ: pa.int64()}.get(
        column.kind, wanted.field(1).type
    )
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1], pa.int64()), pa.array([value], raw).cast(wanted.field(1).type)], schema=wanted
    )
    with pytest.raises(ConnectorError, match="'v'") as raised:
        sink.staged.stage(stage_request(table, schema=schema), iter([rows]))
    assert raised.value.code == "staged_value_refused"
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize(("value", "fits"), [("k" * 450, True), ("k" * 451, False), ("😀" * 226, False)])
def test_text_of_a_merge_key_has_a_bound(sink: OpenSink, value: str, fits: bool) -> None:
    schema = TableSchema(columns=(Column(name="k", type=TEXT, nullable=False),))
    request = stage_request(fresh_table(), strategy=MERGE, schema=schema, unique_key=("k",))
    rows = pa.RecordBatch.from_arrays([pa.array([value])], schema=arrow_schema(schema))
    if fits:
        sink.load(request, rows)
        return
    with pytest.raises(ConnectorError, match="'k'") as raised:
        sink.staged.stage(request, iter([rows]))
    assert raised.value.code == "staged_value_refused" and value not in str(raised.value)


@pytest.mark.parametrize("native", ["char(5)", "nchar(5)", "varchar(20)", "text", "xml", "datetime", "binary(4)"])
def test_a_type_that_would_change_values_takes_no_rows(server: MssqlServer, sink: OpenSink, native: str) -> None:
    table = fresh_table()
    sink.load(stage_request(fresh_table()))
    server.run(f"CREATE TABLE {table.schema}.{table.name} (id bigint NOT NULL, v {native} NULL)")
    schema = keyed(ColumnType(kind=K.TIMESTAMP, fraction=3) if native == "datetime" else TEXT)
    with pytest.raises(ConnectorError, match="'v'") as raised:
        sink.ports.target.preflight(stage_request(table, schema=schema, strategy=StrategyMode.INCREMENTAL_APPEND))
    assert raised.value.code == "sink_column_unsupported"
