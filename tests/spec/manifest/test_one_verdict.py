"""JSON Schema never refuses what the models accept, and what it can say it says: any change of a valid manifest.

The models may be stricter (rules between distant fields); the editor's verdict is then completed by `check`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dpone_core.authoring.validate import (
    MISSING_FIELD,
    UNKNOWN_FIELD,
    UNKNOWN_VALUE,
    WRONG_TYPE,
    path_text,
)
from dpone_core.authoring.validate import Path as FieldPath
from dpone_core.manifest.document import Document
from dpone_core.manifest.processes import validate_document
from dpone_core.model.problem import ManifestInvalidError
from tests.spec.manifest.test_typos import DOCUMENTS, KEYS

SCHEMAS = Path(__file__).parents[3] / "schemas"
REPLACEMENTS: list[object] = [
    None, True, False, 0, -1, 7, 1.5, "", " ", "x", "a b", "off", "PT1H", [], ["a"], ["a", "a"], [1], {}, {"a": 1},
]  # fmt: skip
SEEN_BY_SCHEMA = {UNKNOWN_FIELD, WRONG_TYPE}


@cache
def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text()))


def changed(value: object, path: FieldPath, replacement: object) -> object:
    copied = json.loads(json.dumps(value))
    node = copied
    for part in path[:-1]:
        node = node[part]
    if replacement is REMOVED:
        del node[path[-1]]
    else:
        node[path[-1]] = replacement
    return copied


REMOVED = object()
CHANGEABLE = [(name, path) for name, path in KEYS if path != ("kind",)]


@settings(max_examples=600, deadline=None)
@given(target=st.sampled_from(CHANGEABLE), replacement=st.sampled_from([*REPLACEMENTS, REMOVED]))
def test_schema_and_models_agree_on_any_change(target: tuple[str, FieldPath], replacement: object) -> None:
    name, path = target
    document = DOCUMENTS[name]
    value = changed(document.value, path, replacement)
    assert isinstance(value, dict)
    schema_accepts = validator(str(value["kind"])).is_valid(value)
    codes: set[str] = set()
    try:
        validate_document(Document(file=name, value=value, keys=document.keys, values=document.values))
    except ManifestInvalidError as error:
        codes = {problem.code for problem in error.problems}
    where = f"{name}: {path_text(path)} = {replacement!r}: {sorted(codes)}"
    assert schema_accepts or codes, f"the schema alone refuses {where}"
    assert not (schema_accepts and codes & SEEN_BY_SCHEMA), f"the schema misses {where}"


def test_codes_of_distant_rules_are_not_those_of_fields() -> None:
    assert SEEN_BY_SCHEMA.isdisjoint({MISSING_FIELD, UNKNOWN_VALUE})


def test_the_schema_says_what_stands_in_one_field() -> None:
    """Tokens in a path, a line break in a NULL token, a table whose name makes no process name."""
    files = {"path": "a.csv", "format": "csv", "columns": [{"name": "a", "type": "int64"}]}
    flow = {
        "kind": "dpone.flow.v1",
        "name": "orders",
        "source": {"type": "files", "options": files},
        "sink": {"type": "duckdb", "connection_ref": "d", "table": {"name": "t"}, "strategy": {"mode": "full_refresh"}},
    }
    is_flow, is_batch = validator("dpone.flow.v1").is_valid, validator("dpone.batch.v1").is_valid
    assert is_flow(flow)
    assert not is_flow(changed(flow, ("source", "options", "path"), "a/{{ ds }}.csv"))
    assert not is_flow(changed(flow, ("source", "options", "csv"), {"null_token": "NULL\n"}))
    batch = {"kind": "dpone.batch.v1", "schemas": {"main": {"tables": ["orders", {"table": "a-b", "name": "ab"}]}}}
    assert is_batch(batch)
    assert not is_batch(changed(batch, ("schemas", "main", "tables", 0), "my-table"))
    assert not is_batch(changed(batch, ("schemas", "main", "tables", 1), {"table": "a-b"}))
