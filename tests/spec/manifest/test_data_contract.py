"""The rules of a data contract become gates of the manifest that names it; what no gate judges is refused by its place.

Contract: GATE-36, GATE-37, GATE-38, GATE-39, GATE-40, GATE-41.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from dpone_core.authoring.quality import QualitySection
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.problem import ManifestInvalidError, Problem
from dpone_core.quality.policy import QualityGatePolicy, quality_section
from tests.spec.builders import Project, flow, project_with_orders

ORDERS: Final[dict[str, Any]] = {
    "version": "1.0.0",
    "kind": "DataContract",
    "apiVersion": "v3.1.0",
    "id": "urn:shop:orders",
    "status": "active",
}
STATEMENT: Final = "SELECT count(*) FROM ${table} WHERE id < 0"


def contract(*properties: dict[str, Any], name: str = "orders", **fields: Any) -> dict[str, Any]:
    """A contract with one object; `quality` is of the object, other fields are of the contract."""
    described = {"name": name, "properties": list(properties), "quality": fields.pop("quality", [])}
    return {**ORDERS, "schema": [described], **fields}


def column(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "logicalType": "string", **fields}


def gates_of(project: Project, document: object, **quality: Any) -> list[dict[str, Any]]:
    """The gates of the manifest with this contract, its own ones first."""
    write(project, document, **quality)
    (config,) = load_manifest(project.root / "m.yaml", project_root=project.root).processes
    gates = quality_section(config.quality).gates
    return [gate.model_dump(mode="json", exclude_unset=True) for gate in gates]


def write(project: Project, document: object, **quality: Any) -> None:
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    project.written(text, "orders.odcs.yaml")
    project.written(flow(quality={"contract": "orders.odcs.yaml", **quality}))


def problems_of(project: Project, document: object, **quality: Any) -> tuple[Problem, ...]:
    write(project, document, **quality)
    with pytest.raises(ManifestInvalidError) as refused:
        load_manifest(project.root / "m.yaml", project_root=project.root)
    return tuple(refused.value.problems)


@pytest.fixture(name="project")
def shop(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path)


LIBRARY: Final = {"type": "library"}
RULES: Final[dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]] = {
    "a column that is required": (
        contract(column("id", required=True)),
        [{"type": "not_null", "id": "required:id", "columns": ["id"]}],
    ),
    "the physical name": (
        contract(column("the id", physicalName="id", unique=True)),
        [{"type": "unique", "id": "unique:id", "columns": ["id"]}],
    ),
    "a primary key of two columns, in their order": (
        contract(
            column("name", primaryKey=True, primaryKeyPosition=2), column("id", primaryKey=True, primaryKeyPosition=1)
        ),
        [
            {"type": "unique", "id": "primary_key", "columns": ["id", "name"]},
            {"type": "not_null", "id": "required:name", "columns": ["name"]},
            {"type": "not_null", "id": "required:id", "columns": ["id"]},
        ],
    ),
    "NULLs up to a share": (
        contract(
            column("id", quality=[{"metric": "nullValues", "mustBeLessOrEqualTo": 5, "unit": "percent", "name": "few"}])
        ),
        [{"type": "not_null", "id": "few", "columns": ["id"], "tolerance": {"mode": "pct", "value": 5.0}}],
    ),
    "fewer NULLs than three, as a warning": (
        contract(column("id", quality=[{"metric": "nullValues", "mustBeLessThan": 3, "severity": "info"}])),
        [
            {
                "type": "not_null",
                "id": "nullValues:id",
                "columns": ["id"],
                "severity": "warning",
                "tolerance": {"mode": "absolute", "value": 2.0},
            }
        ],
    ),
    "values that count as missing": (
        contract(
            column(
                "name",
                quality=[{"metric": "missingValues", "arguments": {"missingValues": [None, "n/a"]}, "mustBe": 0}],
            )
        ),
        [
            {
                "type": "custom_sql",
                "id": "missingValues:name",
                "sql": 'SELECT count(*) FROM {{ staged }} WHERE "name" IS NULL OR "name" IN (\'n/a\')',
            }
        ],
    ),
    "values that are valid, and NULL": (
        contract(
            column(
                "name",
                quality=[{"metric": "invalidValues", "arguments": {"validValues": ["a", None]}, "mustBe": 0}],
            )
        ),
        [
            {
                "type": "accepted_values",
                "id": "invalidValues:name",
                "column": "name",
                "values": ["a"],
                "allow_null": True,
            }
        ],
    ),
    "no duplicates of a column, and of several": (
        contract(
            column("id", quality=[{"metric": "duplicateValues", "mustBe": 0}]),
            quality=[{"metric": "duplicateValues", "arguments": {"properties": ["id", "name"]}, "mustBe": 0}],
        ),
        [
            {"type": "unique", "id": "duplicateValues:id", "columns": ["id"]},
            {"type": "unique", "id": "duplicateValues", "columns": ["id", "name"]},
        ],
    ),
    "more rows than two": (
        contract(quality=[{"metric": "rowCount", "mustBeGreaterThan": 2}]),
        [{"type": "min_rows", "id": "rowCount", "threshold": 3}],
    ),
    "between so many rows": (
        contract(quality=[{"metric": "rowCount", "mustBeBetween": [1, 9]}]),
        [
            {
                "type": "custom_sql",
                "id": "rowCount",
                "sql": "SELECT CASE WHEN (\nSELECT count(*) FROM {{ staged }}\n) BETWEEN 1 AND 9 THEN 0 ELSE 1 END",
            }
        ],
    ),
    "a statement about a column": (
        contract(
            column(
                "id",
                quality=[
                    {
                        "type": "sql",
                        "query": "SELECT count(*) FROM ${object} WHERE ${property} < 0",
                        "mustBeLessThan": 3,
                    }
                ],
            )
        ),
        [
            {
                "type": "custom_sql",
                "id": "sql:id",
                "sql": 'SELECT count(*) FROM {{ staged }} WHERE "id" < 0',
                "tolerance": {"mode": "absolute", "value": 2.0},
            }
        ],
    ),
    "a statement that is compared": (
        contract(quality=[{"type": "sql", "query": f"{STATEMENT};", "mustBeGreaterThan": 0.5, "name": "some"}]),
        [
            {
                "type": "custom_sql",
                "id": "some",
                "sql": "SELECT CASE WHEN (\nSELECT count(*) FROM {{ staged }} WHERE id < 0\n) > 0.5 THEN 0 ELSE 1 END",
            }
        ],
    ),
    "freshness of the default element": (
        contract(slaDefaultElement="orders.at", slaProperties=[{"property": "freshness", "value": 2, "unit": "d"}]),
        [{"type": "freshness", "id": "freshness:at", "column": "at", "max_age": "PT172800S", "reference": "now"}],
    ),
}


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_a_rule_of_a_contract_is_a_gate(case: tuple[dict[str, Any], list[dict[str, Any]]], project: Project) -> None:
    document, gates = case
    assert gates_of(project, document) == gates


def test_gates_of_the_contract_stand_behind_those_of_the_manifest_and_fingerprint_as_if_written(
    project: Project,
) -> None:
    own = [{"type": "min_rows", "threshold": 1}]
    made = gates_of(project, contract(column("id", unique=True)), gates=own)
    assert [gate["id"] for gate in made if "id" in gate] == ["unique:id"] and made[0]["type"] == "min_rows"
    written = QualityGatePolicy.from_section(quality_section({"gates": made}))
    (config,) = load_manifest(project.root / "m.yaml", project_root=project.root).processes
    assert QualityGatePolicy.from_section(quality_section(config.quality)) == written


def test_a_contract_that_nobody_has_read_makes_no_policy() -> None:
    with pytest.raises(ManifestInvalidError):
        QualityGatePolicy.from_section(QualitySection.model_validate({"contract": "orders.odcs.yaml"}))


REFUSED: Final[dict[str, tuple[object, str, str]]] = {
    "another document": ({**ORDERS, "kind": "dpone.flow.v1"}, "DPONE_DATA_CONTRACT_INVALID", "kind"),
    "an older standard": ({**ORDERS, "apiVersion": "v2.2.2"}, "DPONE_DATA_CONTRACT_INVALID", "apiVersion"),
    "an unknown field": ({**ORDERS, "shcema": []}, "DPONE_DATA_CONTRACT_INVALID", "shcema"),
    "no YAML": ("a: [", "DPONE_YAML_SYNTAX", ""),
    "no object": (ORDERS, "DPONE_DATA_CONTRACT_OBJECT_UNKNOWN", "schema"),
    "two objects of other names": (
        {**ORDERS, "schema": [{"name": "order"}, {"name": "customers"}]},
        "DPONE_DATA_CONTRACT_OBJECT_UNKNOWN",
        "schema",
    ),
    "an option of a type": (
        contract(column("id", logicalTypeOptions={"maxLength": 3})),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].properties[0].logicalTypeOptions.maxLength",
    ),
    "a rule of a vendor": (
        contract(quality=[{"type": "custom", "engine": "soda", "implementation": "x"}]),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].quality[0].type",
    ),
    "a pattern": (
        contract(column("id", quality=[{"metric": "invalidValues", "arguments": {"pattern": "^a"}, "mustBe": 0}])),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].properties[0].quality[0]",
    ),
    "some duplicates": (
        contract(column("id", quality=[{"metric": "duplicateValues", "mustBeLessThan": 3}])),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].properties[0].quality[0]",
    ),
    "NULLs that must be there": (
        contract(column("id", quality=[{"metric": "nullValues", "mustBeGreaterThan": 3}])),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].properties[0].quality[0]",
    ),
    "a share of NULLs, exclusive": (
        contract(column("id", quality=[{"metric": "nullValues", "mustBeLessThan": 3, "unit": "percent"}])),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].properties[0].quality[0]",
    ),
    "no comparison": (
        contract(quality=[{"type": "sql", "query": STATEMENT}]),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].quality[0]",
    ),
    "an unknown placeholder": (
        contract(quality=[{"type": "sql", "query": "SELECT count(*) FROM ${orders}", "mustBe": 0}]),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].quality[0].query",
    ),
    "an unknown severity": (
        contract(quality=[{"metric": "rowCount", "mustBeGreaterThan": 0, "severity": "urgent"}]),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].quality[0].severity",
    ),
    "a rule about a part of a column": (
        contract(column("payload", logicalType="object", properties=[column("sku", required=True)])),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "schema[0].properties[0].properties[0]",
    ),
    "freshness in years": (
        contract(slaProperties=[{"property": "freshness", "value": 1, "unit": "y", "element": "orders.at"}]),
        "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE",
        "slaProperties[0]",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_no_gate_judges_is_refused_by_its_place_in_the_contract(
    case: tuple[object, str, str], project: Project
) -> None:
    document, code, path = case
    (problem,) = problems_of(project, document)
    assert (problem.code, problem.path) == (code, path)
    assert problem.position is not None and problem.position.file == "orders.odcs.yaml" and problem.position.line >= 1


def test_an_id_that_the_manifest_has_too_is_refused_in_the_contract(project: Project) -> None:
    own = [{"type": "not_null", "id": "required:id", "columns": ["name"]}]
    (problem,) = problems_of(project, contract(column("id", required=True)), gates=own)
    assert problem.code == "DPONE_MANIFEST_CONFLICT" and "this id is used" in problem.message
    assert problem.position is not None and problem.position.file == "orders.odcs.yaml"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("DELETE FROM ${table}", "DPONE_GATE_NOT_READ_ONLY"),
        ("SELECT 1", "DPONE_MANIFEST_VALUE_INVALID"),
    ],
)
def test_a_statement_of_a_contract_passes_the_same_checks(query: str, code: str, project: Project) -> None:
    (problem,) = problems_of(project, contract(quality=[{"type": "sql", "query": query, "mustBe": 0}]))
    assert problem.code == code
    assert problem.position is not None and problem.position.file == "orders.odcs.yaml"


@pytest.mark.parametrize(
    ("name", "code"),
    [("nope.yaml", "DPONE_PROJECT_FILE_NOT_FOUND"), ("../../x.yaml", "DPONE_SQL_FILE_OUTSIDE_PROJECT")],
)
def test_a_contract_lies_in_the_project(name: str, code: str, project: Project) -> None:
    (problem,) = problems_of(project, contract(), contract=name)
    assert (problem.code, problem.path) == (code, "quality.contract")


def test_a_row_that_breaks_the_contract_never_becomes_public(project: Project) -> None:
    project.orders([(1, "a", 10), (2, None, 20)])
    write(project, contract(column("id", primaryKey=True), column("name", required=True)))
    finished = project.run("--run-id", "r1")
    assert (finished.exit_code, finished.code) == (1, "DPONE_QUALITY_GATES_FAILED"), finished.stdout
    assert finished.receipt is not None and finished.receipt["failed_gate"] == "required:name"
    assert finished.receipt["target_state"] == "not_mutated"


def test_the_contract_belongs_to_the_pack(project: Project) -> None:
    write(project, contract(column("id", unique=True)))
    (project.root / "dpone.yaml").touch()
    assert project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json").exit_code == 0
    pack = json.loads((project.root / "m.pack.json").read_text())
    assert ("data_contract", "orders.odcs.yaml") in [(item["kind"], item["path"]) for item in pack["dependencies"]]


def test_show_prints_each_gate_with_its_place_and_what_no_gate_judges(project: Project) -> None:
    text = {"type": "text", "description": "names are short"}
    retention = {"property": "retention", "value": 3, "unit": "y"}
    write(project, contract(column("id", unique=True), quality=[text], slaProperties=[retention]))
    shown = project.dpone("contract", "show", "m.yaml")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "orders: 1 gate",
        "  - {type: unique, id: 'unique:id', columns: [id]}  # orders.odcs.yaml:11",
        "  not judged: rule of type text: names are short",
        "  not judged: service level retention",
    ]
    as_json = project.dpone("contract", "show", "m.yaml", "--format", "json").document
    assert as_json["processes"][0]["gates"][0]["gate"]["columns"] == ["id"]
    project.written(flow())
    none = project.dpone("contract", "show", "m.yaml")
    assert none.exit_code == 2 and "DPONE_DATA_CONTRACT_NOT_NAMED" in none.stdout


GATES: Final[list[dict[str, Any]]] = [
    {"type": "not_null", "id": "required:id", "columns": ["id"]},
    {"type": "not_null", "id": "named", "columns": ["name"], "tolerance": {"value": 2}, "severity": "warning"},
    {"type": "unique", "id": "primary_key", "columns": ["id", "name"]},
    {"type": "unique", "id": "unique:id", "columns": ["id"]},
    {"type": "unique", "id": "pair", "columns": ["id", "name"], "severity": "warning"},
    {"type": "accepted_values", "id": "words", "column": "name", "values": ["a", "b"], "allow_null": True},
    {"type": "min_rows", "id": "enough", "threshold": 2},
    {"type": "custom_sql", "id": "none", "sql": "SELECT count(*) FROM {{ staged }} WHERE id < 0"},
    {"type": "freshness", "id": "freshness:at", "column": "at", "max_age": "PT36H", "reference": "now"},
]


def test_an_exported_contract_follows_the_standard_and_makes_the_same_gates_again(project: Project) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}, {"name": "at", "type": "timestamp"}]
    csv = {"path": "orders.csv", "format": "csv", "columns": columns}
    source = {"type": "files", "options": csv}
    project.written({**flow(quality={"gates": GATES}), "source": source})
    exported = project.dpone("contract", "export", "m.yaml")
    assert exported.exit_code == 0 and exported.stderr == "", exported.stderr
    standard = json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text("utf-8"))
    jsonschema.validate(yaml.safe_load(exported.stdout), standard)
    again = {gate["id"]: gate for gate in gates_of(project, exported.stdout)}
    wanted = {gate["id"]: gate for gate in GATES} | {"required:name": {"columns": ["name"]}}
    assert set(again) == set(wanted), "a primary key has no NULL"
    for gate_id, gate in wanted.items():
        assert again[gate_id]["type"] == gate.get("type", "not_null")
        assert again[gate_id].get("columns") == gate.get("columns")
        assert again[gate_id].get("severity") == gate.get("severity")
    assert again["freshness:at"]["max_age"] == "PT129600S"


def test_what_a_contract_has_no_word_for_is_named_and_left_out(project: Project) -> None:
    gates = [
        {"type": "row_count_reconciliation"},
        {"type": "unique", "id": "whole", "columns": ["id"], "within": "target"},
        {"type": "freshness", "column": "at", "max_age": "PT1H"},
        {"type": "custom_sql", "sql": "SELECT count(*) FROM {{ staged }} WHERE day < {{ ds }}"},
        {"type": "min_rows", "side": "source", "threshold": 1},
    ]
    project.written(flow(quality={"gates": gates}))
    exported = project.dpone("contract", "export", "m.yaml")
    assert exported.exit_code == 0
    left_out = exported.stderr.splitlines()
    assert len(left_out) == len(gates) and all(line.startswith("not in the contract: gate ") for line in left_out)
    project.written(flow(quality={"gates": [{"type": "not_null", "columns": ["id"]}]}))
    untyped = project.dpone("contract", "export", "m.yaml").stderr
    assert untyped == "not in the contract: type of column 'id': the manifest does not declare it\n"
    assert "quality" not in yaml.safe_load(exported.stdout)["schema"][0]
