"""Hooks run after what they depend on, otherwise in authored order; cycles are named before anything runs (HOOK-02)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_core.errors import ExitClass
from dpone_core.model.hook import HookDefinition
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import HookConnector, HookKind, HookPhase
from dpone_core.planning.hooks import HookGraph, HookGraphError, first_cycle


def hook(hook_id: str, *needs: str, phase: HookPhase = HookPhase.PRE) -> HookDefinition:
    return HookDefinition(
        id=hook_id,
        phase=phase,
        kind=HookKind.CUSTOM,
        connector=HookConnector.SOURCE,
        sql=SqlText(text="SELECT 1"),
        depends_on=needs,
    )


def order(*hooks: HookDefinition) -> list[str]:
    return [ready.id for ready in HookGraph.of(hooks, HookPhase.PRE).ordered]


def test_authored_order_decides_among_equals() -> None:
    assert order(hook("c"), hook("a"), hook("b")) == ["c", "a", "b"]


def test_dependencies_run_first_whatever_the_authored_order() -> None:
    assert order(hook("c", "b"), hook("b", "a"), hook("a")) == ["a", "b", "c"]
    assert order(hook("x"), hook("c", "a"), hook("y"), hook("a")) == ["x", "y", "a", "c"]


def test_phases_are_separate_graphs() -> None:
    hooks = (hook("a"), hook("a", phase=HookPhase.POST))
    assert [graph.ordered for graph in (HookGraph.of(hooks, phase) for phase in HookPhase)] == [
        (hooks[0],),
        (hooks[1],),
    ]


def test_a_cycle_is_named_in_its_order() -> None:
    with pytest.raises(HookGraphError) as caught:
        order(hook("free"), hook("end", "a"), hook("a", "b"), hook("b", "c"), hook("c", "a"))
    assert caught.value.code == "DPONE_HOOK_CYCLE"
    assert caught.value.hook_ids == ("a", "b", "c", "a")
    assert "a -> b -> c -> a" in caught.value.message
    assert caught.value.exit_class is ExitClass.REFUSED


def test_a_hook_that_needs_itself_is_a_cycle() -> None:
    with pytest.raises(HookGraphError, match="a -> a"):
        order(hook("a", "a"))


@pytest.mark.parametrize(
    ("hooks", "code"),
    [
        ((hook("a"), hook("a")), "DPONE_HOOK_ID_REPEATED"),
        ((hook("a", "b"),), "DPONE_HOOK_DEPENDENCY_UNKNOWN"),
        ((hook("a", "b"), hook("b", phase=HookPhase.POST)), "DPONE_HOOK_DEPENDENCY_UNKNOWN"),
    ],
)
def test_broken_references_are_refused(hooks: tuple[HookDefinition, ...], code: str) -> None:
    with pytest.raises(HookGraphError) as caught:
        HookGraph.of(hooks, HookPhase.PRE)
    assert caught.value.code == code


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=8))
def test_an_order_exists_exactly_when_there_is_no_cycle(needs: list[list[int]]) -> None:
    ids = [f"h{index}" for index in range(len(needs))]
    hooks = [hook(ids[index], *{ids[need % len(ids)] for need in own}) for index, own in enumerate(needs)]
    if first_cycle({item.id: item.depends_on for item in hooks}):
        with pytest.raises(HookGraphError):
            order(*hooks)
        return
    done: set[str] = set()
    for ready in HookGraph.of(hooks, HookPhase.PRE).ordered:
        assert done.issuperset(ready.depends_on)
        done.add(ready.id)
    assert done == set(ids)
