"""Documents made to cost much or to mislead a reader: bounded, refused, or shown as they are.

Contract: MAN-27, MAN-28, MAN-29, YAML-09.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from dpone_core.authoring.validate import MAX_PROBLEMS, findings_of
from dpone_core.manifest.check import CheckReport, check_manifest
from dpone_core.model.explained import Explained
from tests.spec.builders import Project, flow, hook, hooks

OVERRIDE = "\u202e"


def checked(project: Project, text: str) -> CheckReport:
    return check_manifest(project.written(text), project_root=project.root)


@pytest.fixture(name="project")
def empty_project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_unknown_keys_without_end_are_counted_and_cost_time_in_proportion(project: Project) -> None:
    base = project.written(flow()).read_text()
    began = time.process_time()
    report = checked(project, base + "".join(f"key{number}: 1\n" for number in range(20_000)))
    assert time.process_time() - began < 15
    assert len(report.errors) == MAX_PROBLEMS + 1
    assert report.errors[-1].code == "DPONE_MANIFEST_MORE_PROBLEMS"
    assert report.errors[-1].message == "19,900 more problems are not listed"
    few = checked(project, base + "one: 1\ntwo: 2\n")
    assert [problem.path for problem in few.errors] == ["one", "two"]


@pytest.mark.parametrize("character", [OVERRIDE, "\u2066"])
def test_a_character_that_hides_the_order_of_text_is_refused(project: Project, character: str) -> None:
    for text in (
        f"# {character}\nkind: dpone.flow.v1\n",
        f'kind: dpone.flow.v1\ndescription: "a\\u{ord(character):04x}"\n',
    ):
        (problem,) = checked(project, text).errors
        assert problem.code == "DPONE_YAML_CHARACTER" and f"U+{ord(character):04X}" in problem.message


def test_sql_that_reads_in_another_order_than_it_runs_is_refused(project: Project) -> None:
    (project.root / "q.sql").write_text(f"SELECT id\n-- {OVERRIDE} x\nFROM orders")
    document = flow(source__table=None, source__options={"query": {"sql_file": "q.sql"}})
    (problem,) = check_manifest(project.written(document), project_root=project.root).errors
    assert problem.path == "source.options.query.sql_file"
    assert problem.message == "line 2 holds U+202E, which hides the order of the text"


def said(findings: object) -> list[tuple[str, str | None]]:
    assert isinstance(findings, tuple)
    return [(found.message, found.fix) for found in findings]


def test_two_fields_of_one_pattern_say_different_things() -> None:
    """The sentence hangs on the field, and what is wrong otherwise keeps its own."""

    class Names(BaseModel):
        ship: Annotated[str, Explained("^[a-z]+$", "a ship has lower-case letters", "rename the ship")]
        port: Annotated[str, Field(max_length=4), Explained("^[a-z]+$", "a port has lower-case letters", "rename it")]
        berths: dict[Annotated[str, Explained("^[a-z]+$", "a berth has a name", "name it")], int]

    assert said(findings_of(Names, {"ship": "A", "port": "B", "berths": {"C": 1}})) == [
        ("a ship has lower-case letters", "rename the ship"),
        ("a port has lower-case letters", "rename it"),
        ("a berth has a name", "name it"),
    ]
    assert said(findings_of(Names, {"ship": 1, "port": "haven", "berths": {}})) == [
        ("expected text", "quote it if it is text"),
        ("expected at most 4 characters", None),
    ]
    properties = Names.model_json_schema()["properties"]
    assert properties["port"]["pattern"] == "^[a-z]+$" and properties["port"]["maxLength"] == 4
    assert list(properties["berths"]["patternProperties"]) == ["^[a-z]+$"]


def test_each_name_is_explained_by_the_words_of_its_own_field(project: Project) -> None:
    uri = "postgresql://u@h/db"
    (problem,) = check_manifest(project.written(flow(source__connection_ref=uri)), project_root=project.root).errors
    assert problem.path == "source.connection_ref"
    assert problem.message.startswith("a connection name") and problem.fix and "DPONE_CONN_" in problem.fix
    wrong = hook("tidy", "SELECT 1", type="no type!")
    report = check_manifest(project.written(flow(source__options=hooks(pre=[wrong]))), project_root=project.root)
    assert any(problem.message.startswith("a hook type") for problem in report.errors)
