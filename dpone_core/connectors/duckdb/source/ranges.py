"""Key ranges of a DuckDB selection. Cursors cannot share a snapshot, so each range has its own.

Text is compared by its UTF-8 bytes, which is the order of code points, whatever the collation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpone_core.connectors._sql.extract import range_key
from dpone_core.connectors._sql.key_ranges import key_text, select_range
from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.special_values import with_flags
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reader import DuckDbSource, DuckDbStream, selection
from .types import CURSOR_KINDS

KEY_KINDS: Final = CURSOR_KINDS | {ColumnKind.UUID}


class DuckDbSourceRanges:
    """RangeSourcePort over one source; each call has a cursor of its own."""

    def __init__(self, source: DuckDbSource) -> None:
        self._source = source

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        yield None

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        key = _key(schema, column)
        chosen, ordered = selection(request, schema), _sort_expression(key)
        least, greatest = (_text_expression(key, f"{end}({ordered})") for end in ("min", "max"))
        row = self._source.rows(f"SELECT count(*), {least}, {greatest} {chosen.text}", chosen.parameters)[0]
        lower, upper = (None if value is None else key_text(key, str(value)) for value in row[1:])
        return KeyBounds(lower=lower, upper=upper, rows=int(row[0]))

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> DuckDbStream:
        check_columns(schema)
        key = _key(schema, column)
        chosen = select_range(
            selection(request, schema),
            key,
            bounds,
            quoted=quote_ansi(key.name),
            ordered=_sort_expression(key),
            bound=lambda name: _bound_expression(key, name),
        )
        return DuckDbStream(self._source, chosen, with_flags(schema, request.special_values))


def _key(schema: TableSchema, column: str) -> Column:
    key = range_key(schema, column, KEY_KINDS, "DuckDB")
    if key.type.kind is ColumnKind.STRING and key.type.native != "VARCHAR":
        raise ConnectorError(
            f"DuckDB cannot split column {column!r} of type {key.type.native.partition('(')[0]} into key ranges",
            code="partition_key_unsupported",
        )
    return key


def _sort_expression(key: Column) -> str:
    quoted = quote_ansi(key.name)
    return f"encode({quoted})" if key.type.kind is ColumnKind.STRING else quoted


def _text_expression(key: Column, value: str) -> str:
    return f"decode({value})" if key.type.kind is ColumnKind.STRING else f"{value}::VARCHAR"


def _bound_expression(key: Column, name: str) -> str:
    return f"encode(${name})" if key.type.kind is ColumnKind.STRING else f"CAST(${name} AS {key.type.native})"
