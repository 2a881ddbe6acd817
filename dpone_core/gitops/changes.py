"""What differs between two run-specs of one process, line by line, for whoever reviews a pull request. Pure.

Contract: DAG-27.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dpone_core.contracts.run_spec import RunSpec, RunSpecStep

_OF_THE_WHOLE: Final = ("process", "image", "manifest", "pack", "pack_fingerprint", "policy_snapshot_id", "asset")
_OF_A_STEP: Final = (
    *("kind", "depends_on", "receipts_from", "argv", "timeout_seconds", "retries", "without_receipt"),
    *("resources", "pool", "hook", "mapped_over", "max_parallel"),
)
_ABSENT: Final = "-"


def run_spec_changes(before: RunSpec, after: RunSpec) -> tuple[str, ...]:
    """One line per change: image, bundle, policy, steps, their secrets, the platform; the last one says what a
    deployment during a run does. Empty when nothing differs.
    """
    lines = [
        *_fields(before.wire(), after.wire(), _OF_THE_WHOLE, ""),
        *_steps(before, after),
        *_tree(before.platform.wire(), after.platform.wire(), "platform"),
    ]
    if not lines:
        return ()
    if before.fingerprint == after.fingerprint:
        return (*lines, "a run during the deployment goes on: its receipts stay valid")
    return (*lines, "a run during the deployment fails at its gate (DPONE_RUN_SPEC_CHANGED): deploy between runs")


def _steps(before: RunSpec, after: RunSpec) -> Iterator[str]:
    old, new = ({step.step_id: step for step in spec.steps} for spec in (before, after))
    for step_id in dict.fromkeys((*old, *new)):
        if step_id not in new:
            yield f"step {step_id}: removed"
        elif step_id not in old:
            step = new[step_id]
            yield f"step {step_id}: added, {step.kind.value}, behind {', '.join(step.depends_on) or _ABSENT}"
        else:
            place = f"step {step_id}: "
            yield from _fields(old[step_id].wire(), new[step_id].wire(), _OF_A_STEP, place)
            yield from _tree(_secrets(old[step_id]), _secrets(new[step_id]), f"{place}secret")
    kept = [step_id for step_id in old if step_id in new]
    if kept != [step_id for step_id in new if step_id in old]:
        yield f"order of steps: {' '.join(old)} -> {' '.join(new)}"


def _secrets(step: RunSpecStep) -> dict[str, object]:
    return {one.name: f"{one.secret}/{one.key}" for one in step.secret_env}


def _fields(
    before: Mapping[str, object], after: Mapping[str, object], names: tuple[str, ...], place: str
) -> Iterator[str]:
    for name in names:
        yield from _tree(before[name], after[name], f"{place}{name}")


def _tree(before: object, after: object, place: str) -> Iterator[str]:
    """Descends into mappings; whatever else differs is one line."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            yield from _tree(before.get(name), after.get(name), f"{place}.{name}")
    elif before != after:
        yield f"{place}: {_shown(before)} -> {_shown(after)}"


def _shown(value: object) -> str:
    if value is None or value == () or value == []:
        return _ABSENT
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return str(value)
