"""README's table "What works today" says exactly what `manifest.availability` says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import get_args

import pytest

from dpone_core.authoring.hooks import HookType
from dpone_core.authoring.sink import SinkType
from dpone_core.declared.registry import descriptor_of
from dpone_core.manifest import availability
from dpone_core.model.connector import ConnectorType
from dpone_core.model.vocabulary import GateType, HookKind, StateType, StrategyMode
from tests.docs.test_pages import ROOT

_WORD = re.compile(r"`([^`]+)`")


def row(part: str) -> tuple[set[str], set[str]]:
    """Words of the two columns of one row."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    line = next(line for line in readme.splitlines() if line.startswith(f"| {part} |"))
    _, _, works, refused, _ = line.split("|")
    return set(_WORD.findall(works)), set(_WORD.findall(refused))


def values(members: Iterable[StrEnum]) -> set[str]:
    return {member.value for member in members}


@pytest.mark.parametrize(
    ("part", "works", "known"),
    [
        ("source type", values(availability.SOURCE_TYPES), values(ConnectorType)),
        ("sink type", values(availability.SINK_TYPES), values(get_args(SinkType))),
        ("strategy", values(availability.STRATEGIES), values(StrategyMode)),
        ("state", values(set(StateType) - {StateType.FILE}), values(StateType)),
    ],
)
def test_a_row_names_what_works_and_refuses_the_rest(part: str, works: set[str], known: set[str]) -> None:
    shown, refused = row(part)
    assert shown & known == works
    assert refused & known == known - works


def test_file_formats_are_those_of_the_table() -> None:
    shown, refused = row("source type")
    traits = descriptor_of(ConnectorType.FILES).source
    assert traits is not None and shown >= set(traits.formats)
    assert not refused & set(traits.formats)


def test_gates_are_those_of_the_table() -> None:
    shown, refused = row("gates")
    assert shown == values(GateType)
    assert not refused


def test_hooks_are_those_of_the_table() -> None:
    shown, refused = row("hooks")
    assert shown == values(availability.HOOK_TYPES)
    assert refused == values(set(HookType) - availability.HOOK_TYPES) | values(set(HookKind) - availability.HOOK_KINDS)


def test_every_gap_is_one_that_this_table_was_written_for() -> None:
    assert len(availability.GAPS) == 2, "update README 'What works today' and this number"
