"""`check` says everything at once, in four formats, and loads nothing it does not need (MAN-09, MAN-21, MAN-22)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_core.cli.check_formats import RENDERERS, as_github, as_json, as_sarif, as_text
from dpone_core.manifest.check import check_manifest
from dpone_core.use_cases.check import check, manifests_at
from tests.spec.manifest.manifests import FLOW, flow, written

BROKEN = FLOW.replace("  connection_ref: shop", "  conection_ref: shop").replace("full_refresh", "full")
ROOT = Path(__file__).parents[3]


def test_a_report_of_a_valid_manifest(tmp_path: Path) -> None:
    report = check_manifest(written(tmp_path, FLOW), project_root=tmp_path).as_json()
    assert report["passed"] is True and report["errors"] == []
    assert (report["mode"], report["network"], report["secrets"], report["source_queries"]) == (
        "static",
        False,
        False,
        False,
    )
    assert (report["source_kind"], report["processes"]) == ("dpone.flow.v1", ["orders"])
    assert report["source_files"] == [
        {"kind": "manifest", "path": "m.yaml", "fingerprint": report["source_fingerprint"]}
    ]


def test_every_problem_is_reported_in_document_order(tmp_path: Path) -> None:
    report = check_manifest(written(tmp_path, BROKEN), project_root=tmp_path)
    assert [(problem.path, problem.position and problem.position.line) for problem in report.errors] == [
        ("source.conection_ref", 5),
        ("sink.strategy.mode", 11),
    ]


def test_an_error_has_the_published_shape(tmp_path: Path) -> None:
    report = check_manifest(written(tmp_path, BROKEN), project_root=tmp_path)
    error = json.loads(as_json([report]))["errors"][0]
    assert error["schema"] == "dpone.error.v1"
    assert (error["file"], error["line"], error["column"]) == ("m.yaml", 5, 3)
    assert error["fixes"][0]["description"] == "did you mean 'connection_ref'?"
    assert set(error) >= {"code", "stage", "severity", "message", "path", "entity", "docs_url", "trace_id"}


def test_text_shows_place_code_path_and_fix(tmp_path: Path) -> None:
    text = as_text([check_manifest(written(tmp_path, BROKEN), project_root=tmp_path)])
    assert text.splitlines()[:2] == [
        "m.yaml:5:3: DPONE_MANIFEST_UNKNOWN_FIELD source.conection_ref: unknown field 'conection_ref'",
        "    fix: did you mean 'connection_ref'?",
    ]
    assert text.splitlines()[-1] == "m.yaml: 2 errors"


def test_github_annotations_are_escaped(tmp_path: Path) -> None:
    path = written(tmp_path, BROKEN, "a,b:c%.yaml")
    line = as_github([check_manifest(path, project_root=tmp_path)]).splitlines()[0]
    assert line.startswith("::error file=a%2Cb%3Ac%25.yaml,line=5,col=3,title=DPONE_MANIFEST_UNKNOWN_FIELD::")


def test_sarif_points_at_the_line(tmp_path: Path) -> None:
    log = json.loads(as_sarif([check_manifest(written(tmp_path, BROKEN), project_root=tmp_path)]))
    [first, second] = log["runs"][0]["results"]
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 5, "startColumn": 3}
    assert log["runs"][0]["tool"]["driver"]["rules"][second["ruleIndex"]]["id"] == second["ruleId"]


def test_a_directory_stands_for_the_manifests_below_it(tmp_path: Path) -> None:
    """Also for one whose kind is wrong; other YAML files, hidden ones and links to directories are passed over."""
    (tmp_path / "team/daily").mkdir(parents=True)
    (tmp_path / ".cache").mkdir()
    good = written(tmp_path / "team", FLOW, "good.yaml")
    wrong = written(tmp_path / "team/daily", FLOW.replace("dpone.flow.v1", "dpone.flwo.v1"), "wrong.yml")
    shaped = written(tmp_path / "team", FLOW.replace("kind: dpone.flow.v1", "kind: flow"), "shaped.yaml")
    written(tmp_path / "team", "services: {}\n", "compose.yaml")
    written(tmp_path / "team", FLOW, "README.md")
    written(tmp_path / ".cache", FLOW, "copy.yaml")
    (tmp_path / "team/again").symlink_to(tmp_path / "team", target_is_directory=True)
    assert manifests_at(tmp_path) == (wrong, good, shaped)
    assert [check(path, tmp_path).passed for path in manifests_at(tmp_path)] == [False, True, False]


def test_a_directory_without_manifests_is_refused(tmp_path: Path) -> None:
    assert manifests_at(tmp_path) == (tmp_path,)
    [problem] = check(tmp_path, tmp_path).errors
    assert problem.code == "DPONE_MANIFEST_NOT_FOUND" and "directory" in problem.message


def test_several_manifests_make_one_json_object(tmp_path: Path) -> None:
    good = check_manifest(written(tmp_path, FLOW, "good.yaml"), project_root=tmp_path)
    bad = check_manifest(written(tmp_path, BROKEN, "bad.yaml"), project_root=tmp_path)
    whole = json.loads(as_json([good, bad]))
    assert whole["passed"] is False and [report["passed"] for report in whole["reports"]] == [True, False]


@pytest.mark.parametrize("form", sorted(RENDERERS))
def test_an_absolute_path_is_never_shown(tmp_path: Path, form: str) -> None:
    for text in (FLOW, BROKEN, "a: [", ""):
        report = check_manifest(written(tmp_path, text), project_root=tmp_path)
        assert str(tmp_path) not in RENDERERS[form]([report])


@pytest.mark.parametrize("form", sorted(RENDERERS))
@pytest.mark.parametrize(
    "canary_at",
    [
        {"source__password": "CANARY"},
        {"source__connection_ref": "postgresql://u:CANARY@h/d"},
        {"connections": {"dwh": {"uri": "postgresql://u:CANARY@h/d"}}},
        {"source__options": {"query": {"sql": "DELETE FROM CANARY"}}, "source__table": None},
        {"source__type": "CANARY"},
        {"state": {"type": "CANARY"}},
        {"sink__table": "CANARY"},
        {"source__options": {"hooks": {"pre_hook": [{"id": "a", "sql": "EXEC CANARY"}]}}},
    ],
)
def test_an_authored_value_is_never_echoed(tmp_path: Path, form: str, canary_at: dict[str, object]) -> None:
    report = check_manifest(written(tmp_path, flow(**canary_at)), project_root=tmp_path)
    assert not report.passed
    assert "CANARY" not in RENDERERS[form]([report])


def modules_after_check(path: Path) -> set[str]:
    code = (
        "import sys; from dpone_core.manifest.check import check_manifest; import dpone_core.cli.check_formats;"
        "assert check_manifest(sys.argv[1]).passed; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_checking_a_manifest_without_sql_imports_no_parser_and_no_vendor(tmp_path: Path) -> None:
    modules = modules_after_check(written(tmp_path, FLOW))
    heavy = {"sqlglot", "jsonschema", "pyarrow", "chdb", "duckdb", "clickhouse_connect", "airflow", "kubernetes"}
    assert modules.isdisjoint(heavy | {"argparse", "http", "asyncio"})


def test_sql_text_brings_the_parser(tmp_path: Path) -> None:
    path = written(tmp_path, flow(source__table=None, source__options={"query": {"sql": "SELECT 1"}}))
    assert "sqlglot" in modules_after_check(path)
