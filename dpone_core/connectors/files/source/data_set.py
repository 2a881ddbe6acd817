"""One schema for all Parquet files of a data set: columns are matched by name, and differences are named or, where the
manifest says so and it is exact, widened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.types import column_type
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

_WIDTHS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})
_FRACTIONS: Final = frozenset({ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
_MOST_DIGITS: Final = 76
_MOST_NAMED: Final = 10


def data_set_schema(schemas: Sequence[pa.Schema], *, widen: bool) -> TableSchema:
    """The columns of all files, in the order in which they are first met; one that may be NULL in any file may be NULL.

    With `widen` a column that a file lacks is NULL there, and a column of several types has the narrowest type that
    holds every value of each. Raises ConnectorError `source_schema_inconsistent`, naming columns, files by position
    and types.
    """
    fields = [_fields_of(schema, index) for index, schema in enumerate(schemas)]
    columns: list[Column] = []
    differences: list[str] = []
    widens = True
    for name in dict.fromkeys(name for each in fields for name in each):
        found = [(index, each[name]) for index, each in enumerate(fields) if name in each]
        absent = next((index for index, each in enumerate(fields) if name not in each), None)
        if absent is not None:
            differences.append(f"column {name!r} is in file {found[0][0]} and not in file {absent}")
        before, shown = found[0][0], column_type(found[0][1].type)
        known = shown
        for index, field in found[1:]:
            here = column_type(field.type)
            if not _same(shown, here):
                differences.append(
                    f"column {name!r} is {_shown(shown)} in file {before} and {_shown(here)} in file {index}"
                )
                wider = wider_type(known, here)
                widens = widens and wider is not None
                known = wider or known
            before, shown = index, here
        nullable = absent is not None or any(field.nullable for _, field in found)
        columns.append(Column(name=name, type=known, nullable=nullable))
    if differences and not (widen and widens):
        raise _inconsistent(differences, widens=widens)
    return TableSchema(columns=tuple(columns))


def _fields_of(schema: pa.Schema, index: int) -> dict[str, pa.Field]:
    fields = {field.name: field for field in schema}
    if len(fields) != len(schema):
        raise ConnectorError(
            f"file {index} of the source has two columns of the same name", code="source_column_unsupported"
        )
    return fields


def wider_type(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """The narrowest type of the same family that holds every value of both; None where there is none. A column without
    any value (Arrow's null) takes the other type."""
    if "null" in (one.native, other.native) and ColumnKind.UNSUPPORTED in (one.kind, other.kind):
        return other if one.native == "null" else one
    kinds = {one.kind, other.kind}
    if kinds <= _FLOATS:
        return ColumnType(kind=ColumnKind.FLOAT64)
    if kinds == {ColumnKind.DECIMAL}:
        scale = max(one.scale or 0, other.scale or 0)
        digits = max((each.precision or 0) - (each.scale or 0) for each in (one, other))
        return (
            ColumnType(kind=one.kind, precision=digits + scale, scale=scale) if digits + scale <= _MOST_DIGITS else None
        )
    if one.kind is other.kind and one.kind in _FRACTIONS:
        return one if (one.fraction or 0) >= (other.fraction or 0) else other
    holding = [kind for kind in _WIDTHS if all(_holds(kind, each.kind) for each in (one, other))]
    return ColumnType(kind=ColumnKind(min(holding, key=_bits))) if holding else None


def _holds(wide: str, kind: ColumnKind) -> bool:
    """Whether every integer of `kind` is one of `wide`."""
    if kind.value not in _WIDTHS:
        return False
    if wide.startswith("u"):
        return kind.value.startswith("u") and _bits(kind.value) <= _bits(wide)
    return _bits(kind.value) + kind.value.startswith("u") <= _bits(wide)


def _bits(kind: str) -> int:
    return int(kind.lstrip("uint"))


def _same(one: ColumnType, other: ColumnType) -> bool:
    if ColumnKind.UNSUPPORTED in (one.kind, other.kind):
        return one.native == other.native
    return one.same_values(other)


def _shown(column: ColumnType) -> str:
    return column.native if column.kind is ColumnKind.UNSUPPORTED else str(column)


def _inconsistent(differences: list[str], *, widens: bool) -> ConnectorError:
    listed = "; ".join(differences[:_MOST_NAMED])
    more = f"; and {len(differences) - _MOST_NAMED} more" if len(differences) > _MOST_NAMED else ""
    return ConnectorError(
        f"the files of the source differ: {listed}{more}",
        code="source_schema_inconsistent",
        fix="declare source.options.schema_evolution: widen, which reads absent columns as NULL and the wider types"
        if widens
        else "no type holds the values of both exactly: write the files alike, or load them apart",
    )
