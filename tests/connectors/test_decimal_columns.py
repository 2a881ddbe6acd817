"""A decimal column is always written with its precision and its scale, never with one number that an engine reads
as either (VAL-15); what it holds at its widest comes back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors.clickhouse.types import type_text as clickhouse_text
from dpone_core.connectors.duckdb.types import type_text as duckdb_text
from dpone_core.connectors.mssql.sink.types import type_text as mssql_text
from dpone_core.connectors.postgres.sink.types import type_text as postgres_text
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.testing.builders import INT64, stage_request
from dpone_core.testing.open_sink import OpenSink, fresh_table
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import duckdb_sink, embedded_clickhouse, mssql_sink, postgres_sink
from tests.live.servers import scratch_postgres

RENDERERS: dict[str, tuple[Callable[[Column], str], int]] = {
    "clickhouse": (clickhouse_text, 76),
    "duckdb": (duckdb_text, 38),
    "mssql": (mssql_text, 38),
    "postgres": (postgres_text, 76),
}
"""What renders a column of a new table, and the digits that its engine takes here."""
WIDTHS = [(1, 0), (1, 1), (9, 9), (10, 0), (18, 0), (18, 18), (19, 4), (30, 6), (38, 0), (38, 37), (38, 38)]


def decimal(precision: int | None, scale: int | None, *, nullable: bool = False) -> Column:
    return Column(
        name="v", type=ColumnType(kind=ColumnKind.DECIMAL, precision=precision, scale=scale), nullable=nullable
    )


@pytest.mark.parametrize(("precision", "scale"), [*WIDTHS, (76, 0), (76, 76), (39, 1)])
@pytest.mark.parametrize("engine", RENDERERS)
def test_precision_and_scale_stand_in_every_definition(engine: str, precision: int, scale: int) -> None:
    render, widest = RENDERERS[engine]
    if precision > widest:
        with pytest.raises(ConnectorError) as raised:
            render(decimal(precision, scale))
        assert raised.value.code == "sink_column_unsupported" and "'v'" in str(raised.value)
        return
    found = re.search(r"(?i)\b(?:decimal|numeric)\((\d+), ?(\d+)\)", render(decimal(precision, scale)))
    assert found is not None and (int(found[1]), int(found[2])) == (precision, scale)


@pytest.mark.parametrize(("precision", "scale"), [(None, None), (18, None), (None, 4)])
def test_there_is_no_decimal_of_unknown_width(precision: int | None, scale: int | None) -> None:
    with pytest.raises(ValueError, match="precision and a scale"):
        decimal(precision, scale)


@pytest.fixture(scope="module", params=["clickhouse", "duckdb", "mssql", "postgres"])
def sink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    match request.param:
        case "clickhouse":
            with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
                yield opened
        case "duckdb":
            with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
                yield opened
        case "mssql":
            with mssql_server() as server, mssql_sink(server.uri) as opened:
                yield opened
        case _:
            with scratch_postgres() as uri, postgres_sink(uri) as opened:
                yield opened


def test_the_widest_values_of_a_width_come_back(sink: OpenSink) -> None:
    """38 digits without a fraction, and with every place of it: one number read as the other would cut them."""
    columns = tuple(
        Column(name=f"d{precision}_{scale}", type=ColumnType(kind=ColumnKind.DECIMAL, precision=precision, scale=scale))
        for precision, scale in WIDTHS
    )
    schema = TableSchema(columns=(Column(name="id", type=INT64, nullable=False), *columns))
    rows: list[list[Decimal | None]] = [
        [Decimal(f"{'9' * precision}E-{scale}") for precision, scale in WIDTHS],
        [Decimal(f"-{'9' * precision}E-{scale}") for precision, scale in WIDTHS],
        [Decimal(f"1E-{scale}") for _, scale in WIDTHS],
        [None] * len(WIDTHS),
    ]
    values = zip(*rows, strict=True)
    arrays = [pa.array(range(len(rows)), pa.int64())]
    arrays += [pa.array(held, arrow_type(column.type)) for held, column in zip(values, columns, strict=True)]
    table = fresh_table()
    sink.load(stage_request(table, schema=schema), pa.RecordBatch.from_arrays(arrays, names=list(schema.names)))
    described = sink.ports.target.describe_target(table)
    assert described is not None
    assert [(c.type.precision, c.type.scale) for c in described.columns[1:]] == WIDTHS
    found = sorted(sink.rows(table), key=lambda row: str(row["id"]))
    assert [[row[column.name] for column in columns] for row in found] == rows
