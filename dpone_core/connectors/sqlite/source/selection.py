"""The FROM and WHERE part of an extract request, with its bound parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from dpone_core.connectors._sql.extract import cursor_column, only_statement
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import CursorWindow, ExtractRequest

from .types import comparison_expression

Parameter = str | int | float
ENGINE = "SQLite"
CURSOR_KINDS = frozenset({ColumnKind.INT64, ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """`text` goes after the select list; `parameters` are in order of appearance."""

    text: str
    parameters: tuple[Parameter, ...] = field(default=(), repr=False)


def relation(request: ExtractRequest) -> Selection:
    """The SQL after FROM: the table, or the query as a subquery with its tokens bound."""
    if request.table is not None:
        schema = quote_ansi(request.table.schema or "main")
        return Selection(text=f"{schema}.{quote_ansi(request.table.name)}")
    if request.query is None:
        raise ConnectorError("SQLite reads a table or a query", code="source_request_invalid")
    bound = bind_tokens(request.query, request.token_values, lambda _: "?")
    return Selection(text=f"(\n{only_statement(bound.text, backslash_escapes=False)}\n)", parameters=bound.parameters)


def selection(request: ExtractRequest, schema: TableSchema) -> Selection:
    base = relation(request)
    if request.window is None:
        return Selection(text=f"FROM {base.text} AS dpone_source", parameters=base.parameters)
    column = cursor_column(schema, request.window.column, CURSOR_KINDS, ENGINE)
    conditions, parameters = _conditions(request.window, column)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return Selection(text=f"FROM {base.text} AS dpone_source{where}", parameters=(*base.parameters, *parameters))


def _conditions(window: CursorWindow, column: Column) -> tuple[list[str], list[Parameter]]:
    quoted = quote_ansi(column.name)
    ordered = comparison_expression(column, quoted)
    conditions: list[str] = []
    parameters: list[Parameter] = []
    if window.lower is not None:
        lower = bound_value(column, window.lower)
        if column.type.kind is ColumnKind.TIMESTAMP:
            conditions.append(f"{quoted} >= ?")
            parameters.append(str(lower)[:10])
        conditions.append(f"{ordered} >= ?")
        parameters.append(lower)
    if window.upper is not None:
        conditions.append(f"{ordered} < ?")
        parameters.append(bound_value(column, window.upper))
    return conditions, parameters


def bound_value(column: Column, text: str) -> Parameter:
    """A window bound in the form of `comparison_expression`; a separate condition on the date prefix lets an index
    narrow the scan."""
    try:
        if column.type.kind is ColumnKind.INT64:
            return int(text)
        if column.type.kind is ColumnKind.TIMESTAMP:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                raise ValueError("a wall clock is compared with wall clocks only")
            return moment.isoformat(sep=" ", timespec="microseconds")
    except ValueError as error:
        raise ConnectorError(
            f"the cursor value of {column.name!r} is not a {column.type}", code="cursor_value_invalid"
        ) from error
    return text
