"""Names, types and presets of the technical columns `__dpone__*` (LIFE-11).

All of them have one value per load, except the row id, which has one per row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import LineagePreset

RUN_ID: Final = "__dpone__run_id"
LOAD_ID: Final = "__dpone__load_id"
LOADED_AT: Final = "__dpone__loaded_at"
EXTRACTED_AT: Final = "__dpone__extracted_at"
ROW_ID: Final = "__dpone__row_id"
OPERATION: Final = "__dpone__op"
META: Final = "__dpone__meta"

_TEXT: Final = ColumnType(kind=ColumnKind.STRING)
_INSTANT: Final = ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6)
LINEAGE_TYPES: Final = {
    RUN_ID: _TEXT,
    LOAD_ID: _TEXT,
    LOADED_AT: _INSTANT,
    EXTRACTED_AT: _INSTANT,
    ROW_ID: _TEXT,
    OPERATION: _TEXT,
    META: _TEXT,
}
PRESET_COLUMNS: Final = {
    LineagePreset.OFF: (),
    LineagePreset.MINIMAL: (LOAD_ID, LOADED_AT),
    LineagePreset.BULK_STANDARD: (RUN_ID, LOAD_ID, LOADED_AT, EXTRACTED_AT),
    LineagePreset.STANDARD: (LOAD_ID, LOADED_AT, ROW_ID, EXTRACTED_AT),
    LineagePreset.DEBUG: (LOAD_ID, LOADED_AT, ROW_ID, EXTRACTED_AT, OPERATION, META),
}


def lineage_schema(names: Iterable[str]) -> TableSchema:
    """Schema of the technical columns `names`, in the given order, none of them nullable. Raises KeyError for
    another name.
    """
    return TableSchema(columns=tuple(Column(name=name, type=LINEAGE_TYPES[name], nullable=False) for name in names))
