"""`__dpone__row_id` of a batch in Python: the same text and hash that the SQL sinks compute (LIFE-43)."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Final

import pyarrow as pa

from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import LineageColumns

_PYTHON_TYPES: Final = {
    ColumnKind.DATE: "datetime.date",
    ColumnKind.TIMESTAMP: "datetime.datetime",
    ColumnKind.TIMESTAMP_TZ: "datetime.datetime",
    ColumnKind.DECIMAL: "decimal.Decimal",
    ColumnKind.UUID: "uuid.UUID",
}


def row_ids(batch: pa.RecordBatch, schema: TableSchema, lineage: LineageColumns) -> pa.Array:
    """One hex sha256 per row; call only where `row_id_refusal` found nothing."""
    columns = [column for column in map(schema.find, lineage.row_id_columns) if column is not None]
    keys = zip(*(_values(batch.column(column.name), column) for column in columns), strict=True)
    names = [column.name for column in columns]
    origin = {
        "source_schema": lineage.source_schema,
        "source_table": lineage.source_table,
        "source_type": lineage.source_type,
    }
    marker = _marker(columns)
    return pa.array(
        [_hash(_canonical({**origin, "key": dict(zip(names, key, strict=True))}) + marker) for key in keys],
        pa.string(),
    )


def _values(values: pa.Array, column: Column) -> list[object]:
    if column.type.kind is ColumnKind.UUID:
        return [None if value is None else str(uuid.UUID(bytes=value)) for value in values.to_pylist()]
    listed: list[object] = values.to_pylist()
    if column.type.kind in _PYTHON_TYPES:
        return [None if value is None else str(value) for value in listed]
    return listed


def _marker(columns: list[Column]) -> str:
    foreign = sorted(
        (f"key.{column.name}", _PYTHON_TYPES[column.type.kind])
        for column in columns
        if column.type.kind in _PYTHON_TYPES
    )
    entries = [{"path": path, "python_type": kind} for path, kind in foreign]
    return f"\x1e{_canonical(entries)}" if entries else ""


def _canonical(document: object) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
