"""The SQL that reads each kind exactly or stops, and the driver type that each column of a stream has from its first
batch.

SQLite types values, not columns, and every value must keep the declared type. The driver takes a column's type from its
first batch and stops at a later value of another storage class. So the first batch of every stream holds sentinel
values only: what the driver checks then needs no SQL per value, and no type depends on the rows.

- Integers and booleans: the driver refuses every other class; 0 and 1 are checked in Arrow.

- Texts are read as bytes: the driver refuses numbers, one comparison finds blobs, and Arrow finds text that is no
UTF-8.

- Decimals of a table are read as the doubles that SQLite keeps (`values.decimals`): its column affinity leaves no
number as text. Elsewhere, and where an integer may not survive a double, they are read as text.

- Reals declared in a table are reals by affinity; elsewhere each is checked, because the driver takes integers too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.connectors.sqlite.database import BATCH_ROWS, Database
from dpone_core.model.table_schema import Column, ColumnKind
from dpone_core.ports.source import ExtractRequest

from .types import STORAGE_CLASS, UNDECLARED, misfit_condition
from .values import reads_doubles

_STOP: Final = "abs(-9223372036854775808)"
_EDGE: Final = 32
assert _EDGE**3 == BATCH_ROWS
_EACH: Final = f"(VALUES {', '.join(['(0)'] * _EDGE)})"
SENTINEL_ROWS: Final = f"{_EACH}, {_EACH}, {_EACH}"
"""A relation of exactly one batch of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Where rows come from. `is_table`: an ordinary table, whose columns convert what is stored in them."""

    is_table: bool
    is_utf8: bool

    @classmethod
    def of(cls, database: Database, request: ExtractRequest) -> Relation:
        ((encoding,),) = database.rows("PRAGMA encoding")
        return cls(is_table=_is_table(database, request), is_utf8=encoding == "UTF-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`sentinel` is a literal that makes the driver take the Arrow type `driver`; `misfit` finds what it refuses."""

    expression: str
    sentinel: str
    driver: str
    misfit: str


def reading_of(column: Column, quoted: str, relation: Relation) -> Reading:
    """How a column is read. The SQL has no IN lists, which cost a b-tree search per value."""
    misfit, stops = misfit_condition(column, quoted), _check_class(column.type.kind, quoted)
    match column.type.kind:
        case ColumnKind.INT64 | ColumnKind.BOOLEAN:
            return Reading(expression=quoted, sentinel="0", driver="int64", misfit=misfit)
        case ColumnKind.DECIMAL if relation.is_table and reads_doubles(column.type):
            number = f"typeof({quoted}) IN ('text', 'blob')"
            return Reading(expression=quoted, sentinel="0.5", driver="double", misfit=number)
        case ColumnKind.DECIMAL:
            text = _decimal_text(column.type.scale or 0, quoted)
            return Reading(expression=text, sentinel="''", driver="string", misfit=misfit)
        case ColumnKind.FLOAT64:
            converts = relation.is_table and column.type.native != UNDECLARED
            return Reading(expression=quoted if converts else stops, sentinel="0.5", driver="double", misfit=misfit)
        case ColumnKind.BINARY:
            return Reading(expression=stops, sentinel="x''", driver="binary", misfit=misfit)
        case _ if relation.is_utf8:
            no_blob = f"CASE WHEN +{quoted} >= x'' THEN {_STOP} ELSE {quoted} END"
            return Reading(expression=no_blob, sentinel="x''", driver="binary", misfit=misfit)
        case _:  # the bytes of a UTF-16 text would be another text
            return Reading(expression=stops, sentinel="''", driver="string", misfit=misfit)


def _check_class(kind: ColumnKind, quoted: str) -> str:
    fits = f"WHEN '{STORAGE_CLASS.get(kind)}' THEN {quoted} WHEN 'null' THEN NULL"
    return f"CASE typeof({quoted}) {fits} ELSE {_STOP} END"


def _decimal_text(scale: int, quoted: str) -> str:
    """A decimal as text. SQLite keeps most decimals as doubles, which preserve fifteen digits, but prints more digits
    from some size on; there the decimal of the declared scale is taken, if it equals this very double."""
    plain, rounded = f"CAST({quoted} AS TEXT)", f"printf('%.{scale}f', {quoted})"
    long_from, long_to = f"1e{13 - scale}", f"1e{15 - scale}"
    same = f"abs({quoted}) < {long_to} AND CAST({rounded} AS REAL) = {quoted}"
    real = f"CASE WHEN {same} THEN {rounded} ELSE {plain} END"
    checked = f"CASE typeof({quoted}) WHEN 'blob' THEN {_STOP} WHEN 'real' THEN {real} ELSE {plain} END"
    return f"CASE WHEN {quoted} > -{long_from} AND {quoted} < {long_from} THEN {plain} ELSE {checked} END"


def _is_table(database: Database, request: ExtractRequest) -> bool:
    if request.table is None:
        return False
    kinds = database.rows(
        "SELECT type FROM pragma_table_list(?) WHERE schema = ?", (request.table.name, request.table.schema or "main")
    )
    return kinds == [("table",)]
