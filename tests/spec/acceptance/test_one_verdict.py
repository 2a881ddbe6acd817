"""Each malformed policy of a list has one verdict: published JSON Schema, `check`, direct Python, `run`.

Contract: ACC-08. Three differences are known and named below; in each the schema alone is weaker, and every verb of
dpone refuses.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dpone_core.acceptance.policy import AcceptanceMetricConfigurationError, AcceptanceMetricPolicy
from tests.spec.builders import Project, flow
from tests.spec.manifest.manifests import BATCH, codes_and_paths
from tests.spec.quality.builders import load_config

SCHEMAS = Path(__file__).parents[3] / "schemas"
CODE = "DPONE_ACCEPTANCE_METRIC_CONFIGURATION_INVALID"
NO_SIDE = {"source": False, "staged": False, "target": False}


def on(**fields: object) -> dict[str, object]:
    return {"enabled": True, **fields}


def checks(**fields: object) -> dict[str, object]:
    return on(checks=fields)


NEGATIVES: dict[str, object] = {
    "misspelled mode": on(mode="requird"),
    "mode of another case": on(mode="Required"),
    "missing enabled": {"mode": "required"},
    "enabled as text": {"enabled": "true"},
    "enabled as number": {"enabled": 1},
    "enabled as null": {"enabled": None},
    "capture as boolean": on(capture=True),
    "capture as list": on(capture=["source"]),
    "side as text": on(capture={"source": "yes"}),
    "unknown side": on(capture={"sources": True}),
    "no side": on(capture=NO_SIDE),
    "checks as list": on(checks=["row_count"]),
    "unknown check": checks(rows=True),
    "unknown key": on(modes="required"),
    "exact row count": checks(row_count="exact"),
    "row count as number": checks(row_count=1),
    "no check": checks(row_count=False),
    "no check in words": checks(row_count=False, null_counts="off", distinct_counts="none"),
    "no check in booleans": checks(row_count=False, null_counts=False, distinct_counts=False),
    "unknown selector": checks(null_counts="all"),
    "misspelled selector": checks(distinct_counts="busines_columns"),
    "number as selector": checks(null_counts=0),
    "null as selector": checks(distinct_counts=None),
    "mapping as selector": checks(distinct_counts={"id": True}),
    "empty list": checks(null_counts=[]),
    "repeated column": checks(null_counts=["id", "id"]),
    "empty column": checks(null_counts=["id", ""]),
    "blank column": checks(null_counts=[" "]),
    "boolean column": checks(null_counts=[True]),
    "number as column": checks(distinct_counts=[1]),
    "disabled and misspelled": {"enabled": False, "mode": "requird"},
    "disabled and empty list": {"enabled": False, "checks": {"null_counts": []}},
    "list": [],
    "boolean": True,
    "text": "required",
}
CORRECT: dict[str, object] = {
    "disabled without side": {"enabled": False, "capture": NO_SIDE, "checks": {"row_count": False}},
    "defaults": on(),
    "one side": on(mode="required", capture={"source": False, "staged": False}),
    "no rows but nulls": checks(row_count=False, null_counts=["id"]),
    "every word": checks(null_counts="strict", distinct_counts="source_and_binary_semantics"),
}


def manifest(acceptance: object) -> dict[str, object]:
    return flow(quality={"acceptance": acceptance})


@cache
def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text("utf-8")))


def by_schema(acceptance: object) -> bool:
    return validator("dpone.flow.v1").is_valid(manifest(acceptance))


def by_python(acceptance: object) -> bool:
    try:
        AcceptanceMetricPolicy.from_load_config(load_config({"acceptance": acceptance}))
    except AcceptanceMetricConfigurationError as error:
        return (error.code, error.field_path.partition("quality.acceptance")[0]) != (CODE, "")
    return True


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """`dpone check` of every case in one process, by name."""
    project = Project(tmp_path_factory.mktemp("check"))
    names = {}
    for number, (name, acceptance) in enumerate({**NEGATIVES, **CORRECT}.items()):
        names[f"m{number}.yaml"] = name
        project.written(manifest(acceptance), f"m{number}.yaml")
    finished = project.dpone("check", *names, "--format", "json")
    assert finished.exit_code == 2
    return {names[report["manifest"]]: report for report in finished.document["reports"]}


@pytest.mark.parametrize("name", NEGATIVES)
def test_schema_check_and_direct_python_refuse_what_the_contract_names(
    name: str, checked: dict[str, dict[str, Any]]
) -> None:
    acceptance = NEGATIVES[name]
    assert not by_schema(acceptance)
    assert not by_python(acceptance)
    errors = checked[name]["errors"]
    assert not checked[name]["passed"] and errors
    assert all(error["path"].startswith("quality.acceptance") for error in errors)


@pytest.mark.parametrize("name", CORRECT)
def test_all_of_them_accept_what_is_correct(name: str, checked: dict[str, dict[str, Any]]) -> None:
    assert by_schema(CORRECT[name]) and by_python(CORRECT[name])
    assert checked[name]["passed"], checked[name]["errors"]


@pytest.mark.parametrize("name", NEGATIVES)
def test_a_run_of_it_is_refused_and_creates_nothing(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(manifest(NEGATIVES[name]))
    before = project.files()
    execution = project.execute()
    assert execution.refusal is not None and execution.report.exit_code == 2
    assert project.files() == before


def test_a_known_difference_is_an_integer_written_as_a_float(tmp_path: Path) -> None:
    """JSON Schema takes 1.0 for an integer; dpone does not, because a count is never a float."""
    gates = flow(quality={"gates": [{"type": "min_rows", "threshold": 1.0}]})
    assert validator("dpone.flow.v1").is_valid(gates)
    assert refused_by_check(tmp_path, gates) == ["quality.gates[0].threshold"]


def test_a_known_difference_is_a_line_feed_behind_a_name(tmp_path: Path) -> None:
    """Where a validator reads `$` as Python does, it also matches before a last line feed; dpone's models do not."""
    named = flow(name="orders\n")
    assert validator("dpone.flow.v1").is_valid(named)
    assert refused_by_check(tmp_path, named) == ["name"]


def test_a_known_difference_is_a_fragment_that_another_part_completes(tmp_path: Path) -> None:
    """In a batch `quality` is merged from several places, so its schema requires no field; what is merged is judged."""
    batch = yaml.safe_load(BATCH)
    for name, acceptance in NEGATIVES.items():
        changed = {**deepcopy(batch), "quality": {"acceptance": acceptance}}
        needs_the_whole = name in ("missing enabled", "no side") or name.startswith("no check")
        assert validator("dpone.batch.v1").is_valid(changed) is needs_the_whole, name
        assert all("quality.acceptance" in path for path in refused_by_check(tmp_path, changed)), name


def refused_by_check(directory: Path, document: dict[str, object]) -> list[str]:
    """Paths that `dpone check` objects to; at least one."""
    found = [path for _, path in codes_and_paths(directory, document)]
    assert found
    return found
