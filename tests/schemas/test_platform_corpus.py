"""JSON Schema, model and command give one verdict on every platform file of the corpus, at one place.

`invalid/expected.json` names code, path, line and the layer that catches it first: `document` is the YAML, a file of
layer `schema` is refused by JSON Schema too, `model` says what a schema cannot. Contract: DAG-11.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dpone_core.gitops.platform import read_platform
from dpone_core.manifest.document import Document, read_document
from dpone_core.manifest.schema import platform_schema
from dpone_core.model.problem import ManifestInvalidError

HERE = Path(__file__).parent / "platform"
VALID = sorted((HERE / "valid").glob("*.yaml"))
INVALID = sorted((HERE / "invalid").glob("*.yaml"))
EXPECTED = json.loads((HERE / "invalid" / "expected.json").read_text())
WRITTEN = Path(__file__).parents[2] / "schemas" / "dpone.platform.v1.json"


@cache
def schema() -> Draft202012Validator:
    return Draft202012Validator(json.loads(WRITTEN.read_text()))


def document_of(path: Path) -> Document | None:
    try:
        return read_document(path.read_bytes(), file=path.name)
    except ManifestInvalidError:
        return None


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_platform_file_is_accepted_by_schema_and_model(path: Path) -> None:
    document = document_of(path)
    assert document is not None
    assert list(schema().iter_errors(document.value)) == []
    read_platform(path.read_bytes(), path.name)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_platform_file_is_refused_at_its_layer_and_place(path: Path) -> None:
    expected = EXPECTED[path.name]
    with pytest.raises(ManifestInvalidError) as caught:
        read_platform(path.read_bytes(), path.name)
    first = caught.value.problems[0]
    assert first.position is not None
    assert (first.code, first.path, first.position.line) == (expected["code"], expected["path"], expected["line"])
    assert "CANARY" not in f"{caught.value} {first.fix}"
    document = document_of(path)
    if expected["layer"] == "document":
        assert document is None
        return
    assert document is not None
    assert schema().is_valid(document.value) is (expected["layer"] != "schema")


def test_the_index_names_every_file() -> None:
    assert sorted(EXPECTED) == [path.name for path in INVALID]
    assert len(INVALID) >= 50 and {entry["layer"] for entry in EXPECTED.values()} == {"document", "schema", "model"}


def test_the_written_schema_has_not_drifted_and_is_closed_described_and_free_of_nulls() -> None:
    written = WRITTEN.read_text()
    assert json.loads(written) == platform_schema()
    Draft202012Validator.check_schema(platform_schema())
    assert '"null"' not in written and ": null" not in written
    for name, definition in platform_schema()["$defs"].items():
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False, name
        for field, described in definition.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"
