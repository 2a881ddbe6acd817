"""Every guard is guarded: a test fails when it is removed.

Style "Tests are the specification". The quick suite only checks that the list still fits the sources.
"""

from __future__ import annotations

import ast

import pytest

from tests.guards.run import REPOSITORY, Mutation, mutations, survivors

LEAST = 50
PARTS = 24
"""The list is removed in parts, so that one part ends within its time and a shard may take some of them."""


@pytest.mark.parametrize("mutation", mutations(), ids=str)
def test_a_listed_guard_stands_exactly_once_in_its_file(mutation: Mutation) -> None:
    changed = mutation.applied((REPOSITORY / mutation.file).read_text("utf-8"))
    ast.parse(changed)  # a mutation that does not even compile proves nothing
    assert mutation.tests and all((REPOSITORY / test.partition("::")[0]).is_file() for test in mutation.tests)


def test_no_guard_is_listed_twice() -> None:
    listed = [(mutation.file, mutation.old, mutation.new) for mutation in mutations()]
    assert len(set(listed)) == len(listed) >= LEAST


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_without_a_guard_a_test_fails(part: int) -> None:
    survived = survivors(mutations()[part::PARTS])
    assert [str(verdict.mutation) for verdict in survived if not verdict.unverified] == []
