"""JSON Schema, models and `check` give one verdict on every file of the corpus.

`invalid/expected.json` names code, path, line and the layer that catches it first: a file of layer `schema` is refused
by JSON Schema, by the models and by `check`; later layers see what earlier ones cannot. The last, `provider`, asks for
a hook type that no installed package registers, which the manifest alone cannot say.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dpone_core.authoring.kinds import ManifestKind
from dpone_core.manifest.availability import NOT_AVAILABLE_YET
from dpone_core.manifest.check import check_manifest
from dpone_core.manifest.document import Document, read_document
from dpone_core.manifest.processes import validate_document
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.use_cases import check as checking

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCHEMAS = ROOT / "schemas"
VALID = sorted((HERE / "corpus" / "valid").glob("*.yaml"))
INVALID = sorted((HERE / "corpus" / "invalid").glob("*.yaml"))
EXPECTED = json.loads((HERE / "corpus" / "invalid" / "expected.json").read_text())
UNAVAILABLE = json.loads((HERE / "corpus" / "valid" / "unavailable.json").read_text())


@cache
def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text()))


def document_of(path: Path) -> Document | None:
    try:
        return read_document(path.read_bytes(), file=path.name)
    except ManifestInvalidError:
        return None


def schema_accepts(document: Document) -> bool:
    kind = document.value.get("kind")
    name = kind if kind in set(ManifestKind) else ManifestKind.FLOW
    return validator(str(name)).is_valid(document.value)


def models_accept(document: Document) -> bool:
    try:
        validate_document(document)
    except ManifestInvalidError:
        return False
    return True


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_manifest_is_accepted_by_every_layer(path: Path) -> None:
    document = document_of(path)
    assert document is not None
    assert list(validator(str(document.value["kind"])).iter_errors(document.value)) == []
    assert models_accept(document)
    refused = [(problem.code, problem.path) for problem in check_manifest(path).errors]
    assert refused == [(NOT_AVAILABLE_YET, field) for field in UNAVAILABLE.get(path.name, [])]


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_manifest_is_refused_at_its_layer_and_place(path: Path) -> None:
    expected = EXPECTED[path.name]
    first = checking.check(path, None).errors[0]
    assert bool(check_manifest(path).errors) is (expected["layer"] != "provider")
    assert first.position is not None
    assert {"code": first.code, "path": first.path, "line": first.position.line} == {
        key: expected[key] for key in ("code", "path", "line")
    }
    document = document_of(path)
    if expected["layer"] == "document":
        assert document is None
        return
    assert document is not None
    assert schema_accepts(document) is (expected["layer"] != "schema")
    assert models_accept(document) is (expected["layer"] not in ("schema", "model"))
    assert (first.code == NOT_AVAILABLE_YET) is (expected["layer"] == "availability")


def test_the_index_names_every_file() -> None:
    assert sorted(EXPECTED) == [path.name for path in INVALID]
    assert set(UNAVAILABLE) <= {path.name for path in VALID}
    assert len(VALID) >= 25 and len(INVALID) >= 60


def test_no_invalid_manifest_shows_its_secret() -> None:
    for path in INVALID:
        for problem in check_manifest(path).errors:
            assert "CANARY" not in f"{problem} {problem.fix}"


def test_the_command_refuses_every_invalid_manifest_and_no_available_one() -> None:
    available = [path for path in VALID if path.name not in UNAVAILABLE]
    assert command_checks(available) == (0, len(available), True)
    assert command_checks(INVALID) == (2, len(INVALID), False)


def command_checks(paths: list[Path]) -> tuple[int, int, bool]:
    """Exit status, number of reports, and whether any passed."""
    names = [str(path.relative_to(ROOT)) for path in paths]
    done = subprocess.run(
        [sys.executable, "-m", "dpone", "check", "--format", "json", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    reports = json.loads(done.stdout)["reports"]
    return done.returncode, len(reports), any(report["passed"] for report in reports)
