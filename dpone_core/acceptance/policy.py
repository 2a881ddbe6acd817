"""The acceptance policy of a load, normalised once from the authored mapping.

The authoring rules themselves stand in `authoring.acceptance` and nowhere else. Sources: S0 "Python API",
"Manifest/schema"; Facts 5 "acceptance" and `policy_snapshot_id`.
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
    """The authored policy is malformed; `field_path` is its public path, `quality.acceptance.mode` for example."""

    code = ACCEPTANCE_INVALID

    def __init__(self, problem: Problem) -> None:
        relative = problem.path
        joint = "." if relative and not relative.startswith("[") else ""
        self.field_path = f"{ACCEPTANCE_FIELD}{joint}{relative}"
        super().__init__(f"{self.field_path}: {problem.message}", fix=problem.fix)


class AcceptanceMetricError(ETLExecutionError):
    """A required metric cannot be had. `code` names side and cause, `boundary` says which side of the commit it is."""

    code: str = "acceptance_metric_failed"
    summary: ClassVar[str] = "a required acceptance metric is not available"

    def __init__(self, *, code: str, side: Side, boundary: Boundary) -> None:
        super().__init__(f"{self.summary} on side {side.value} ({boundary.value})", code=code)
        self.side = side
        self.boundary = boundary

    def as_evidence(self) -> dict[str, str]:
        """Details of a `load_governance_failed` step."""
        return {
            "failure_boundary": self.boundary.value,
            "acceptance_side": self.side.value,
            "error_code": self.code,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceMetricPolicy:
    """Requested sides and metrics. A selection is OFF, a selector word, or exact column names in authored order."""

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
        """Normalises `config.quality["acceptance"]`; absent means disabled.

        Raises AcceptanceMetricConfigurationError for the first problem, whoever wrote the mapping.
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
            null_counts=_normalised(section.checks.null_counts),
            distinct_counts=_normalised(section.checks.distinct_counts),
        )

    @classmethod
    def disabled(cls) -> AcceptanceMetricPolicy:
        return cls.from_section(AcceptanceSection(enabled=False))

    @property
    def is_required(self) -> bool:
        """True when a missing metric must fail the run; never for a disabled policy."""
        return self.enabled and self.mode is AcceptanceMode.REQUIRED

    @property
    def requested_sides(self) -> tuple[Side, ...]:
        """In the order source, staged, target; empty when disabled."""
        if not self.enabled:
            return ()
        captured = (
            (Side.SOURCE, self.capture_source),
            (Side.STAGED, self.capture_staged),
            (Side.TARGET, self.capture_target),
        )
        return tuple(side for side, requested in captured if requested)

    def canonical(self) -> dict[str, object]:
        """The acceptance part of the `policy_snapshot_id` payload."""
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


def _normalised(selection: bool | ColumnSelector | tuple[str, ...]) -> ColumnSelection:
    if isinstance(selection, bool):
        return ColumnSelector.ALL_COLUMNS if selection else ColumnSelector.OFF
    return ColumnSelector.OFF if selection == ColumnSelector.NONE else selection


def _canonical(selection: ColumnSelection) -> str | list[str]:
    return selection.value if isinstance(selection, ColumnSelector) else list(selection)
