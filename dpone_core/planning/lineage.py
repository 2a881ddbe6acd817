"""Decides which technical columns a load writes (LIFE-11)."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.model.lineage import PRESET_COLUMNS, ROW_ID
from dpone_core.model.load_config import LineageConfig, RowIdentityMode, UnsupportedPolicy
from dpone_core.model.vocabulary import LineagePreset
from dpone_core.planning.route import RouteRefusedError

ROW_ID_UNAVAILABLE = "row_identity_without_unique_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageChoice:
    """The technical columns to write, in order, and stable codes of warnings."""

    columns: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def choose_lineage(lineage: LineageConfig, unique_key: tuple[str, ...]) -> LineageChoice:
    """Chooses the columns of the preset. The row id is written only when there is a unique key.

    Without a unique key `unsupported_policy` decides: `fail` raises RouteRefusedError, `warn` omits the row id with a
    warning. The presets `bulk_standard`, `standard` and `debug` write it under `row_identity.mode: auto`.
    """
    if not lineage.enabled or lineage.preset is LineagePreset.OFF:
        return LineageChoice(columns=())
    if lineage.preset is LineagePreset.HIERARCHICAL:
        raise RouteRefusedError(
            "'hierarchical' belongs to nested normalization, which is not available",
            path=("sink", "options", "lineage", "preset"),
            fix="use 'standard'",
        )
    columns = tuple(name for name in PRESET_COLUMNS[lineage.preset] if name != ROW_ID)
    asked = ROW_ID in PRESET_COLUMNS[lineage.preset]
    if lineage.row_identity is RowIdentityMode.OFF or lineage.preset is LineagePreset.MINIMAL:
        return LineageChoice(columns=columns)
    if unique_key:
        return LineageChoice(columns=(*columns, ROW_ID))
    if lineage.unsupported_policy is UnsupportedPolicy.FAIL:
        raise RouteRefusedError(
            "a row id needs sink.strategy.unique_key",
            path=("sink", "options", "lineage", "row_identity"),
            fix="declare unique_key, or set unsupported_policy: warn, or mode: off",
        )
    return LineageChoice(columns=columns, warnings=(ROW_ID_UNAVAILABLE,) if asked else ())
