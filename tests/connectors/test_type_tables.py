"""The tables of types say what the connectors' own mappings do: every kind a mapping returns stands in its table.

docs/reference/types.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import column_type
from dpone_core.connectors.clickhouse.source import types as clickhouse
from dpone_core.connectors.clickhouse.type_map import TYPES as CLICKHOUSE
from dpone_core.connectors.clickhouse.types import COMMENTS
from dpone_core.connectors.clickhouse.types import type_text as clickhouse_text
from dpone_core.connectors.duckdb.source import types as duckdb
from dpone_core.connectors.duckdb.source.special_values import SPECIAL_VALUES as DUCKDB_SPECIAL
from dpone_core.connectors.duckdb.type_map import TYPES as DUCKDB
from dpone_core.connectors.duckdb.types import type_text as duckdb_text
from dpone_core.connectors.files.type_map import TYPES as FILES
from dpone_core.connectors.mysql.source.special_values import SPECIAL_VALUES as MYSQL_SPECIAL
from dpone_core.connectors.mysql.type_map import TYPES as MYSQL
from dpone_core.connectors.postgres.source.special_values import SPECIAL_VALUES as POSTGRES_SPECIAL
from dpone_core.connectors.postgres.type_map import TYPES as POSTGRES
from dpone_core.connectors.sqlite.source.types import declared_type as sqlite_type
from dpone_core.connectors.sqlite.type_map import TYPES as SQLITE
from dpone_core.declared.duckdb import DESCRIPTOR as DUCKDB_TRAITS
from dpone_core.declared.mysql import DESCRIPTOR as MYSQL_TRAITS
from dpone_core.declared.postgres import DESCRIPTOR as POSTGRES_TRAITS
from dpone_core.model.file_reading import declared_type
from dpone_core.model.special_values import SpecialValue
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.model.type_map import TypeMapping

SHOWN = {
    "duckdb": {
        "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INTEGER", "BIGINT": "BIGINT",
        "UTINYINT": "UTINYINT", "USMALLINT": "USMALLINT", "UINTEGER": "UINTEGER", "UBIGINT": "UBIGINT",
        "HUGEINT": "HUGEINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "DECIMAL(p,s)": "DECIMAL(18,4)",
        "VARCHAR": "VARCHAR", "ENUM": "ENUM('a')", "BLOB": "BLOB", "UUID": "UUID", "DATE": "DATE", "TIME": "TIME",
        "TIMESTAMP_S": "TIMESTAMP_S", "TIMESTAMP_MS": "TIMESTAMP_MS", "TIMESTAMP": "TIMESTAMP",
        "TIMESTAMP_NS": "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE", "INTERVAL": "INTERVAL",
    },
    "clickhouse": {
        "Bool": "Bool", "Int8": "Int8", "Int16": "Int16", "Int32": "Int32", "Int64": "Int64", "UInt8": "UInt8",
        "UInt16": "UInt16", "UInt32": "UInt32", "UInt64": "UInt64", "Int128": "Int128", "Float32": "Float32",
        "Float64": "Float64", "BFloat16": "BFloat16", "Decimal(p, s)": "Decimal(18, 4)", "String": "String",
        "FixedString(n)": "FixedString(3)", "Enum8": "Enum8('a' = 1)", "UUID": "UUID", "Date": "Date",
        "Date32": "Date32", "DateTime": "DateTime", "DateTime64(f)": "DateTime64(6)", "Time": "Time",
        "Int256": "Int256",
    },
    "sqlite": {
        "INTEGER": "INTEGER", "BOOLEAN": "BOOLEAN", "DECIMAL(p,s)": "DECIMAL(18,4)", "REAL": "REAL", "TEXT": "TEXT",
        "BLOB": "BLOB", "DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMPTZ",
    },
}  # fmt: skip
"""First name of a row's engine cell -> a type of that row, as the engine spells it."""
ARROW = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal128(18, 4), pa.string(), pa.binary(), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.uuid(), pa.list_(pa.int8()),
    pa.duration("s"), pa.null(),
)  # fmt: skip


def mapped(engine: str, text: str, comment: str = "") -> ColumnType:
    match engine:
        case "duckdb":
            return duckdb.source_column("c", text, nullable=True).type
        case "clickhouse":
            return clickhouse.source_column("c", text, comment).type
        case _:
            found = sqlite_type(text)
            assert found is not None
            return found


def kinds_of(rows: Iterable[TypeMapping]) -> set[str]:
    return {word.split("(")[0] for row in rows for word in row.dpone.replace(" or ", ", ").split(", ")}


TABLES = {"duckdb": DUCKDB, "clickhouse": CLICKHOUSE, "sqlite": SQLITE}


@pytest.mark.parametrize("engine", TABLES)
def test_a_row_says_what_its_first_type_becomes(engine: str) -> None:
    for name, text in SHOWN[engine].items():
        row = next(row for row in TABLES[engine] if row.engine == name or row.engine.startswith(f"{name},"))
        typed = mapped(engine, text)
        wanted = row.dpone.replace("(p,s)", "(18,4)").replace("(f)", f"({typed.fraction})")
        assert ("unsupported" if typed.kind is ColumnKind.UNSUPPORTED else str(typed)) == wanted, name
        assert bool(row.read) is (typed.kind is not ColumnKind.UNSUPPORTED)


@pytest.mark.parametrize("engine", TABLES)
def test_every_kind_of_the_mapping_stands_in_the_table(engine: str) -> None:
    assert {mapped(engine, text).kind.value for text in SHOWN[engine].values()} <= kinds_of(TABLES[engine])


def test_comments_of_clickhouse_columns_stand_in_the_table() -> None:
    for kind, comment in COMMENTS.items():
        text = "String" if kind is ColumnKind.BINARY else "DateTime64(6, 'UTC')"
        assert mapped("clickhouse", text, comment).kind is kind
        assert any(comment in row.engine and row.dpone.startswith(kind.value) for row in CLICKHOUSE)


def test_every_kind_of_files_stands_in_the_table() -> None:
    assert {column_type(arrow).kind.value for arrow in ARROW} <= kinds_of(FILES)
    assert {kind.value for kind in ColumnKind} == kinds_of(FILES)
    declared = {kind.value for kind in ColumnKind if declared_type(kind.value) is not None} | {"decimal"}
    assert declared == kinds_of(FILES) - {"unsupported"}


def test_every_kind_a_sink_writes_stands_in_a_written_cell() -> None:
    for text_of, rows in ((duckdb_text, DUCKDB), (clickhouse_text, CLICKHOUSE)):
        written = {row.written.split("(")[0].split(" ")[0] for row in rows if row.written}
        for kind in ColumnKind:
            column = Column(name="c", type=ColumnType(kind=kind, precision=18, scale=4, fraction=6), nullable=False)
            if kind is not ColumnKind.UNSUPPORTED:
                assert text_of(column) and kind.value in written, kind


CONVERTED = {
    "duckdb": (DUCKDB, DUCKDB_SPECIAL, DUCKDB_TRAITS),
    "mysql": (MYSQL, MYSQL_SPECIAL, MYSQL_TRAITS),
    "postgres": (POSTGRES, POSTGRES_SPECIAL, POSTGRES_TRAITS),
}


@pytest.mark.parametrize("engine", CONVERTED)
def test_a_row_lists_the_special_values_that_its_engine_converts(engine: str) -> None:
    rows, dialect, descriptor = CONVERTED[engine]
    listed = set()
    for row in rows:
        kind = row.dpone.partition("(")[0].partition(" ")[0]
        if kind not in set(ColumnKind):
            continue
        digits = {"precision": 9, "scale": 2} if kind == ColumnKind.DECIMAL else {}
        column = Column(name="v", type=ColumnType(kind=ColumnKind(kind), native="DATE", **digits))
        known = [value for value in SpecialValue if dialect.condition(column, value) is not None]
        assert row.declared == ", ".join(known), row.engine
        listed.update(known)
    assert descriptor.source is not None and listed == set(descriptor.source.special_values)
