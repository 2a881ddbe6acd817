"""Times of day that a source delivers as text: exact, or refused."""

from __future__ import annotations

from datetime import time

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.cast import StrictCast
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema


def cast(text: str | None, fraction: int, arrow: pa.DataType) -> list[object]:
    kind = ColumnType(kind=ColumnKind.TIME, fraction=fraction)
    strict = StrictCast(TableSchema(columns=(Column(name="t", type=kind),)), code="misfit")
    batch = pa.RecordBatch.from_arrays([pa.array([text], arrow)], names=["t"])
    found: list[object] = strict(batch).column(0).to_pylist()
    return found


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    ("text", "fraction", "wanted"),
    [
        ("00:00:00", 0, time(0)),
        ("23:59:59", 0, time(23, 59, 59)),
        ("12:34:56.123456", 6, time(12, 34, 56, 123456)),
        ("12:34:56.1", 6, time(12, 34, 56, 100000)),
        (None, 6, None),
    ],
)
def test_a_time_of_day_is_exact(arrow: pa.DataType, text: str | None, fraction: int, wanted: object) -> None:
    assert cast(text, fraction, arrow) == [wanted]


@pytest.mark.parametrize("text", ["24:00:00", "-01:00:00", "838:59:59", "12:34:56.1234567", "12:00:00Z", "", "noon"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        cast(text, 6, pa.string())
    assert raised.value.code == "misfit" and "'t'" in str(raised.value)
