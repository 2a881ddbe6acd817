"""What a manifest may ask by its schema and dpone cannot do yet: one table, shortened as it learns.

Such a manifest is refused by check, plan and run alike, naming the field and what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from dpone_core.authoring.hooks import HookType
from dpone_core.authoring.process import ProcessSection
from dpone_core.authoring.validate import Finding, Path
from dpone_core.declared import registry
from dpone_core.model.vocabulary import HookKind, StateType, StrategyMode

NOT_AVAILABLE_YET: Final = "DPONE_NOT_AVAILABLE_YET"
SOURCE_TYPES: Final = frozenset(registry.SOURCE_TYPES)
SINK_TYPES: Final = frozenset(registry.SINK_TYPES)
STRATEGIES: Final = frozenset(StrategyMode)
HOOK_TYPES: Final = frozenset(HookType)
HOOK_KINDS: Final = frozenset(HookKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """`asked` yields the paths at which a process asks for it."""

    what: str
    instead: str
    asked: Callable[[ProcessSection], Iterator[Path]]


def availability_findings(process: ProcessSection) -> tuple[Finding, ...]:
    """One finding per asked field, code DPONE_NOT_AVAILABLE_YET."""
    return tuple(
        Finding(code=NOT_AVAILABLE_YET, message=f"{gap.what} is not available yet", path=path, fix=gap.instead)
        for gap in GAPS
        for path in gap.asked(process)
    )


def _normalization(process: ProcessSection) -> Iterator[Path]:
    asked = process.sink.options.normalization
    if asked is not None and asked.enabled:
        yield ("sink", "options", "normalization")


def _file_state(process: ProcessSection) -> Iterator[Path]:
    if process.state_type is StateType.FILE:
        yield ("state", "type")


GAPS: Final = (
    Gap(what="normalization of nested columns", instead="set enabled to false", asked=_normalization),
    Gap(what="cursor state in files", instead="use state type sink", asked=_file_state),
)
