"""Values as text and back, exactly, for the text formats; one spelling per kind.

Integers and decimals in plain digits with the column's scale; floats as the shortest text that reads back equal
(`nan`, `inf`, `-inf`); booleans `true`/`false`; dates, times and timestamps ISO 8601, instants with `Z`; UUIDs with
hyphens; bytes as lower-case hex. A value without an exact spelling is refused by its column, never shown.
"""

from __future__ import annotations

import uuid
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

_ISO: Final = "%Y-%m-%dT%H:%M:%S"
VALUE_REFUSED: Final = "written_value_refused"


def format_values(values: pa.Array, column: Column) -> pa.Array:
    """The values as text, NULL where the value is NULL; `values` have the column's Arrow type. Raises ConnectorError
    for a value without exact text."""
    try:
        return _text_of(values, column.type)
    except (pa.ArrowException, ValueError) as error:
        raise value_refusal(column) from error


def value_refusal(column: Column) -> ConnectorError:
    return ConnectorError(
        f"column {column.name!r}: a value has no exact text in this file format",
        code=VALUE_REFUSED,
        fix="write Parquet, or change the value in options.query",
    )


def parse_values(texts: pa.Array, column: ColumnType) -> pa.Array:
    """The values of texts that `format_values` wrote. Raises ValueError or an Arrow error for any other text."""
    wanted = arrow_type(column)
    match column.kind:
        case ColumnKind.STRING:
            return texts
        case ColumnKind.TIME:
            dated = pc.binary_join_element_wise(pa.scalar("1970-01-01T"), texts, "")
            return dated.cast(pa.timestamp(wanted.unit)).cast(wanted)
        case ColumnKind.UUID:
            return pa.array([None if v is None else uuid.UUID(v).bytes for v in texts.to_pylist()], wanted)
        case ColumnKind.BINARY:
            return pa.array([None if v is None else bytes.fromhex(v) for v in texts.to_pylist()], wanted)
        case _:
            return texts.cast(wanted, safe=True)


def _text_of(values: pa.Array, column: ColumnType) -> pa.Array:
    match column.kind:
        case ColumnKind.STRING:
            return values
        case ColumnKind.DECIMAL:
            return _format_decimals(values)
        case ColumnKind.TIMESTAMP:
            return pc.strftime(_require_iso_years(values), format=_ISO)
        case ColumnKind.TIMESTAMP_TZ:
            naive = values.cast(pa.timestamp(values.type.unit))
            return pc.binary_join_element_wise(pc.strftime(_require_iso_years(naive), format=_ISO), pa.scalar("Z"), "")
        case ColumnKind.DATE:
            return _parse_dates(values)
        case ColumnKind.UUID:
            return pa.array([None if v is None else str(uuid.UUID(bytes=v)) for v in values.to_pylist()], pa.string())
        case ColumnKind.BINARY:
            return pa.array([None if v is None else v.hex() for v in values.to_pylist()], pa.string())
        case _:
            return values.cast(pa.string())


def _format_decimals(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([None if v is None else format(v, "f") for v in values.to_pylist()], pa.string())
    return texts


def _parse_dates(values: pa.Array) -> pa.Array:
    _require_iso_years(values.cast(pa.timestamp("s")))
    return values.cast(pa.string())


def _require_iso_years(values: pa.Array) -> pa.Array:
    """Raises ValueError for a year outside 0000..9999: ISO 8601 has four digits for it, so it would not read back."""
    years = pc.min_max(pc.year(values))
    if years["min"].is_valid and (years["min"].as_py() < 0 or years["max"].as_py() > 9999):
        raise ValueError("a year outside of 0000..9999")
    return values
