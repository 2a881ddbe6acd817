"""Resolves the column selectors of an acceptance policy over the schema of one side.

`all_columns` means every column; any other word leaves out the technical columns `__dpone__*`. A column whose type
cannot be counted is left out with a warning, unless it was requested strictly: with `strict` or by name. Contract:
ACC-18, ACC-19, ACC-21, ACC-22.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.acceptance.policy import AcceptanceMetricError, AcceptanceMetricPolicy, ColumnSelection
from dpone_core.authoring.acceptance import ColumnSelector
from dpone_core.model.table_schema import ColumnKind, TableSchema
from dpone_core.model.vocabulary import Boundary, Side

UNKNOWN_COLUMNS: Final = "acceptance_metric_unknown_columns"
UNCOUNTABLE_COLUMNS: Final = "acceptance_metric_uncountable_columns"
NOTHING_SELECTED: Final = "acceptance_metric_nothing_selected"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedColumns:
    """The columns to count on one side, in schema order, and the warnings about columns that are left out."""

    null_counts: tuple[str, ...]
    distinct_counts: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    names: tuple[str, ...]
    unknown: bool = False
    uncountable: bool = False
    strict: bool = False


def select_columns(
    policy: AcceptanceMetricPolicy, *, side: Side, schema: TableSchema, boundary: Boundary
) -> SelectedColumns:
    """The columns of one side for NULL counts and for distinct counts.

    In required mode raises AcceptanceMetricError `<side>_acceptance_metric_unknown_columns`,
    `<side>_acceptance_metric_uncountable_columns` or, when the side would measure nothing at all,
    `<side>_acceptance_metric_nothing_selected`. In warn-only mode those become warnings without the side prefix.
    """
    nulls = _resolve(policy.null_counts, schema)
    distincts = _resolve(policy.distinct_counts, schema)
    both = (nulls, distincts)
    faults: list[str] = []
    if any(selection.unknown for selection in both):
        faults.append(UNKNOWN_COLUMNS)
    if any(selection.uncountable and selection.strict for selection in both):
        faults.append(UNCOUNTABLE_COLUMNS)
    if not (policy.row_count or nulls.names or distincts.names):
        faults.append(NOTHING_SELECTED)
    if faults and policy.is_required:
        raise AcceptanceMetricError(code=f"{side.value}_{faults[0]}", side=side, boundary=boundary)
    if any(selection.uncountable for selection in both):
        faults.append(UNCOUNTABLE_COLUMNS)
    return SelectedColumns(
        null_counts=nulls.names, distinct_counts=distincts.names, warnings=tuple(dict.fromkeys(faults))
    )


def _resolve(selection: ColumnSelection, schema: TableSchema) -> _Selection:
    if selection is ColumnSelector.OFF:
        return _Selection(names=())
    if isinstance(selection, tuple):
        chosen = tuple(column for column in schema.columns if column.name in selection)
        unknown = len(chosen) < len(selection)
    else:
        chosen = schema.columns if selection is ColumnSelector.ALL_COLUMNS else schema.business_columns
        unknown = False
    countable = tuple(column.name for column in chosen if column.type.kind is not ColumnKind.UNSUPPORTED)
    return _Selection(
        names=countable,
        unknown=unknown,
        uncountable=len(countable) < len(chosen),
        strict=isinstance(selection, tuple) or selection is ColumnSelector.STRICT,
    )
