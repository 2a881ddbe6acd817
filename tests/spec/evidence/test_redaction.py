"""A planted secret leaves in no byte: not in output, logs, evidence, audit rows or receipts, whatever fails.

Contract: EVID-04, EVID-05, EVID-10, EVID-18.
"""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from dpone_core.evidence.redaction import TOKEN, Redactor, secrets_in_uri, spellings
from tests.spec.builders import Project, flow, hook, hooks, project_with_orders

CANARY = "c4n4ry"
AWKWARD = [
    f"{CANARY}-plain-password",
    f"{CANARY}p&\"s'\\%41 é",
    f"{CANARY}/with/slashes@and:colons",
    f"{CANARY}{{braces}};Encrypt=no",
    f"{CANARY}+plus ?query=1#fragment",
    f"{CANARY}日本語\u00a0",
]


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize("how", ["quoted", "raw"])
def test_every_spelling_of_a_secret_in_a_connection_is_removed(secret: str, how: str) -> None:
    written = quote(secret, safe="") if how == "quoted" else secret
    uri = f"clickhouse://loader:{written}@db.example:8123/raw"
    redactor = Redactor(secrets_in_uri(uri))
    told = [
        uri,
        secret,
        written,
        quote(secret),
        quote_plus(secret),
        json.dumps({"error": f"cannot connect with {secret}"}),
        json.dumps(secret, ensure_ascii=False),
        repr(f"auth failed: {secret}"),
        base64.b64encode(f"loader:{secret}".encode()).decode(),
        json.dumps(secret)[1:-1].replace("&", "\\u0026"),
        "PWD={" + secret.replace("}", "}}") + "};",
    ]
    for text in told:
        redacted = redactor.text(f"before {text} after")
        assert CANARY not in redacted, redacted
        assert redacted.startswith("before ") and redacted.endswith(" after")


SHAPES = [
    f"password={CANARY}",
    f"PASSWORD : '{CANARY} with spaces'",
    f"pwd={CANARY} w;encrypt=1",
    f"pass={CANARY}",
    f'"client_secret": "{CANARY}"',
    f"Authorization: Bearer {CANARY}aaaaaaaa",
    f"--password {CANARY}",
    f"--token={CANARY}",
    f"postgres://user:{CANARY}/w@host/db",
    f"https://host/x?api_key={CANARY}&b=1",
    f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
    f"eyJhbGciOiJIUzI1NiJ9.{CANARY}aaaaaaaaaaa.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("text", SHAPES)
def test_what_looks_like_a_credential_is_removed_by_shape(text: str) -> None:
    assert CANARY not in Redactor().text(f"x {text} y")


HARMLESS = [
    "manifest m.yaml: process orders, 336,776 rows in 11.2 s",
    "see https://docs.example/errors#passwords for help",
    "the primary key is (id); the sort key is (day, id)",
    "/home/u/x.yaml not found and 3 more words",
    "token bucket, key columns: a, b; secretary, passenger, compass",
    "sha256:" + "0" * 64,
    "2026-11-29T16:00:00Z INFO dpone run phase=stage rows=10 bytes=20",
    "connection 'dwh' is not set",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert Redactor(["another-secret-value"]).text(text) == text


def test_values_are_redacted_in_every_depth_and_numbers_stay() -> None:
    redactor = Redactor([CANARY])
    assert redactor.value({"a": [CANARY, {"b": (CANARY, 1, None, True, 1.5)}]}) == {
        "a": [TOKEN, {"b": [TOKEN, 1, None, True, 1.5]}]
    }


def test_a_secret_too_short_to_be_one_does_not_eat_the_text() -> None:
    assert Redactor(["a"]).text("a banana") == "a banana"
    assert "" not in spellings("")


HOSTILE_TEXTS = {
    "no match at all": "a",
    "names without values": "password",
    "colons and slashes": "://a:",
    "open braces": "pwd={",
    "dots": "eyJ" + "a.",
    "begin without end": "-----BEGIN PRIVATE KEY-----",
    "spaces": "token =    ",
    "dashes": "--password ",
    "names and colons": "token:",
}
HARMLESS_LOG = "2026-01-01 10:00:00 INFO dpone orders phase=stage rows=65536 bytes=1048576 of raw.orders into dwh\n"


def seconds(redactor: Redactor, unit: str, size: int) -> float:
    """CPU time of this process: what else the machine does is not of interest."""
    text = unit * (size // len(unit))
    began = time.process_time()
    redactor.text(text)
    return time.process_time() - began


@pytest.mark.parametrize("unit", HOSTILE_TEXTS.values(), ids=list(HOSTILE_TEXTS))
def test_redaction_takes_time_in_proportion_to_the_text(unit: str) -> None:
    """Eight times the text may take forty times as long, not sixty-four: quadratic growth fails, a busy machine not."""
    redactor = Redactor(AWKWARD)
    small = max(min(seconds(redactor, unit, 1 << 13) for _ in range(3)), 0.005)
    assert seconds(redactor, unit, 1 << 16) < 40 * small


@pytest.mark.parametrize("unit", HOSTILE_TEXTS.values(), ids=list(HOSTILE_TEXTS))
def test_text_made_to_be_expensive_costs_a_small_multiple_of_a_log(unit: str) -> None:
    redactor = Redactor(AWKWARD)
    log = min(seconds(redactor, HARMLESS_LOG, 1 << 16) for _ in range(3))
    assert min(seconds(redactor, unit, 1 << 16) for _ in range(3)) < 4 * log


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE_TEXTS.values(), ids=list(HOSTILE_TEXTS))
def test_a_mebibyte_of_hostile_text_is_redacted_at_the_same_rate(unit: str) -> None:
    redactor = Redactor(AWKWARD)
    small = max(min(seconds(redactor, unit, 1 << 16) for _ in range(3)), 0.01)
    assert seconds(redactor, unit, 1 << 20) < 60 * small


@pytest.fixture(name="project")
def orders_into_clickhouse(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, flow(sink__type="clickhouse", sink__connection_ref="house"))


def everything_emitted(project: Project, *texts: str) -> bytes:
    files = [path.read_bytes() for path in project.root.rglob("*") if path.is_file() and path.suffix != ".sqlite"]
    return b"\n".join([*files, *(text.encode() for text in texts)])


def planted(project: Project, number: int) -> dict[str, str]:
    """An unreachable server whose password is the awkward secret, as JSON or as URI."""
    secret = AWKWARD[number]
    as_json = {"conn_type": "clickhouse", "host": "127.0.0.1", "port": 1, "login": "loader", "password": secret}
    as_uri = f"clickhouse://loader:{quote(secret, safe='')}@127.0.0.1:1/raw"
    return {"DPONE_CONN_HOUSE": json.dumps(as_json) if number % 2 else as_uri}


@pytest.mark.parametrize("number", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, len(AWKWARD)))])
def test_an_unreachable_server_emits_nothing_of_its_password(project: Project, number: int) -> None:
    message = project.root / "termination-log"
    message.touch()
    environment = {**planted(project, number), "DPONE_TERMINATION_LOG": str(message), "DPONE_LOG_LEVEL": "DEBUG"}
    finished = project.run(environment=environment)
    assert finished.exit_code == 1 and finished.code == "sink_unreachable"
    assert CANARY.encode() not in everything_emitted(project, finished.stdout, finished.stderr)


FAILURES = {
    "success": flow(),
    "failed pre-hook": flow(source__options=hooks(pre=[hook("h", f"INSERT INTO absent VALUES ('{CANARY}')")])),
    "failed query": flow(source__table=None, source__options={"query": {"sql": f"SELECT {CANARY} FROM orders"}}),
    "failed gate": flow(quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 9}]}),
}


@pytest.mark.parametrize("case", FAILURES)
def test_no_failure_class_emits_a_secret_or_sql_text(tmp_path: Path, case: str) -> None:
    """The secret stands in the SQL, in an unused connection and in the parameters of a used one."""
    project = Project(tmp_path / "p")
    project.orders()
    project.root.joinpath("elsewhere").mkdir()
    project.written(FAILURES[case])
    manifest = project.root / "m.yaml"
    finished = project.run(environment={"DPONE_CONN_UNUSED": f"postgres://u:{CANARY}@h/db", "DPONE_LOG_LEVEL": "DEBUG"})
    assert finished.exit_code == (0 if case == "success" else 1)
    authored = manifest.read_bytes()
    manifest.unlink()
    assert CANARY.encode() not in everything_emitted(project, finished.stdout, finished.stderr)
    manifest.write_bytes(authored)


@pytest.mark.parametrize(
    "uri", [f"clickhouse://u:{CANARY}@[bad:1/raw", f"mystery://u:{CANARY}@h/x", f"clickhouse://u:{CANARY}@h:port/x"]
)
def test_a_connection_that_cannot_be_used_is_not_echoed(project: Project, uri: str) -> None:
    finished = project.run(environment={"DPONE_CONN_HOUSE": uri})
    assert finished.exit_code in (1, 2)
    assert CANARY.encode() not in everything_emitted(project, finished.stdout, finished.stderr)


def test_a_secret_in_the_manifest_is_refused_without_being_shown(project: Project) -> None:
    project.written(flow(connections={"dwh": {"uri": f"duckdb://u:{CANARY}@h/x"}}))
    finished = project.run()
    assert finished.exit_code == 2 and CANARY not in finished.stdout + finished.stderr
