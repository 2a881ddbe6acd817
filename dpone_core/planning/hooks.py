"""The order in which the hooks of one phase run, as a pure value (HOOK-02).

A hook runs after the hooks it depends on; hooks that could run at the same time run in authored order. A cycle is
reported before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dpone_core.declared.registry import descriptor_of
from dpone_core.errors import ETLConfigurationError
from dpone_core.model.hook import HookDefinition
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import HookConnector, HookPhase
from dpone_core.planning.route import RouteRefusedError

HOOK_CYCLE = "DPONE_HOOK_CYCLE"
HOOK_ID_REPEATED = "DPONE_HOOK_ID_REPEATED"
HOOK_DEPENDENCY_UNKNOWN = "DPONE_HOOK_DEPENDENCY_UNKNOWN"


class HookGraphError(ETLConfigurationError):
    """The hooks of a phase cannot be ordered. `hook_ids` names the hooks concerned, a cycle in its own order."""

    code = HOOK_CYCLE

    def __init__(self, message: str, *, code: str, phase: HookPhase, hook_ids: tuple[str, ...], fix: str) -> None:
        super().__init__(message, code=code, fix=fix)
        self.phase = phase
        self.hook_ids = hook_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGraph:
    """Hooks of one phase in execution order; build it with `HookGraph.of`."""

    phase: HookPhase
    ordered: tuple[HookDefinition, ...] = ()

    @classmethod
    def of(cls, hooks: Iterable[HookDefinition], phase: HookPhase) -> HookGraph:
        """Orders the hooks of `phase`; others are ignored. Raises HookGraphError for a repeated id, an unknown
        dependency or a cycle.
        """
        members = tuple(hook for hook in hooks if hook.phase is phase)
        _check_references(members, phase)
        cycle = first_cycle({hook.id: hook.depends_on for hook in members})
        if cycle:
            raise HookGraphError(
                f"hooks of {phase} depend on each other: {' -> '.join(cycle)}",
                code=HOOK_CYCLE,
                phase=phase,
                hook_ids=cycle,
                fix="remove one of these dependencies",
            )
        ordered: list[HookDefinition] = []
        done: set[str] = set()
        while len(ordered) < len(members):
            ready = next(hook for hook in members if hook.id not in done and done.issuperset(hook.depends_on))
            ordered.append(ready)
            done.add(ready.id)
        return cls(phase=phase, ordered=tuple(ordered))

    def hook(self, hook_id: str) -> HookDefinition | None:
        """The hook with this id, or None."""
        return next((hook for hook in self.ordered if hook.id == hook_id), None)


def judge_hooks(config: LoadConfig) -> tuple[HookDefinition, ...]:
    """Applies the SQL guard to every SQL hook, also of a LoadConfig built without a manifest, and notes which are
    maintenance. Raises RouteRefusedError.

    The guard and its parser are imported only when there is SQL.
    """
    return tuple(
        hook if hook.sql is None else _judge(config, hook, index)
        for phase in HookPhase
        for index, hook in enumerate(config.hooks_of(phase))
    )


def _judge(config: LoadConfig, hook: HookDefinition, index: int) -> HookDefinition:
    from dpone_core.sql_guard.verdict import hook_refusal, is_maintenance

    assert hook.sql is not None  # the caller asks about SQL hooks only
    side = config.source.type if hook.connector is HookConnector.SOURCE else config.sink.type
    refusal = hook_refusal(hook.sql.text, side, hook.kind, mutates_source=hook.mutates_source)
    if refusal is not None:
        field = "sql_file" if hook.sql.file is not None else "sql"
        path = ("source", "options", "hooks", hook.phase.value, index, field)
        raise RouteRefusedError(refusal.message, path=path, code=refusal.code, fix=refusal.fix)
    traits = descriptor_of(side).sql
    return replace(hook, maintains=traits is not None and is_maintenance(hook.sql.text, traits))


def _check_references(hooks: tuple[HookDefinition, ...], phase: HookPhase) -> None:
    ids = [hook.id for hook in hooks]
    for hook in hooks:
        if ids.count(hook.id) > 1:
            raise HookGraphError(
                f"hook id '{hook.id}' is used twice in {phase}",
                code=HOOK_ID_REPEATED,
                phase=phase,
                hook_ids=(hook.id,),
                fix="give each hook its own id",
            )
        unknown = next((needed for needed in hook.depends_on if needed not in ids), None)
        if unknown is not None:
            raise HookGraphError(
                f"hook '{hook.id}' depends on '{unknown}', and {phase} has no hook with that id",
                code=HOOK_DEPENDENCY_UNKNOWN,
                phase=phase,
                hook_ids=(hook.id, unknown),
                fix="name a hook of the same phase",
            )


def first_cycle(dependencies: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Ids along the first cycle with its start repeated at the end; empty without a cycle. Unknown ids are ignored."""
    waiting = {node: [needed for needed in needs if needed in dependencies] for node, needs in dependencies.items()}
    while free := [node for node, needs in waiting.items() if not any(needed in waiting for needed in needs)]:
        for node in free:
            del waiting[node]
    trail = list(waiting)[:1]
    while trail:
        following = next(needed for needed in waiting[trail[-1]] if needed in waiting)
        if following in trail:
            return (*trail[trail.index(following) :], following)
        trail.append(following)
    return ()
