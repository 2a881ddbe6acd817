"""Steps of an extract request that are the same for every SQL source: the query as one statement, the cursor column,
the range key and the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from dpone_core.connectors._sql.text import split_statements
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import CursorWindow


def only_statement(text: str, *, backslash_escapes: bool) -> str:
    """The text of the query without its last semicolon. Raises ConnectorError `source_request_invalid` unless it is
    exactly one statement; a comment may follow the semicolon."""
    statements = split_statements(text, backslash_escapes=backslash_escapes)
    if len(statements) != 1:
        raise ConnectorError("the query of the source must be exactly one statement", code="source_request_invalid")
    return statements[0]


def cursor_column(schema: TableSchema, name: str, kinds: frozenset[ColumnKind], engine: str) -> Column:
    """The cursor column of `schema`. Its kind must be one of `kinds`, which the engine orders as `CursorWindow` does.
    Raises ConnectorError `source_object_not_found` or `source_column_unsupported`."""
    column = schema.find(name)
    if column is None:
        raise ConnectorError(
            f"the cursor column {name!r} is not a column of the source",
            code="source_object_not_found",
            fix="a cursor is a column name; give an expression an alias in a query",
        )
    if column.type.kind not in kinds:
        raise ConnectorError(
            f"the cursor column {name!r} is {column.type}, which cannot be a cursor on {engine}",
            code="source_column_unsupported",
        )
    return column


def range_key(schema: TableSchema, name: str, kinds: frozenset[ColumnKind], engine: str) -> Column:
    """The column that splits a source into ranges. Raises ConnectorError `source_object_not_found`, or
    `partition_key_unsupported` for a kind that the engine cannot order."""
    column = schema.find(name)
    if column is None:
        raise ConnectorError(
            f"the partitioning column {name!r} is not a column of the source", code="source_object_not_found"
        )
    if column.type.kind not in kinds:
        raise ConnectorError(
            f"{engine} cannot split column {name!r} of type {column.type} into key ranges",
            code="partition_key_unsupported",
            fix="choose an integer, decimal, date or timestamp column",
        )
    return column


def window_bound(column: Column, text: str) -> str:
    """`text` if it is a value of the cursor's own kind; ConnectorError `cursor_value_invalid` otherwise."""
    try:
        fits = _is_value_of(column.type.kind, text)
    except (ValueError, InvalidOperation) as error:
        raise _not_a_value(column) from error
    if not fits:
        raise _not_a_value(column)
    return text


def _is_value_of(kind: ColumnKind, text: str) -> bool:
    match kind:
        case ColumnKind.DECIMAL:
            return Decimal(text).is_finite()
        case ColumnKind.DATE:
            return bool(date.fromisoformat(text))
        case ColumnKind.TIMESTAMP:
            return datetime.fromisoformat(text).tzinfo is None
        case ColumnKind.TIMESTAMP_TZ:
            return datetime.fromisoformat(text).tzinfo is not None
        case ColumnKind.STRING:
            return True
        case _:
            return str(int(text)) == text


def _not_a_value(column: Column) -> ConnectorError:
    return ConnectorError(f"the cursor value of {column.name!r} is not a {column.type}", code="cursor_value_invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSelection:
    """The FROM and WHERE part of a query: `text` follows the select list, `parameters` are bound by name."""

    text: str
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_conditions: bool = False

    def narrow(self, conditions: Sequence[str], parameters: Mapping[str, str]) -> NamedSelection:
        """The rows of this selection that meet every one of `conditions` too."""
        if not conditions:
            return self
        joint = "AND" if self.has_conditions else "WHERE"
        return NamedSelection(
            text=f"{self.text} {joint} {' AND '.join(conditions)}",
            parameters={**self.parameters, **parameters},
            has_conditions=True,
        )


def apply_window(
    base: NamedSelection, window: CursorWindow, column: Column, *, quoted: str, bound: Callable[[str], str]
) -> NamedSelection:
    """The rows of `base` whose cursor lies in the window. `bound` renders a parameter's name as a value of the cursor's
    type."""
    conditions: list[str] = []
    bounds: dict[str, str] = {}
    for name, operator, text in (("dpone_lower", ">=", window.lower), ("dpone_upper", "<", window.upper)):
        if text is not None:
            conditions.append(f"{quoted} {operator} {bound(name)}")
            bounds[name] = window_bound(column, text)
    return NamedSelection(text=f"FROM {base.text} AS dpone_source", parameters=base.parameters).narrow(
        conditions, bounds
    )
