"""The committed JSON Schemas are exactly what the models say; every property is described and every mapping closed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dpone_core.authoring.kinds import ManifestKind
from dpone_core.manifest.schema import main, schema_text

SCHEMAS = Path(__file__).parents[2] / "schemas"


def definitions(kind: ManifestKind) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from json.loads((SCHEMAS / f"{kind.value}.json").read_text())["$defs"].items()


@pytest.mark.parametrize("kind", list(ManifestKind))
def test_the_written_schema_has_not_drifted(kind: ManifestKind) -> None:
    assert (SCHEMAS / f"{kind.value}.json").read_text() == schema_text(kind)


def test_drift_is_an_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write", str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "dpone.flow.v1.json").write_text("{}")
    assert main(["--check", str(tmp_path)]) == 1
    assert "dpone.flow.v1.json" in capsys.readouterr().out


@pytest.mark.parametrize("kind", list(ManifestKind))
def test_the_schema_is_valid_draft_2020_12(kind: ManifestKind) -> None:
    Draft202012Validator.check_schema(json.loads(schema_text(kind)))


@pytest.mark.parametrize("kind", list(ManifestKind))
def test_every_property_is_described(kind: ManifestKind) -> None:
    for name, definition in definitions(kind):
        for field, schema in definition.get("properties", {}).items():
            assert schema.get("description"), f"{name}.{field}"


@pytest.mark.parametrize("kind", list(ManifestKind))
def test_every_section_is_closed(kind: ManifestKind) -> None:
    for name, definition in definitions(kind):
        if definition.get("type") == "object" and name != "UnknownCheck":
            assert definition["additionalProperties"] is False, name


@pytest.mark.parametrize("kind", list(ManifestKind))
def test_null_is_a_value_of_the_replacement_of_a_special_value_alone(kind: ManifestKind) -> None:
    taking = [
        (name, field)
        for name, definition in definitions(kind)
        for field, schema in definition.get("properties", {}).items()
        if '"null"' in json.dumps(schema)
    ]
    assert taking == [("SpecialValueSection", "becomes")]
    assert schema_text(kind).count('"null"') == 1 and ": null" not in schema_text(kind)
