"""A hook type comes from an installed package's entry point; whatever it does, the run stays truthful (HOOK-26).

Packages are made visible as installers do it, by a directory with `.dist-info` on the import path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dpone_core.model.hook import HookDefinition, HookTraits, ScalarKind
from dpone_core.model.vocabulary import HookKind, HookPhase
from dpone_core.ports.hooks import HookResult, select_declared_results
from dpone_core.use_cases.check import check
from tests.spec.builders import Finished, Project, code_of, flow, hooks, outcome_of, project_with_orders
from tests.spec.hooks.test_notifications import step_details

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "hook_provider"
HOOK = {"id": "custom", "type": "change_ticket", "options": {"ticket": "CHG-1234"}}
FOREIGN = """
import sys
from dpone_core.model.hook import HookOption, HookTraits, ScalarKind
from dpone_core.ports.hooks import HookResult

class Foreign:
    traits = HookTraits(type="foreign", results={"text": ScalarKind.TEXT, "count": ScalarKind.INTEGER})
    def execute(self, hook, context):
        %s
"""


def installed(directory: Path, name: str, entries: Mapping[str, str], module: str | None = None) -> Path:
    """A directory that holds one distribution with entry points, and its module if given."""
    metadata = directory / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {value}" for entry, value in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[dpone.hook_providers]", *lines, ""]))
    if module is not None:
        (directory / f"{name}.py").write_text(module)
    return directory


@pytest.fixture(name="project")
def shop_with_orders(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path / "project")


@pytest.fixture
def example(tmp_path: Path) -> str:
    """PYTHONPATH under which the documented example is installed."""
    entries = {"change_ticket": "dpone_change_ticket:ChangeTicketProvider"}
    return f"{installed(tmp_path / 'site', 'dpone_change_ticket_metadata', entries)}:{EXAMPLE}"


def dpone(project: Project, example: str, *arguments: str) -> Finished:
    return project.dpone(*arguments, environment={"PYTHONPATH": example})


def test_the_example_runs_and_its_answer_is_evidence(project: Project, example: str) -> None:
    project.written(flow(source__options=hooks(pre=[HOOK])))
    finished = dpone(project, example, "run", "m.yaml", "--format", "json")
    assert finished.exit_code == 0, finished.stdout
    status, details = step_details(project, "custom")[-1]
    assert (status, details["type"], details["ticket"]) == ("succeeded", "change_ticket", "CHG-1234")
    assert details["approvals"] == 1 and "sql_hash" not in details


def test_the_manifest_of_the_example_is_valid_with_its_package_and_refused_without(example: str) -> None:
    project = Project(Path(example.partition(":")[0]).parent / "checkout")
    project.written((EXAMPLE / "orders.yaml").read_text("utf-8"), "orders.yaml")
    assert dpone(project, example, "check", "orders.yaml").exit_code == 0
    refused = project.dpone("check", "orders.yaml", "--format", "json")
    (error,) = refused.document["errors"]
    assert (refused.exit_code, error["code"], error["line"]) == (2, "DPONE_HOOK_TYPE_UNKNOWN", 14)


def test_the_entry_point_of_the_example_is_the_one_its_project_file_states() -> None:
    project_file = (EXAMPLE / "pyproject.toml").read_text("utf-8")
    assert 'entry-points."dpone.hook_providers"]\nchange_ticket = "dpone_change_ticket:ChangeTicketProvider"' in (
        project_file
    )


@pytest.mark.parametrize(
    ("changes", "code", "path", "fix"),
    [
        ({"type": "change_tickt"}, "DPONE_HOOK_TYPE_UNKNOWN", "type", "did you mean 'change_ticket'?"),
        ({"type": "webhok"}, "DPONE_HOOK_TYPE_UNKNOWN", "type", "did you mean 'webhook'?"),
        ({"options": {}}, "DPONE_MANIFEST_MISSING_FIELD", "options.ticket", "add 'ticket'"),
        ({"options": {"tickt": "A"}}, "DPONE_HOOK_OPTION_INVALID", "options.tickt", "did you mean 'ticket'?"),
        ({"options": {"ticket": 5}}, "DPONE_HOOK_OPTION_INVALID", "options.ticket", "correct the value"),
        (
            {"options": {"ticket": "CHG-1", "approvals": True}},
            "DPONE_HOOK_OPTION_INVALID",
            "options.approvals",
            "correct the value",
        ),
        (
            {"options": {"ticket": "CHG-1", "approvals": 10}},
            "DPONE_HOOK_OPTION_INVALID",
            "options.approvals",
            "correct the value",
        ),
        ({"connection_ref": "shop"}, "DPONE_MANIFEST_CONFLICT", "connection_ref", "remove it"),
    ],
)
def test_what_the_provider_does_not_declare_is_refused_at_check(
    project: Project,
    example: str,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    code: str,
    path: str,
    fix: str,
) -> None:
    for directory in example.split(":"):
        monkeypatch.syspath_prepend(directory)
    manifest = project.written(flow(source__options=hooks(pre=[{**HOOK, **changes}])))
    (problem,) = check(manifest, project.root).errors
    assert (problem.code, problem.path) == (code, f"source.options.hooks.pre_hook[0].{path}")
    assert problem.fix == fix and problem.position is not None and problem.position.line > 10
    assert code_of(project.execute()) == code
    assert not (project.root / "evidence").exists()


def test_a_provider_that_raises_is_a_failed_hook_and_its_text_stays_inside(project: Project, example: str) -> None:
    project.written(flow(source__options=hooks(pre=[{**HOOK, "options": {"ticket": "CANARY words"}}])))
    finished = dpone(project, example, "run", "m.yaml", "--format", "json")
    assert (finished.exit_code, finished.code) == (1, "hook_failed")
    assert "hook_provider_failed" in finished.stdout
    written = "".join(path.read_text() for path in (project.root / "evidence").rglob("*") if path.is_file())
    assert "CANARY" not in finished.stdout + finished.stderr + written + str(step_details(project, "custom"))


@pytest.fixture
def foreign(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Installs a provider whose `execute` has this body, and runs a load with it in this process."""

    def run(body: str) -> object:
        site = installed(tmp_path / "site", "foreign_hooks", {"foreign": "foreign_hooks:Foreign"}, FOREIGN % body)
        monkeypatch.syspath_prepend(str(site))
        sys.modules.pop("foreign_hooks", None)
        project.written(flow(source__options=hooks(pre=[{"id": "custom", "type": "foreign"}])))
        return project.execute()

    return run


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('CANARY')",
        "raise BaseExceptionGroup('CANARY', [ValueError('CANARY')])",
        "sys.exit('CANARY')",
        "from dpone_core.errors import DponeError; raise DponeError('CANARY', code='success')",
        "return None",
        "return {'count': 1}",
        "1 / 0",
    ],
)
def test_whatever_a_provider_does_instead_is_one_code(project: Project, foreign, body: str) -> None:  # type: ignore[no-untyped-def]
    execution = foreign(body)
    assert code_of(execution) == "hook_failed"
    assert str(execution.error) == "hook_failed: pre_hook 'custom' failed (hook_provider_failed)"
    assert execution.error.__cause__ is not None
    status, details = step_details(project, "custom")[-1]
    assert (status, details["reason"]) == ("failed", "hook_provider_failed")
    assert [step.kind for step in outcome_of(execution).steps if step.kind == "source_scan"] == []


def test_an_interruption_inside_a_provider_is_no_failure_of_the_provider(foreign) -> None:  # type: ignore[no-untyped-def]
    execution = foreign("raise KeyboardInterrupt")
    assert outcome_of(execution).failure.exit_code == 130


def test_undeclared_and_unsafe_answers_are_lost_on_the_way_to_evidence(project: Project, foreign) -> None:  # type: ignore[no-untyped-def]
    execution = foreign("return HookResult(values={'text': 'DROP TABLE CANARY', 'count': 7, 'other': 'CANARY'})")
    assert outcome_of(execution).passed
    details = step_details(project, "custom")[-1][1]
    assert details["count"] == 7 and "text" not in details and "other" not in details


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        (ScalarKind.TEXT, "CHG-1.2_x+y", True),
        (ScalarKind.TEXT, "x" * 64, True),
        (ScalarKind.TEXT, "x" * 65, False),
        (ScalarKind.TEXT, "SELECT 1", False),
        (ScalarKind.TEXT, "https://x", False),
        (ScalarKind.TEXT, "user:word", False),
        (ScalarKind.TEXT, "/etc/passwd", False),
        (ScalarKind.TEXT, "a\nb", False),
        (ScalarKind.TEXT, "", False),
        (ScalarKind.TEXT, 5, False),
        (ScalarKind.INTEGER, 2**53, True),
        (ScalarKind.INTEGER, 2**53 + 1, False),
        (ScalarKind.INTEGER, -(2**53), True),
        (ScalarKind.INTEGER, True, False),
        (ScalarKind.INTEGER, 1.0, False),
        (ScalarKind.INTEGER, "1", False),
        (ScalarKind.BOOLEAN, False, True),
        (ScalarKind.BOOLEAN, 1, False),
        (ScalarKind.TEXT, None, False),
        (ScalarKind.TEXT, ["a"], False),
    ],
)
def test_only_bounded_scalars_of_the_declared_type_are_kept(kind: ScalarKind, value: object, kept: bool) -> None:
    traits = HookTraits(type="foreign", results={"x": kind})
    assert select_declared_results(HookResult(values={"x": value}), traits) == ({"x": value} if kept else {})  # type: ignore[dict-item]


def test_a_provider_cannot_declare_without_bound() -> None:
    names = [f"n{number}" for number in range(40)]
    traits = HookTraits(type="foreign", results=dict.fromkeys(names, ScalarKind.INTEGER))
    assert len(select_declared_results(HookResult(values=dict.fromkeys(names, 1)), traits)) == 16


@pytest.mark.parametrize(
    "module",
    [
        "raise RuntimeError('CANARY')",
        "raise SystemExit(0)",
        "Foreign = 5",
        "class Foreign:\n    def execute(self, hook, context): ...",
        "class Foreign:\n    traits = {'type': 'foreign'}\n    def execute(self, hook, context): ...",
        FOREIGN.replace('type="foreign"', 'type="sql"') % "return None",
        FOREIGN.replace("def execute", "def run") % "return None",
        "class Foreign:\n    def __init__(self, needed): ...",
    ],
)
def test_a_package_that_cannot_be_used_is_refused_before_anything_runs(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    site = installed(tmp_path / "site", "foreign_hooks", {"foreign": "foreign_hooks:Foreign"}, module)
    monkeypatch.syspath_prepend(str(site))
    sys.modules.pop("foreign_hooks", None)
    path = project.written(flow(source__options=hooks(pre=[{"id": "custom", "type": "foreign"}])))
    (problem,) = check(path, project.root).errors
    assert problem.code == "DPONE_HOOK_PROVIDER_INVALID" and "CANARY" not in str(problem)
    assert code_of(project.execute()) == "DPONE_HOOK_PROVIDER_INVALID"


def test_two_packages_of_one_type_are_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first_hooks", "second_hooks"):
        site = installed(tmp_path / name, name, {"foreign": f"{name}:Foreign"}, FOREIGN % "return HookResult()")
        monkeypatch.syspath_prepend(str(site))
    path = project.written(flow(source__options=hooks(pre=[{"id": "custom", "type": "foreign"}])))
    assert [problem.code for problem in check(path, project.root).errors] == ["DPONE_HOOK_PROVIDER_INVALID"]


def test_a_package_cannot_take_a_built_in_type_over(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = installed(tmp_path / "site", "foreign_hooks", {"marker": "foreign_hooks:Foreign"}, "raise RuntimeError")
    monkeypatch.syspath_prepend(str(site))
    project.written(flow(source__options=hooks(pre=[{"id": "custom", "type": "marker", "kind": "notification"}])))
    assert outcome_of(project.execute()).passed


def test_the_action_hash_tells_one_action_from_another() -> None:
    hook = HookDefinition(
        id="a", phase=HookPhase.PRE, kind=HookKind.CUSTOM, type="foreign", options={"x": 1}, connection_ref="c"
    )
    others = [replace(hook, options={"x": 2}), replace(hook, connection_ref="d"), replace(hook, type="other")]
    assert all(other.action_identity["action_hash"] != hook.action_identity["action_hash"] for other in others)
    assert replace(hook, id="b").action_identity == hook.action_identity
    assert json.dumps(hook.action_identity).count("sha256:") == 1
