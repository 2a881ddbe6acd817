"""The FROM and WHERE part of an extract request; values are in it as hex or typed literals only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from dpone_core.connectors._sql.extract import cursor_column, only_statement, window_bound
from dpone_core.connectors.mysql.text import quote_name, text_literal
from dpone_core.connectors.mysql.types import comparison_expression
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .special_values import SPECIAL_VALUES

CURSOR_KINDS: Final = frozenset(
    kind
    for kind in ColumnKind
    if kind.value.startswith(("int", "uint"))
    or kind in (ColumnKind.DECIMAL, ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ)
)


def relation(request: ExtractRequest, database: str | None) -> str:
    """The SQL after FROM: the table, or the query as a subquery with its tokens bound."""
    if request.table is not None:
        schema = request.table.schema or database
        if schema is None:
            raise ConnectorError(
                "neither the table nor the connection names a database",
                code="source_object_not_found",
                fix="add table.schema, or the database to the URI",
            )
        return f"{quote_name(schema)}.{quote_name(request.table.name)}"
    if request.query is None:
        raise ConnectorError("MySQL reads a table or a query", code="source_request_invalid")
    values = iter(bind_tokens(request.query, request.token_values, lambda _: "").parameters)
    bound = bind_tokens(request.query, request.token_values, lambda _: text_literal(next(values)))
    return f"(\n{only_statement(bound.text, backslash_escapes=True)}\n)"


def selection(request: ExtractRequest, schema: TableSchema, database: str | None, *, also: tuple[str, ...] = ()) -> str:
    """`FROM .. WHERE ..` with the half-open window of the request and the conditions `also`."""
    conditions = [*window_conditions(request, schema), *also]
    converted = SPECIAL_VALUES.relation(relation(request, database), schema, request.special_values)
    base = f"FROM {converted} AS dpone_source"
    return f"{base} WHERE {' AND '.join(conditions)}" if conditions else base


def window_conditions(request: ExtractRequest, schema: TableSchema) -> list[str]:
    window = request.window
    if window is None:
        return []
    column = find_cursor_column(schema, window.column)
    conditions = []
    if window.lower is not None:
        conditions.append(f"{comparison_expression(column)} >= {bound_literal(column, window.lower)}")
    if window.upper is not None:
        conditions.append(f"{comparison_expression(column)} < {bound_literal(column, window.upper)}")
    return conditions


def find_cursor_column(schema: TableSchema, name: str) -> Column:
    return cursor_column(schema, name, CURSOR_KINDS, "MySQL")


def bound_literal(column: Column, text: str) -> str:
    """A literal of the cursor's type, made of digits or hex, so that an index can serve it and no text is pasted."""
    value = window_bound(column, text)
    kind = column.type.kind
    if kind is ColumnKind.STRING:
        return f"CAST({text_literal(value)} AS BINARY)"
    if kind is ColumnKind.DATE:
        return f"CAST({text_literal(value)} AS DATE)"
    if kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        moment = datetime.fromisoformat(value)
        wall = (moment.astimezone(UTC) if moment.tzinfo is not None else moment).replace(tzinfo=None)
        return f"CAST({text_literal(wall.isoformat(sep=' ', timespec='microseconds'))} AS DATETIME(6))"
    if kind is ColumnKind.DECIMAL:
        if "e" in value.lower():
            raise ConnectorError(
                f"the cursor value of {column.name!r} must be written in plain digits; it has an exponent",
                code="cursor_value_invalid",
            )
        return f"CAST({text_literal(value)} AS DECIMAL(65,30))"
    return str(int(value))
