"""Every stable code in the source has one catalogue entry, and every entry has a use (FAIL-31).

The source is read as a syntax tree: class attributes `code`, keywords and defaults named `code`, `ErrorCode(...)`,
names in the upper-case form, positional codes of a few functions, warnings, and families made by f-strings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dpone_core.connectors.mssql.driver import DriverMissingError
from dpone_core.error_catalogue import FILE, catalogue, parse_catalogue
from dpone_core.errors import ExitClass
from tests.connectors.unixodbc import require_unixodbc

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dpone_core", "dpone_airflow", "dag_factories")
NOT_READ = ("dpone_core/testing/", "dpone_airflow/local/")
UPPER_CASE = re.compile(r"DPONE_[A-Z0-9]+(?:_[A-Z0-9]+)*")
LOWER_CASE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")

ENVIRONMENT = {
    *("DPONE_AIRFLOW_MAPPING_ITEM", "DPONE_CONN_DIR", "DPONE_DAG_ID", "DPONE_DAG_RUN_ID", "DPONE_EVIDENCE_DIR"),
    *("DPONE_FIRST_TRY", "DPONE_INTERVAL_END", "DPONE_INTERVAL_START", "DPONE_LOGICAL_DATE", "DPONE_LOG_LEVEL"),
    "DPONE_MAP_INDEX",
    *("DPONE_MSSQL_DRIVER",),
    *("DPONE_PARTITION_DIMENSION", "DPONE_PARTITION_KEY", "DPONE_PARTITION_MODE", "DPONE_PROJECT_DIR"),
    *("DPONE_REPAIR_AUTHORITY_REF", "DPONE_RUN_SPEC_FINGERPRINT", "DPONE_STEP_ID", "DPONE_STEP_RECEIPTS"),
    *("DPONE_TERMINATION_LOG", "DPONE_TRY_NUMBER", "DPONE_BUNDLE_ROOT", "DPONE_TRANSFER_PLAN", "DPONE_UPSTREAM"),
}
"""Names of environment variables look like codes."""

SIDES = ("source", "staged", "target")
SELECTION = ("unknown_columns", "uncountable_columns", "nothing_selected")
FAMILIES = {
    "f'DPONE_AIRFLOW_PARTITION_{suffix}'": {
        f"DPONE_AIRFLOW_PARTITION_{what}_{how}"
        for what in ("MODE", "DIMENSION", "KEY")
        for how in ("MISSING", "INVALID")
    },
    "f'{name}_INVALID'": {"DPONE_TRY_NUMBER_INVALID", "DPONE_MAP_INDEX_INVALID"},
    "f'{dataset.side.value}_{code}'": {
        f"{side}_acceptance_metric_{what}" for side in SIDES for what in ("probe_failed", "snapshot_invalid")
    },
    "f'{side.value}_{faults[0]}'": {f"{side}_acceptance_metric_{what}" for side in SIDES for what in SELECTION},
    "f'{side}_acceptance_metric_evidence_failed'": {f"{side}_acceptance_metric_evidence_failed" for side in SIDES},
}
"""f-strings in the place of a code, by their text; a new one must be written out here."""

RENAMED_WHERE_RAISED = {"DPONE_MANIFEST_NOT_FOUND", "DPONE_MANIFEST_OUTSIDE_PROJECT"}
"""`manifest.resolve` turns DPONE_PROJECT_FILE_* into these by replacing text."""

CODE_IS_ARGUMENT = {"foreign_error": 2, "translated": 0, "HookFailedError": 1}
"""Functions that take a code by position."""

ACCEPTANCE_CONSTANTS = ("PROBE_FAILED", "SNAPSHOT_INVALID", "UNKNOWN_COLUMNS", "UNCOUNTABLE_COLUMNS")
WARNING_CONSTANTS = (*ACCEPTANCE_CONSTANTS, "NOTHING_SELECTED", "ROW_ID_UNAVAILABLE")
"""Constants whose value is a warning by itself."""


@dataclass(slots=True)
class Found:
    """Codes with their places, and expressions in the place of a code that nobody can read statically."""

    codes: dict[str, set[str]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def add(self, code: str, place: str) -> None:
        self.codes.setdefault(code, set()).add(place)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(NOT_READ):
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def constants_of(module: ast.Module) -> dict[str, str]:
    """Module-level text constants, `ErrorCode(...)` seen through."""
    found = {}
    for node in module.body:
        target, value = None, None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        if isinstance(value, ast.Call) and value.args and ast.unparse(value.func) == "ErrorCode":
            value = value.args[0]
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            found[target.id] = value.value
    return found


def code_expressions(module: ast.Module) -> Iterator[ast.expr]:
    """Everything that stands in the place of a code."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "code":
                    yield item.value
                if isinstance(item, ast.AnnAssign) and item.value is not None and ast.unparse(item.target) == "code":
                    yield item.value
        elif isinstance(node, ast.FunctionDef):
            arguments = node.args
            positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
            pairs = [*zip(positional, arguments.defaults, strict=True)]
            pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value]  # noqa: B905
            yield from (value for name, value in pairs if name.arg == "code")
        elif isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
            called = ast.unparse(node.func)
            position = CODE_IS_ARGUMENT.get(called)
            if position is not None and len(node.args) > position:
                yield node.args[position]
            if called == "ErrorCode" or called.endswith("warnings.append"):
                yield node.args[0]


def scan() -> Found:
    found = Found()
    parsed = list(modules())
    constants: dict[str, str] = {}
    for _, module in parsed:
        constants |= constants_of(module)
    for name, module in parsed:
        own = {**constants, **constants_of(module)}
        for expression in code_expressions(module):
            _read(expression, own, f"{name}:{expression.lineno}", found)
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and UPPER_CASE.fullmatch(node.value):
                if node.value not in ENVIRONMENT:
                    found.add(node.value, f"{name}:{node.lineno}")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id in WARNING_CONSTANTS and target.id in own:
                    found.add(own[target.id], f"{name}:{node.lineno}")
                if isinstance(target, ast.Name) and target.id == "_UNAVAILABLE" and isinstance(node.value, ast.Dict):
                    for value in node.value.values:
                        _read(value, own, f"{name}:{node.lineno}", found)
    for code in RENAMED_WHERE_RAISED:
        found.add(code, "dpone_core/manifest/resolve.py")
    return found


def _read(expression: ast.expr, constants: dict[str, str], place: str, found: Found) -> None:
    if isinstance(expression, ast.IfExp):
        _read(expression.body, constants, place, found)
        _read(expression.orelse, constants, place, found)
    elif isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        found.add(expression.value, place)
    elif isinstance(expression, ast.Name) and expression.id in constants:
        if UPPER_CASE.fullmatch(constants[expression.id]) or LOWER_CASE.fullmatch(constants[expression.id]):
            found.add(constants[expression.id], place)
    elif isinstance(expression, ast.JoinedStr):
        text = ast.unparse(expression)
        if text in FAMILIES:
            for code in FAMILIES[text]:
                found.add(code, place)
        elif "warnings" not in text and "leftovers" not in text:
            found.unknown.add(f"{place}: {text}")


@pytest.fixture(scope="module")
def found() -> Found:
    return scan()


@pytest.fixture(scope="module")
def codes(found: Found) -> set[str]:
    return {code for code in found.codes if UPPER_CASE.fullmatch(code) or LOWER_CASE.fullmatch(code)}


ENTRIES = {str(entry.code): entry for entry in catalogue().entries}


def test_every_code_in_the_source_has_an_entry(found: Found, codes: set[str]) -> None:
    missing = {code: sorted(found.codes[code]) for code in sorted(codes - set(ENTRIES))}
    assert missing == {}


def test_every_entry_is_a_code_in_the_source(codes: set[str]) -> None:
    assert sorted(set(ENTRIES) - codes) == []


def test_every_family_of_codes_is_written_out(found: Found) -> None:
    assert found.unknown == set()


def document() -> dict[str, Any]:
    """A catalogue of one entry, as small as it can be."""
    entry = {"code": "DPONE_USAGE", "area": "command", "exits": [2], "meaning": "It is wrong.", "action": "Mend it."}
    return {"kind": "dpone.error_catalogue.v1", "areas": {"command": "command line"}, "entries": [entry]}


def test_every_area_of_the_shipped_file_has_an_entry() -> None:
    assert [area for area, entries in catalogue().by_area() if not entries] == []


def test_the_shipped_file_has_one_field_on_a_line() -> None:
    text = FILE.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    assert lines.count("{") == len(ENTRIES) + 1
    assert sum(line.startswith('"code": ') for line in lines) == len(ENTRIES)
    assert text.endswith("}\n")


def test_a_small_catalogue_is_read() -> None:
    (entry,) = parse_catalogue(document()).entries
    assert (entry.code, entry.area, entry.exits) == ("DPONE_USAGE", "command line", (ExitClass.REFUSED,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"severity": "high"}, "exactly the fields"),
        ({"action": ...}, "exactly the fields"),
        ({"area": "kitchen"}, "area is none of"),
        ({"exits": [3]}, "exits must be a list"),
        ({"exits": [True]}, "exits must be a list"),
        ({"exits": 2}, "exits must be a list"),
        ({"exits": [2, 2]}, "listed twice"),
        ({"meaning": " "}, "not empty"),
        ({"code": 7}, "must be a text"),
    ],
    ids=str,
)
def test_an_entry_that_is_not_of_the_closed_shape_is_refused(change: dict[str, object], message: str) -> None:
    broken = document()
    changed = {**broken["entries"][0], **change}
    broken["entries"] = [{name: value for name, value in changed.items() if value is not ...}]
    with pytest.raises(ValueError, match=message):
        parse_catalogue(broken)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"kind": "dpone.flow.v1"}, "kind must be"), ({"notes": []}, "exactly the fields"), ({"entries": {}}, "a list")],
    ids=str,
)
def test_a_file_that_is_not_of_the_closed_shape_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_catalogue({**document(), **change})


def test_a_code_with_two_entries_is_refused() -> None:
    broken = document()
    broken["entries"] *= 2
    with pytest.raises(ValueError, match="two entries: DPONE_USAGE"):
        parse_catalogue(broken)


@pytest.mark.parametrize("code", sorted(ENTRIES))
def test_an_entry_says_what_it_means_and_what_to_do_in_one_sentence_each(code: str) -> None:
    entry = ENTRIES[code]
    for sentence in (entry.meaning, entry.action):
        assert sentence.endswith(".")
        assert sentence[0].isupper() or sentence[0] == "`"
        assert ". " not in sentence


def states_code(node: ast.stmt) -> bool:
    """Whether this is a class whose body assigns `code`."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    targets = [target for item in body if isinstance(item, ast.Assign) for target in item.targets]
    targets += [item.target for item in body if isinstance(item, ast.AnnAssign)]
    return any(ast.unparse(target) == "code" for target in targets)


def test_a_refusal_by_its_class_is_a_refusal_in_the_catalogue() -> None:
    """UNVERIFIED where a class with a code of its own is in a module that unixODBC is missing for."""
    from dpone_core.errors import ConnectorError, DponeError, ETLConfigurationError, ETLExecutionError

    known: list[type[DponeError]] = [DponeError, ETLConfigurationError, ETLExecutionError, ConnectorError]
    pending = list(known)
    unread: list[ast.stmt] = []
    for name, module in modules():
        if any(isinstance(node, ast.ClassDef) and "Error" in ast.unparse(node) for node in module.body):
            dotted = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if dotted.startswith("dpone_core."):
                try:
                    __import__(dotted)
                except DriverMissingError:
                    unread += filter(states_code, module.body)
    while pending:
        for child in pending.pop().__subclasses__():
            if child.__module__.startswith("dpone_core") and child not in known:
                known.append(child)
                pending.append(child)
    stated = {kind.code: kind.exit_class for kind in known if "code" in vars(kind)}
    wrong = {
        code: exit_class
        for code, exit_class in stated.items()
        if code in ENTRIES and exit_class not in ENTRIES[code].exits
    }
    assert wrong == {}
    assert ExitClass.REFUSED in set(stated.values())
    if unread:
        require_unixodbc()
