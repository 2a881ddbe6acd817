"""Rules every connector shares: statement splitting, environment failures, safe sentences."""

from __future__ import annotations

import errno

import pytest

from dpone_core.connectors._sql.probe import (
    DISTINCTS_PER_STATEMENT,
    LARGE_TABLE_ROWS,
    NULLS_PER_STATEMENT,
    CountDialect,
    measure,
)
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import literal_backslash, quote_ansi, quote_backtick, split_statements
from dpone_core.declared.clickhouse import DESCRIPTOR as CLICKHOUSE
from dpone_core.declared.duckdb import DESCRIPTOR as DUCKDB
from dpone_core.declared.files import DESCRIPTOR as FILES
from dpone_core.declared.sqlite import DESCRIPTOR as SQLITE
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.testing.builders import ORDERS


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", ()),
        (" ; -- c\n;/* x; */", ()),
        ("SELECT 1", ("SELECT 1",)),
        ("SELECT ';' ; SELECT \";\"; SELECT `;`", ("SELECT ';'", 'SELECT ";"', "SELECT `;`")),
        ("SELECT $$a;b$$; SELECT $t$;$t$", ("SELECT $$a;b$$", "SELECT $t$;$t$")),
        ("SELECT 'it''s;'; x", ("SELECT 'it''s;'", "x")),
        ("SELECT 'open; SELECT 2", ("SELECT 'open; SELECT 2",)),
    ],
)
def test_scripts_split_between_statements_only(script: str, statements: tuple[str, ...]) -> None:
    assert split_statements(script, backslash_escapes=True) == statements


def test_a_backslash_escapes_only_where_the_engine_says_so() -> None:
    script = "SELECT '\\'; SELECT '2'"
    assert len(split_statements(script, backslash_escapes=False)) == 2
    assert len(split_statements(script, backslash_escapes=True)) == 1


def test_names_and_literals_cannot_break_out() -> None:
    assert quote_ansi('a"b') == '"a""b"'
    assert quote_backtick("a`b\\") == "`a\\`b\\\\`"
    assert literal_backslash("a'b\\") == "'a\\'b\\\\'"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "x"), "disk_full"),
        (OSError(errno.EFBIG, "x"), "disk_full"),
        (RuntimeError("Code: 243. DB::Exception: Cannot reserve (NOT_ENOUGH_SPACE)"), "disk_full"),
        (RuntimeError("Code: 241. DB::Exception: (MEMORY_LIMIT_EXCEEDED)"), "engine_memory_exceeded"),
        (RuntimeError("canary row"), "given"),
        (ConnectorError("ours", code="ours"), "ours"),
    ],
)
def test_foreign_errors_get_a_code_and_lose_their_text(error: Exception, code: str) -> None:
    translated = foreign_error(error, "a safe sentence", "given")
    assert translated.code == code
    assert "canary" not in str(translated)


def test_a_full_disk_is_recognised_behind_a_wrapper() -> None:
    wrapper = RuntimeError("insert failed")
    wrapper.__cause__ = OSError(errno.ENOSPC, "x")
    assert foreign_error(wrapper, "m", "given").code == "disk_full"


def test_descriptors_declare_what_they_are() -> None:
    assert [d.type.value for d in (CLICKHOUSE, DUCKDB, FILES, SQLITE)] == ["clickhouse", "duckdb", "files", "sqlite"]
    assert CLICKHOUSE.sink is not None and DUCKDB.sink is not None
    assert all(trait.memory_limit_bytes > 0 for trait in (CLICKHOUSE.sink, DUCKDB.sink))


@pytest.mark.parametrize(("rows", "queries"), [(LARGE_TABLE_ROWS, 2), (LARGE_TABLE_ROWS + 1, 3)])
def test_distinct_values_of_a_large_table_are_counted_one_column_at_a_time(rows: int, queries: int) -> None:
    """One hash set is in memory then, not one for each column."""
    asked: list[str] = []

    def first_row(selected: str) -> list[int]:
        asked.append(selected)
        return [rows] if selected == "rows" else [1] * len(selected.split(", "))

    counts = CountDialect(
        rows="rows", nulls=lambda column: "nulls", distincts=lambda column: column.name, distincts_apart=True
    )
    request = MetricRequest(side=Side.TARGET, distinct_counts=("id", "name"))
    answer = measure(request, ORDERS, counts, first_row)
    assert answer == {"row_count": rows, "null_counts": {}, "distinct_counts": {"id": 1, "name": 1}}
    assert len(asked) == queries


@pytest.mark.parametrize("apart", [False, True])
def test_a_statement_counts_a_bounded_number_of_columns(apart: bool) -> None:
    """Engines end at 1,664 columns of a select list, or at 3,000 distinct counts."""
    names = tuple(f"c{number}" for number in range(3000))
    schema = TableSchema(columns=tuple(Column(name=name, type=ColumnType(kind=ColumnKind.INT64)) for name in names))
    asked: list[int] = []

    def first_row(selected: str) -> list[int]:
        expressions = selected.split(", ")
        asked.append(len(expressions))
        return [7 if each == "rows" else int(each[2:]) for each in expressions]

    counts = CountDialect(
        rows="rows",
        nulls=lambda column: f"n{column.name}",
        distincts=lambda column: f"d{column.name}",
        distincts_apart=apart,
    )
    request = MetricRequest(side=Side.TARGET, null_counts=names, distinct_counts=names)
    answer = measure(request, schema, counts, first_row)
    wanted = {name: int(name[1:]) for name in names}
    assert answer == {"row_count": 7, "null_counts": wanted, "distinct_counts": wanted}
    assert max(asked) <= 1 + NULLS_PER_STATEMENT + DISTINCTS_PER_STATEMENT
