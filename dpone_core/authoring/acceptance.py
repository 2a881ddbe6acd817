"""The authoring rules of `quality.acceptance`; the JSON Schema is generated from these models.

Whether a side exists and which columns it has is decided elsewhere (`dpone_core.acceptance`).
Contract: ACC-02, ACC-03, ACC-05, ACC-07.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from dpone_core.authoring.patterns import TEXT
from dpone_core.authoring.section import Section
from dpone_core.model.vocabulary import AcceptanceMode

ACCEPTANCE_INVALID: Final = "DPONE_ACCEPTANCE_METRIC_CONFIGURATION_INVALID"


class ColumnSelector(StrEnum):
    """Words that stand for a set of columns; `off` and `none` select no column, as `false` does."""

    OFF = "off"
    NONE = "none"
    ALL_COLUMNS = "all_columns"
    BUSINESS_COLUMNS = "business_columns"
    SOURCE_AND_BINARY_SEMANTICS = "source_and_binary_semantics"
    STRICT = "strict"


def _refuse_repeated_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise PydanticCustomError(ACCEPTANCE_INVALID, "a column is listed twice")
    return names


def _selection_shape(value: object) -> str | None:
    if isinstance(value, bool):
        return "switch"
    if isinstance(value, str):
        return "selector"
    return "columns" if isinstance(value, (list, tuple)) else None


ColumnName = Annotated[str, Field(min_length=1), TEXT]
ColumnNames = Annotated[
    tuple[ColumnName, ...],
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_refuse_repeated_names),
]
ColumnSelection = Annotated[
    Annotated[bool, Tag("switch")]
    | Annotated[ColumnSelector, Tag("selector")]
    | Annotated[ColumnNames, Tag("columns")],
    Discriminator(
        _selection_shape,
        custom_error_type=ACCEPTANCE_INVALID,
        custom_error_message="expected a boolean, a selector word or a list of column names",
    ),
]


class CaptureSection(Section):
    """Sides whose metrics are requested."""

    source: bool = True
    """Measure the dataset the rows are read from."""
    staged: bool = True
    """Measure the staging dataset; set it to false on legacy and resume-only routes, which have none."""
    target: bool = True
    """Measure the whole target dataset after the commit."""


class ChecksSection(Section):
    """Metrics requested of every captured side."""

    row_count: bool = True
    """Count rows."""
    null_counts: ColumnSelection = False
    """Columns whose NULLs are counted; `true` means all_columns."""
    distinct_counts: ColumnSelection = False
    """Columns whose distinct values are counted; `true` means all_columns."""

    @property
    def requests_nothing(self) -> bool:
        """Whether no metric is requested at all."""
        return not (self.row_count or selects_columns(self.null_counts) or selects_columns(self.distinct_counts))


_IS_OFF: Final[dict[str, JsonValue]] = {"enum": [False, ColumnSelector.OFF.value, ColumnSelector.NONE.value]}
_ENABLED: Final[dict[str, JsonValue]] = {"properties": {"enabled": {"const": True}}, "required": ["enabled"]}
_REQUESTS_SOMETHING: Final[dict[str, JsonValue]] = {
    "properties": {
        "capture": {
            "not": {
                "properties": {side: {"const": False} for side in ("source", "staged", "target")},
                "required": ["source", "staged", "target"],
            }
        },
        "checks": {
            "not": {
                "properties": {"row_count": {"const": False}, "null_counts": _IS_OFF, "distinct_counts": _IS_OFF},
                "required": ["row_count"],
            }
        },
    }
}


class AcceptanceSection(Section):
    """Fail-closed acceptance metrics of a load, one snapshot per requested side."""

    model_config = ConfigDict(json_schema_extra={"if": _ENABLED, "then": _REQUESTS_SOMETHING})

    enabled: bool
    """Whether the policy is executed; its complete shape is validated either way."""
    mode: AcceptanceMode = AcceptanceMode.WARN_ONLY
    """`required` fails the run when a requested metric is unavailable; `warn_only` records a warning instead."""
    capture: CaptureSection = CaptureSection()
    """Sides to measure; all three unless switched off."""
    checks: ChecksSection = ChecksSection()
    """Metrics to take; the row count unless told otherwise."""

    @field_validator("capture")
    @classmethod
    def _require_a_side(cls, capture: CaptureSection, info: ValidationInfo) -> CaptureSection:
        if info.data.get("enabled") is True and not (capture.source or capture.staged or capture.target):
            raise PydanticCustomError(ACCEPTANCE_INVALID, "an enabled policy must request at least one side")
        return capture

    @field_validator("checks")
    @classmethod
    def _require_a_check(cls, checks: ChecksSection, info: ValidationInfo) -> ChecksSection:
        if info.data.get("enabled") is True and checks.requests_nothing:
            raise PydanticCustomError(ACCEPTANCE_INVALID, "an enabled policy must request at least one check")
        return checks


def selects_columns(selection: bool | ColumnSelector | tuple[str, ...]) -> bool:
    """Whether a selection names any column; False for `false`, `off` and `none`."""
    return selection not in (False, ColumnSelector.OFF, ColumnSelector.NONE)
