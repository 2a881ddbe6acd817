"""The acceptance policy of a load, built once from the `quality.acceptance` mapping of its manifest.

The rules of that mapping are in `authoring.acceptance`, not here. Contract: ACC-01, ACC-06, SNAP-10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dpone_core.authoring.acceptance import ACCEPTANCE_INVALID, AcceptanceSection, ColumnSelector
from dpone_core.authoring.validate import WRONG_TYPE, validate
from dpone_core.errors import ETLConfigurationError, ETLExecutionError
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.problem import Problem
from dpone_core.model.vocabulary import AcceptanceMode, Boundary, Side

ACCEPTANCE_FIELD = "quality.acceptance"
ColumnSelection = ColumnSelector | tuple[str, ...]


class AcceptanceMetricConfigurationError(ETLConfigurationError, ValueError):
    """The acceptance policy in the manifest is malformed. `field_path` names the field: `quality.acceptance.mode`."""

    code = ACCEPTANCE_INVALID

    def __init__(self, problem: Problem) -> None:
        relative = problem.path
        joint = "." if relative and not relative.startswith("[") else ""
        self.field_path = f"{ACCEPTANCE_FIELD}{joint}{relative}"
        super().__init__(f"{self.field_path}: {problem.message}", fix=problem.fix)


class AcceptanceMetricError(ETLExecutionError):
    """A required metric could not be measured.

    `code` names side and cause; `boundary` is before or after the commit.
    """

    code: str = "acceptance_metric_failed"
    summary: ClassVar[str] = "a required acceptance metric is not available"

    def __init__(self, *, code: str, side: Side, boundary: Boundary) -> None:
        super().__init__(f"{self.summary} on side {side.value} ({boundary.value})", code=code)
        self.side = side
        self.boundary = boundary

    def as_evidence(self) -> dict[str, str]:
        """The details of the step `load_governance_failed`."""
        return {
            "failure_boundary": self.boundary.value,
            "acceptance_side": self.side.value,
            "error_code": self.code,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceMetricPolicy:
    """The requested sides and metrics.

    A column selection is OFF, a selector word, or column names in manifest order.
    """

    enabled: bool
    mode: AcceptanceMode
    capture_source: bool
    capture_staged: bool
    capture_target: bool
    row_count: bool
    null_counts: ColumnSelection
    distinct_counts: ColumnSelection

    @classmethod
    def from_load_config(cls, config: LoadConfig) -> AcceptanceMetricPolicy:
        """The policy of `config.quality["acceptance"]`; disabled when there is none.

        Raises AcceptanceMetricConfigurationError for the first problem.
        """
        if not isinstance(config.quality, Mapping):
            raise AcceptanceMetricConfigurationError(Problem(code=WRONG_TYPE, message="quality is not a mapping"))
        if "acceptance" not in config.quality:
            return cls.disabled()
        section = validate(AcceptanceSection, config.quality["acceptance"])
        if isinstance(section, tuple):
            raise AcceptanceMetricConfigurationError(section[0])
        return cls.from_section(section)

    @classmethod
    def from_section(cls, section: AcceptanceSection) -> AcceptanceMetricPolicy:
        return cls(
            enabled=section.enabled,
            mode=section.mode,
            capture_source=section.capture.source,
            capture_staged=section.capture.staged,
            capture_target=section.capture.target,
            row_count=section.checks.row_count,
            null_counts=_normalise(section.checks.null_counts),
            distinct_counts=_normalise(section.checks.distinct_counts),
        )

    @classmethod
    def disabled(cls) -> AcceptanceMetricPolicy:
        return cls.from_section(AcceptanceSection(enabled=False))

    @property
    def is_required(self) -> bool:
        """Whether a missing metric fails the run; False for a disabled policy."""
        return self.enabled and self.mode is AcceptanceMode.REQUIRED

    @property
    def requested_sides(self) -> tuple[Side, ...]:
        """The sides to measure, in the order source, staged, target; empty when disabled."""
        if not self.enabled:
            return ()
        captured = (
            (Side.SOURCE, self.capture_source),
            (Side.STAGED, self.capture_staged),
            (Side.TARGET, self.capture_target),
        )
        return tuple(side for side, requested in captured if requested)

    def canonical(self) -> dict[str, object]:
        """The acceptance part of what `policy_snapshot_id` is computed from."""
        return {
            "enabled": self.enabled,
            "mode": self.mode.value,
            "capture_source": self.capture_source,
            "capture_staged": self.capture_staged,
            "capture_target": self.capture_target,
            "row_count": self.row_count,
            "null_counts": _canonical(self.null_counts),
            "distinct_counts": _canonical(self.distinct_counts),
        }


def _normalise(selection: bool | ColumnSelector | tuple[str, ...]) -> ColumnSelection:
    if isinstance(selection, bool):
        return ColumnSelector.ALL_COLUMNS if selection else ColumnSelector.OFF
    return ColumnSelector.OFF if selection == ColumnSelector.NONE else selection


def _canonical(selection: ColumnSelection) -> str | list[str]:
    return selection.value if isinstance(selection, ColumnSelector) else list(selection)
