"""No misspelt key passes: whichever key of whichever valid manifest is changed, `check` refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_core.authoring.validate import Path as FieldPath
from dpone_core.manifest.document import Document, read_document
from dpone_core.manifest.processes import validate_document
from dpone_core.model.problem import ManifestInvalidError

VALID = Path(__file__).parents[2] / "schemas" / "corpus" / "valid"
DOCUMENTS = {path.name: read_document(path.read_bytes(), file=path.name) for path in sorted(VALID.glob("*.yaml"))}


def key_paths(value: object, path: FieldPath = ()) -> Iterator[FieldPath]:
    if isinstance(value, dict):
        for key, item in value.items():
            if not key.startswith("x-"):
                yield (*path, key)
                yield from key_paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from key_paths(item, (*path, index))


def chosen_by_the_author(path: FieldPath) -> bool:
    """Names of connections and source schemas are free."""
    return len(path) == 2 and path[0] in ("connections", "schemas")


KEYS = [(name, path) for name, document in DOCUMENTS.items() for path in key_paths(document.value)]
FIXED_KEYS = [(name, path) for name, path in KEYS if not chosen_by_the_author(path)]


TEXTS = [path.read_text(encoding="utf-8-sig") for path in sorted(VALID.glob("*.yaml"))]
MARKS = "{}[]:,-#&*!|>'\"%@` \n\t0x~a\u00e9\u00a0"


@settings(max_examples=400, deadline=None)
@given(
    text=st.sampled_from(TEXTS),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(MARKS), st.booleans()), min_size=1, max_size=3),
)
def test_any_edit_is_read_or_refused_with_a_place(text: str, edits: list[tuple[int, str, bool]]) -> None:
    for place, mark, replaces in edits:
        at = place % len(text)
        text = text[:at] + mark + text[at + replaces :]
    try:
        validate_document(read_document(text.encode(), file="m.yaml"))
    except ManifestInvalidError as error:
        placed = [problem.position for problem in error.problems]
        if None in placed:
            raise AssertionError(text) from error


def with_key(value: object, path: FieldPath, key: str) -> object:
    if isinstance(value, dict):
        if len(path) == 1:
            return {key if name == path[0] else name: item for name, item in value.items()}
        return {name: with_key(item, path[1:], key) if name == path[0] else item for name, item in value.items()}
    assert isinstance(value, list)
    return [with_key(item, path[1:], key) if index == path[0] else item for index, item in enumerate(value)]


def misspelt(key: str, kind: int, place: int) -> str:
    at = place % len(key)
    if kind == 0:
        return key[:at] + key[at + 1 :]
    if kind == 1:
        return key[:at] + key[at] + key[at:]
    if kind == 2:
        return key[:at] + key[at].swapcase() + key[at + 1 :]
    return key + " "


@settings(max_examples=400, deadline=None)
@given(target=st.sampled_from(FIXED_KEYS), kind=st.integers(0, 3), place=st.integers(0, 40))
def test_a_misspelt_key_is_refused(target: tuple[str, FieldPath], kind: int, place: int) -> None:
    name, path = target
    document = DOCUMENTS[name]
    key = str(path[-1])
    typo = misspelt(key, kind, place)
    if typo == key:
        typo = key + "_"
    changed = with_key(document.value, path, typo)
    assert isinstance(changed, dict)
    with pytest.raises(ManifestInvalidError) as caught:
        validate_document(Document(file=name, value=changed, keys=document.keys, values=document.values))
    assert all(problem.position is not None for problem in caught.value.problems)
