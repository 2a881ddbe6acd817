"""The FROM and WHERE part of a T-SQL query for an extract request, with its bound parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dpone_core.connectors._sql.extract import cursor_column, only_statement, window_bound
from dpone_core.connectors.mssql.text import quote_name, split_with
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

DEFAULT_SCHEMA: Final = "dbo"
CURSOR_KINDS: Final = frozenset(
    kind
    for kind in ColumnKind
    if kind.value.startswith(("int", "uint"))
    or kind in (ColumnKind.DECIMAL, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ)
)
"""No text: a collation decides what is greater, and trailing blanks do not count (MSSQL-15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """`head` precedes SELECT, `text` follows the select list; `parameters` are in order of appearance."""

    head: str = ""
    text: str
    parameters: tuple[str, ...] = field(default=(), repr=False)

    def query(self, select_list: str) -> str:
        return f"{self.head}SELECT {select_list} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a WHERE clause and its parameter values."""

    text: str
    parameters: tuple[str, ...] = field(default=(), repr=False)


def bound_query(request: ExtractRequest, placeholder: Callable[[int], str]) -> tuple[str, tuple[str, ...]]:
    """The query as one statement, and the values of its tokens."""
    if request.query is None:
        raise ConnectorError("SQL Server reads a table or a query", code="source_request_invalid")
    bound = bind_tokens(request.query, request.token_values, placeholder)
    return only_statement(bound.text, backslash_escapes=False), bound.parameters


def relation(request: ExtractRequest) -> Selection:
    """The SQL after FROM: the table, or the query as a subquery."""
    if request.table is not None:
        table = f"{quote_name(request.table.schema or DEFAULT_SCHEMA)}.{quote_name(request.table.name)}"
        return Selection(text=f"FROM {table} AS dpone_source")
    text, parameters = bound_query(request, lambda _: "?")
    head, rest = split_with(text)
    return Selection(head=head, text=f"FROM (\n{rest}\n) AS dpone_source", parameters=parameters)


def selection(request: ExtractRequest, schema: TableSchema, *, also: tuple[Condition, ...] = ()) -> Selection:
    """The rows of the request in its half-open window that also meet the conditions `also`."""
    base = relation(request)
    conditions = (*_window_conditions(request, schema), *also)
    if not conditions:
        return base
    return Selection(
        head=base.head,
        text=f"{base.text} WHERE {' AND '.join(condition.text for condition in conditions)}",
        parameters=(*base.parameters, *(value for condition in conditions for value in condition.parameters)),
    )


def _window_conditions(request: ExtractRequest, schema: TableSchema) -> tuple[Condition, ...]:
    window = request.window
    if window is None:
        return ()
    column = find_cursor_column(schema, window.column)
    bounds = ((">=", window.lower), ("<", window.upper))
    return tuple(compare_to_bound(column, operator, bound) for operator, bound in bounds if bound is not None)


def compare_to_bound(column: Column, operator: str, bound: str) -> Condition:
    """The condition that compares a column with a bound of the column's type."""
    text = f"{quote_name(column.name)} {operator} CAST(? AS {parameter_type(column)})"
    return Condition(text=text, parameters=(bound_value(column, bound),))


def find_cursor_column(schema: TableSchema, name: str) -> Column:
    return cursor_column(schema, name, CURSOR_KINDS, "SQL Server")


def parameter_type(column: Column) -> str:
    """The T-SQL type of a cursor's parameter: the column's own, so that the comparison is exact and can use an index
    (MSSQL-06)."""
    kind, fraction = column.type.kind, column.type.fraction
    match kind:
        case ColumnKind.DECIMAL:
            return f"decimal(38,{column.type.scale})"
        case ColumnKind.DATE:
            return "date"
        case ColumnKind.TIMESTAMP:
            native = column.type.native.lower()
            return native if native in ("datetime", "smalldatetime") else f"datetime2({fraction})"
        case ColumnKind.TIMESTAMP_TZ:
            return f"datetimeoffset({fraction})"
        case _:
            return "decimal(20,0)" if kind is ColumnKind.UINT64 else "bigint"


def bound_value(column: Column, text: str) -> str:
    """A window bound as text that T-SQL reads alike in every language setting."""
    value = window_bound(column, text)
    if column.type.kind is ColumnKind.TIMESTAMP_TZ:
        moment = datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None)
        return f"{moment.isoformat(timespec='seconds')}.{_digits(value)}+00:00"
    if column.type.kind is ColumnKind.TIMESTAMP:
        moment = datetime.fromisoformat(value)
        seconds = moment.isoformat(timespec="seconds")
        digits = _digits(value)[: column.type.fraction or 0]
        return f"{seconds}.{digits}" if digits else seconds
    return value


def _digits(value: str) -> str:
    """The fraction of a second in seven digits; Python keeps six."""
    fraction = value.partition(".")[2]
    seen = ""
    for character in fraction:
        if not character.isdecimal():
            break
        seen += character
    return f"{seen[:7]:0<7}"
