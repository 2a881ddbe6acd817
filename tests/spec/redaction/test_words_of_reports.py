"""What every report states is never hidden, whatever the login and the password of a run are.

Hiding the word `orders` where the process is called so garbles the report and tells everybody the password.
Contract: EVID-21, EVID-22.
"""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import dpone_core
from dpone_core.evidence.audit import AuditTrail, LoadStatus, LoadStep, StepOutcome
from dpone_core.evidence.public_words import public_words, texts_in
from dpone_core.evidence.redacted_files import RedactedEvidenceFiles, render_json
from dpone_core.evidence.redaction import TOKEN, Redactor, secrets_in_uri
from dpone_core.invocation import RunArguments, resolve_invocation
from dpone_core.manifest.resolve import load_manifest
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import FixedClock, MemoryControlTables, MemoryWarehouse
from dpone_core.use_cases.call import Call, RunProcessPorts
from dpone_core.use_cases.run import RunExecution, RunOptions, prepare_run
from tests.spec.builders import Project, flow, hook, hooks, project_with_orders

WORDS = ("dpone", "orders", "postgres", "raw", "1")
SECRET = "c4n4ry-p4ssw0rd"


@pytest.mark.parametrize("uri", ["postgresql://{}@host/db", "postgresql://{}:@host/db", "clickhouse://{}@host"])
@pytest.mark.parametrize("login", [*WORDS, "a-login-of-a-person"])
def test_a_login_is_no_secret(uri: str, login: str) -> None:
    assert secrets_in_uri(uri.format(login)) == ()


def executed(project: Project, secret: str) -> tuple[dict[str, Any], dict[str, bytes], RunExecution]:
    """run.json and all evidence of a load with a gate, hooks and acceptance, by a process that knows `secret`."""
    ports = RunProcessPorts()
    ports.redactor.learn(secrets_in_uri(f"postgresql://{secret}:{secret}@host/db"))
    options = RunOptions(arguments=RunArguments(run_id="orders-1"))
    call = Call.of(options.arguments, project.environment, project.root, ports)
    manifest = load_manifest(project.root / "m.yaml", project_root=project.root)
    (process,) = prepare_run(call, manifest, options).process_runs()
    outcome = process.run()
    assert outcome.report.passed and outcome.evidence is not None
    root = project.root / "evidence"
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    execution = RunExecution(report=outcome.report, outcomes=(outcome,), invocation=call.invocation, refusal=None)
    return json.loads(files[outcome.evidence.path]), files, execution


@pytest.fixture(name="project")
def orders_with_everything(tmp_path: Path) -> Project:
    quality = {"gates": [{"type": "row_count_reconciliation"}], "acceptance": {"enabled": True}}
    both = hooks(pre=[hook("open", "INSERT INTO log VALUES (1)")], post=[hook("close", "INSERT INTO log VALUES (2)")])
    project = project_with_orders(tmp_path, flow(quality=quality, source__options=both))
    project.source("CREATE TABLE log (what TEXT)")
    return project


@pytest.mark.parametrize("word", WORDS)
def test_a_login_or_password_that_is_a_word_of_the_report_hides_nothing_of_it(project: Project, word: str) -> None:
    run, files, _ = executed(project, word)
    assert all(TOKEN.encode() not in content for content in files.values())
    assert run["kind"] == "dpone.run_evidence.v1" and run["report"]["process"] == "orders"
    assert run["plan"]["targets"][0]["table"] == "raw.orders"
    assert all("/orders/orders-1-" in path for path in files)


def test_every_text_of_a_report_survives_a_password_that_is_part_of_it(project: Project) -> None:
    """Kinds, enumerations, types, names, ids and paths: all texts of run.json but its hashes and moments."""
    run, files, execution = executed(project, "unheard-of")
    redactor = Redactor()
    redactor.keep(execution.invocation.names if execution.invocation else ())
    redactor.keep(texts_in(run["plan"]))
    redactor.keep(texts_in(run["report"]["result"]["details"]["runtime_decisions"]))
    texts = {text for text in texts_in(run) if not re.match(r"sha256:|\d{4}-|[0-9A-Z]{26}$", text)}
    words = {word for text in texts | set(files) for word in re.findall(r"[A-Za-z_]{4,}", text)}
    redactor.learn(words)
    hidden = {text: redactor.text(text) for text in texts if redactor.text(text) != text}
    assert hidden == {}, "add them to dpone_core/evidence/public_words.py"


def enumerations() -> Iterator[str]:
    for module in pkgutil.walk_packages(dpone_core.__path__, "dpone_core."):
        if module.name.split(".")[1] in ("model", "authoring", "contracts", "native_transfer", "quality", "evidence"):
            for member in vars(importlib.import_module(module.name)).values():
                if isinstance(member, type) and issubclass(member, StrEnum) and member is not StrEnum:
                    yield from (each.value for each in member)


def test_the_words_hold_every_kind_and_every_enumeration_that_evidence_states() -> None:
    clear = "\n".join(public_words())
    source = "".join(path.read_text() for path in Path(*dpone_core.__path__).rglob("*.py"))
    kinds = set(re.findall(r"\"(dpone(?:\.[a-z_]+)+\.v\d+)\"", source))
    assert len(kinds) > 30 and sorted(kind for kind in kinds if kind not in clear) == []
    words = {word for word in enumerations() if len(word) >= 4 and word.isidentifier()}
    assert sorted(word for word in words if word not in clear) == []


@pytest.mark.parametrize("word", ["dpone", "orders", "postgres"])
def test_such_a_password_is_still_removed_where_it_stands_as_a_credential(word: str) -> None:
    redactor = Redactor(secrets_in_uri(f"postgresql://etl:{word}@host/db"))
    redactor.keep(["orders"])
    encoded = base64.b64encode(f"etl:{word}".encode()).decode()
    for text in (f"clickhouse://etl:{word}@host/db", f"password={word}", f"etl:{word}", f"Basic {encoded}"):
        assert word not in redactor.text(text) and encoded not in redactor.text(text), text
    assert redactor.text(f"table {word} of orders") == f"table {word} of orders"


def test_a_short_password_is_removed_as_a_word_and_not_out_of_hashes_and_times() -> None:
    redactor = Redactor(["1234", "beef"])
    for text in ("sha256:" + "1234beef" * 8, "2026-11-29T10:00:00.512345Z", "run-a1234b"):
        assert redactor.text(text) == text
    assert redactor.text("given 1234, beef") == f"given {TOKEN}, {TOKEN}"


def test_a_secret_that_is_learnt_before_or_after_a_name_is_treated_alike() -> None:
    first, last = Redactor(["warehouse"]), Redactor()
    first.keep(["warehouse_eu"])
    last.keep(["warehouse_eu"])
    last.learn(["warehouse"])
    assert first.text("warehouse_eu") == last.text("warehouse_eu") == "warehouse_eu"


def test_everything_that_is_written_as_evidence_is_redacted_at_one_place(tmp_path: Path) -> None:
    files = RedactedEvidenceFiles(files=LocalEvidenceFiles(root=tmp_path), redactor=Redactor([SECRET]))
    files.publish("load.json", render_json({"quality": {"message": f"given {SECRET}"}, "rows": 3}))
    files.publish_together({"a.md": f"given {SECRET}".encode(), "b.json": b'{"untouched":  1}'})
    assert json.loads(files.read("load.json", 1 << 10) or b"") == {"quality": {"message": f"given {TOKEN}"}, "rows": 3}
    assert files.read("a.md", 1 << 10) == f"given {TOKEN}".encode()
    assert files.read("b.json", 1 << 10) == b'{"untouched":  1}'


def test_audit_rows_are_redacted() -> None:
    warehouse = MemoryWarehouse()
    audit = AuditTrail(control=MemoryControlTables(warehouse), schema="ops", redactor=Redactor([SECRET]))
    audit.open()
    at = FixedClock().utc_now()
    audit.record_load(load_identity(), LoadStatus.FAILED, {"error_message": f"given {SECRET}"}, at)
    details = {"reason": f"given {SECRET}", "rows": 3}
    step = LoadStep(
        step_id="staged", phase="p", kind="k", status=StepOutcome.FAILED, started_at=at, finished_at=at, details=details
    )
    audit.record_step(load_identity(), step)
    written = str(warehouse.control_rows)
    assert SECRET not in written and f"given {TOKEN}" in written


def test_the_names_of_a_run_are_its_ids() -> None:
    env = {"DPONE_DAG_ID": "orders", "DPONE_DAG_RUN_ID": "token=manual-1", "DPONE_STEP_ID": "dpone_run_orders"}
    invocation = resolve_invocation(RunArguments(), env, "fresh")
    redactor = Redactor()
    redactor.keep(invocation.names)
    assert [redactor.text(name) for name in invocation.names] == list(invocation.names)


@pytest.mark.parametrize("secret", [SECRET, "p&\"s'\\%41 é/x"])
def test_a_redacted_document_stays_as_it_is_when_it_is_redacted_again(secret: str) -> None:
    """The digest of run.json is taken before its bytes pass the edge."""
    redactor = Redactor(secrets_in_uri(f"postgresql://etl:{SECRET}@host/db"))
    shapes = (
        *(
            "password={}",
            "password: {}",
            "postgres://u:{}@h/d",
            "pwd={{{}}};x",
            "--token {}",
            "<password>{}</password>",
        ),
        *(
            "--token {}",
            "authorization: Bearer {}",
            "Basic {}",
            "api_key: '{}'",
            "secret={} w;encrypt=1",
            "eyJhbGciOiJI.{}",
        ),
    )
    for shape in shapes:
        once = redactor.text(shape.format(secret))
        assert redactor.text(once) == once
