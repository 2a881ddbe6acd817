"""Key ranges of a ClickHouse selection, embedded or on a server. Queries cannot share a snapshot, so each range has its
own.

ClickHouse orders a UUID by its two halves, so such keys are compared as their 16 bytes. Text travels as hex in both
directions and must be UTF-8, whose bytes have the order of code points.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from dpone_core.connectors._sql.extract import NamedSelection, range_key
from dpone_core.connectors._sql.key_ranges import key_text, select_range
from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reader import ClickHouseSource, ClickHouseStream
from .types import CURSOR_KINDS, bound_expression, misfit_condition

KEY_KINDS: Final = CURSOR_KINDS | {ColumnKind.UUID}
_MOMENTS: Final = frozenset({ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


class ClickHouseSourceRanges:
    """RangeSourcePort over one source. A reader in another thread has clients of its own."""

    def __init__(self, source: ClickHouseSource) -> None:
        self._source = source

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        yield None

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        key = _key(schema, column)
        chosen, ordered = self._source.selection(request, schema), _sort_expression(key)
        least, greatest = (_text_expression(key, f"{end}OrNull({ordered})") for end in ("min", "max"))
        counted = f"SELECT count(), countIf({_misfit_condition(key)}), {least}, {greatest} {chosen.text}"
        rows, misfits, *ends = self._source.rows(counted, chosen.parameters)[0]
        if int(misfits):
            raise ConnectorError(
                f"column {key.name!r}: a value of {key.type.native} does not fit {key.type}",
                code="source_value_out_of_range",
            )
        lower, upper = (None if end is None else key_text(key, _key_text(key, str(end))) for end in ends)
        return KeyBounds(lower=lower, upper=upper, rows=int(rows))

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> ClickHouseStream:
        check_columns(schema)
        key = _key(schema, column)
        chosen = select_range(
            self._source.selection(request, schema),
            key,
            bounds,
            quoted=quote_backtick(key.name),
            ordered=_sort_expression(key),
            bound=lambda name: _bound_expression(key, name),
        )
        return ClickHouseStream(self._source, _encode_bounds(key, chosen, bounds), schema, whole_table=None)


def _key(schema: TableSchema, column: str) -> Column:
    key = range_key(schema, column, KEY_KINDS, "ClickHouse")
    if key.type.kind is ColumnKind.STRING and key.type.native != "String":
        raise ConnectorError(
            f"ClickHouse cannot split column {column!r} of type {key.type.native.partition('(')[0]} into key ranges",
            code="partition_key_unsupported",
        )
    return key


def _sort_expression(key: Column) -> str:
    quoted = quote_backtick(key.name)
    return f"UUIDToNum({quoted})" if key.type.kind is ColumnKind.UUID else quoted


def _bound_expression(key: Column, name: str) -> str:
    match key.type.kind:
        case ColumnKind.UUID:
            return f"UUIDToNum(toUUID({{{name}:String}}))"
        case ColumnKind.STRING:
            return f"unhex({{{name}:String}})"
        case _:
            return bound_expression(key, name)


def _text_expression(key: Column, value: str) -> str:
    if key.type.kind in (ColumnKind.STRING, ColumnKind.UUID):
        return f"hex({value})"
    if key.type.kind in _MOMENTS:
        return f"toString({value}, 'UTC')"
    return f"toString({value})"


def _key_text(key: Column, shown: str) -> str:
    return bytes.fromhex(shown).decode() if key.type.kind is ColumnKind.STRING else shown


def _misfit_condition(key: Column) -> str:
    """The condition of a key that cannot be a bound. Text that is not UTF-8 has no code points, so bounds made of it
    would leave rows out."""
    if key.type.kind is ColumnKind.STRING:
        return f"NOT isValidUTF8({quote_backtick(key.name)})"
    return misfit_condition(key) or "0"


def _encode_bounds(key: Column, chosen: NamedSelection, bounds: KeyRange) -> NamedSelection:
    if key.type.kind is not ColumnKind.STRING:
        return chosen
    ends = {"dpone_from": bounds.lower, "dpone_to": bounds.upper}
    hexed = {name: end.encode().hex() for name, end in ends.items() if end is not None}
    return replace(chosen, parameters={**chosen.parameters, **hexed})
