"""The FROM and WHERE part of an extract request. Values travel as session settings, never inside the SQL text.

The Arrow reader sends its query inside COPY, which takes no parameters. So every bound value is stored by set_config()
in the transaction and read as `current_setting('dpone.pN')::type`, where `type` is the one that PostgreSQL gave the
parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from dpone_core.connectors._sql import extract
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.catalog import qualify
from dpone_core.connectors.postgres.script import split_statements
from dpone_core.connectors.postgres.types import is_plain_text
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import SqlText, bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import CursorWindow, ExtractRequest

from .special_values import SPECIAL_VALUES

CURSOR_TYPES: Final = {
    ColumnKind.INT16: "int8",
    ColumnKind.INT32: "int8",
    ColumnKind.INT64: "int8",
    ColumnKind.DECIMAL: "numeric",
    ColumnKind.STRING: "text",
    ColumnKind.DATE: "date",
    ColumnKind.TIMESTAMP: "timestamp",
    ColumnKind.TIMESTAMP_TZ: "timestamptz",
}
_MOMENTS: Final = frozenset({ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
SOURCE_NAME: Final = "dpone_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """`text` goes after the select list; `settings` are the values of dpone.p0, dpone.p1, ... With `visible_rows` rows
    that a policy hides are left out, without it they are an error."""

    text: str
    settings: tuple[str, ...] = field(default=(), repr=False)
    has_conditions: bool = False
    visible_rows: bool = False

    def narrow(self, conditions: Sequence[str], settings: tuple[str, ...]) -> Selection:
        """The rows that also meet `conditions`. `settings` are all values: those of this selection first."""
        if not conditions:
            return self
        joint = "AND" if self.has_conditions else "WHERE"
        text = f"{self.text} {joint} {' AND '.join(conditions)}"
        return replace(self, text=text, settings=settings, has_conditions=True)


def number_tokens(request: ExtractRequest) -> str:
    """The query of a request as one statement, its tokens as $1, $2, ..., for PostgreSQL to describe."""
    query = _query(request)
    return only_statement(bind_tokens(query, request.token_values, lambda ordinal: f"${ordinal + 1}").text)


def selection(request: ExtractRequest, schema: TableSchema, parameter_types: Sequence[str]) -> Selection:
    """`parameter_types` are PostgreSQL's types of the query's tokens, in order; empty for a table."""
    base = _relation(request, parameter_types)
    relation = SPECIAL_VALUES.relation(base.text, schema, request.special_values)
    whole = Selection(
        text=f"FROM {relation} AS {SOURCE_NAME}", settings=base.settings, visible_rows=request.visible_rows
    )
    if request.window is None:
        return whole
    column = cursor_column(schema, request.window.column)
    settings = list(base.settings)
    conditions = _conditions(request.window, column, settings)
    return whole.narrow(conditions, tuple(settings))


def cursor_column(schema: TableSchema, name: str) -> Column:
    column = extract.cursor_column(schema, name, frozenset(CURSOR_TYPES), "PostgreSQL")
    if column.type.kind is ColumnKind.STRING and not is_plain_text(column):
        raise ConnectorError(
            f"the cursor column {name!r} is {column.type.native}, which cannot be a cursor on PostgreSQL",
            code="source_column_unsupported",
        )
    return column


def only_statement(text: str) -> str:
    """A query is one statement; what follows its semicolon may be a comment only."""
    statements = split_statements(text)
    if len(statements) != 1:
        raise ConnectorError("the query of the source must be exactly one statement", code="source_request_invalid")
    return statements[0]


def cursor_text(column: Column, text: str) -> str:
    """A value that PostgreSQL printed, in the form of `CursorWindow`. Raises ConnectorError `source_value_out_of_range`
    for a value without such a form."""
    try:
        printed = (
            datetime.fromisoformat(text).isoformat(timespec="microseconds") if column.type.kind in _MOMENTS else text
        )
        return extract.window_bound(column, printed)
    except (ValueError, ConnectorError) as error:
        raise ConnectorError(
            f"column {column.name!r}: its least or greatest value has no exact text as {column.type}, so it"
            " cannot be saved",
            code="source_value_out_of_range",
            fix="correct the row, or cast the column in a query",
        ) from error


def _query(request: ExtractRequest) -> SqlText:
    if request.query is None:
        raise ConnectorError("PostgreSQL reads a table or a query", code="source_request_invalid")
    return request.query


def _relation(request: ExtractRequest, parameter_types: Sequence[str]) -> Selection:
    if request.table is not None:
        return Selection(text=qualify(request.table))
    bound = bind_tokens(
        _query(request),
        request.token_values,
        lambda ordinal: setting(ordinal, _typed_setting(parameter_types, ordinal)),
    )
    return Selection(text=f"(\n{only_statement(bound.text)}\n)", settings=bound.parameters)


def _typed_setting(parameter_types: Sequence[str], ordinal: int) -> str:
    return parameter_types[ordinal] if ordinal < len(parameter_types) else "text"


def setting(ordinal: int, type_name: str) -> str:
    return f"current_setting('dpone.p{ordinal}')::{type_name}"


def _conditions(window: CursorWindow, column: Column, settings: list[str]) -> list[str]:
    conditions: list[str] = []
    for operator, bound in ((">=", window.lower), ("<", window.upper)):
        if bound is None:
            continue
        settings.append(extract.window_bound(column, bound))
        conditions.append(
            f"{quote_ansi(column.name)} {operator} {setting(len(settings) - 1, CURSOR_TYPES[column.type.kind])}"
        )
    return conditions
