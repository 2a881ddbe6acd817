"""No exit shows a secret: neither one that was resolved, however it is spelled, nor one that merely looks like one.

And what is harmless stays readable. Contract: EVID-04, EVID-19.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from dpone_core.evidence.redaction import TOKEN, Redactor, secrets_in_uri, spellings
from dpone_core.model.secret_shapes import secret_shapes

SECRET = "p&\"s'\\%41 é/x"
PLANTED = "hunter2-canary"

SHAPES = (
    "scheme://user:{s}@host/db",
    "postgresql://etl:{s}@10.0.0.1:5432/dwh?sslmode=require",
    "clickhouse://default:{s}@ch.internal:8443/raw",
    "mssql://sa:{s}@server\\instance/db",
    "scheme://user:p/{s}@host",
    "scheme://:{s}@host",
    "connecting to http://admin:{s}@localhost failed",
    "password={s}",
    "PASSWORD={s}",
    "Password = {s}",
    "passwd={s}",
    "pwd={s}",
    "PWD={s};Encrypt=yes",
    "pass={s}",
    "passphrase={s}",
    "password='{s}'",
    'password="{s}"',
    "PWD={{{s}}};Server=x",
    "password={s} w;encrypt=1",
    "user=sa&password={s}&db=x",
    "db_password={s}",
    "DB_PASSWORD={s}",
    "dbPassword={s}",
    "password: {s}",
    "password: '{s}'",
    '"password": "{s}"',
    '{{"password": "{s}", "user": "x"}}',
    "{{'password': '{s}'}}",
    "password => {s}",
    "password := {s}",
    "secret={s}",
    "client_secret={s}",
    "client-secret={s}",
    "clientSecret={s}",
    "secret_key={s}",
    "aws_secret_access_key={s}",
    "token={s}",
    "access_token={s}",
    "refresh_token={s}",
    "id_token={s}",
    "auth_token={s}",
    "X-Auth-Token: {s}",
    "api_key={s}",
    "api-key={s}",
    "apikey={s}",
    "access_key={s}",
    "private_key={s}",
    "account_key={s}",
    "AccountKey={s};EndpointSuffix=x",
    "SharedAccessKey={s};EntityPath=y",
    "credential={s}",
    "credentials={s}",
    "authorization={s}",
    "connection_string={s}",
    "sas={s}",
    "https://blob/x?sv=1&sig={s}&se=2",
    "Authorization: Bearer {s}",
    "authorization: basic {s}",
    "--password {s}",
    "--password={s}",
    "--token {s}",
    "--api-key {s}",
    "<password>{s}</password>",
    "ODBC error: [28000] Login failed PWD={s};",
)
FORMATS = (
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0abcdefghijklmnop",
    "glpat-abcdefghij0123456789",
    "xoxb-123456789012-abcdefghijkl",
    "sk_live_abcdefghij0123456789",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA",
)
HARMLESS = (
    "connections.dwh.password: unknown field 'password'",
    "flights.yaml:12:5: DPONE_MANIFEST_UNKNOWN_FIELD connections.dwh.password: unknown field 'password'",
    "the token is missing",
    "a secret in the platform file",
    "secret: name of the Secret in the namespace",
    "connection 'erp' has no secret in the platform file",
    "/home/u/project/flights.yaml not found",
    "extracted 336,776, staged 336,776, inserted 336,776",
    "sha256:2368fa0a5f4c8e3688ac2e38daac554db878abb5a6502785296db137f9b34c47",
    "01KB6Q4X7D8M1T9N3VZ5C2R0AE",
    "scheduled__2026-11-29T00:00:00+00:00",
    "passed: true",
    "gates     2 passed, 0 failed, 0 warned",
    "bypass=1",
    "compass=north",
    "tokenizer: fast",
    "unique_key: [order_id]",
    "primary_key=order_id",
    "key: value",
    "patience=3",
    "keypair is rotated",
    "sqlite:///.dpone/nyc.sqlite",
    "http://127.0.0.1:8123/ping",
    "chdb:///.dpone/warehouse",
    "2026-11-29T15:57:40Z INFO dpone run phase=extract",
    "DPONE_CONN_ERP is not set",
    "wait for it, or for its expiry",
    "rows: 10, bytes: 20",
    "basic checks passed",
)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_looks_like_a_credential_is_removed(shape: str) -> None:
    redacted = Redactor().text(shape.format(s=PLANTED))
    assert PLANTED not in redacted
    assert TOKEN in redacted


@pytest.mark.parametrize("text", FORMATS)
def test_a_known_format_of_key_is_removed_wherever_it_stands(text: str) -> None:
    assert Redactor().text(f"before {text} after").replace(TOKEN, "") in ("before  after", "before ")


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("form", sorted(spellings(SECRET)))
def test_a_resolved_secret_is_removed_in_every_spelling(form: str) -> None:
    assert form not in Redactor((SECRET,)).text(f"driver says ({form}) no")


@pytest.mark.parametrize("encoded", ["p%26%22s%27%5C%2541%20%C3%A9%2Fx", "plain-password-1"])
def test_the_password_of_a_uri_is_known_as_written_and_decoded(encoded: str) -> None:
    found = secrets_in_uri(f"postgresql://etl:{encoded}@host/db")
    assert encoded in found
    redactor = Redactor(found)
    for secret in found:
        assert secret not in redactor.text(f"x {secret} y")


def test_keys_of_a_document_stay_and_its_texts_are_redacted() -> None:
    document = {"password": f"password={PLANTED}", "nested": [{"x": f"scheme://u:{PLANTED}@h"}], "rows": 3}
    redacted = Redactor().value(document)
    assert PLANTED not in str(redacted)
    assert isinstance(redacted, dict)
    assert (list(redacted), redacted["rows"]) == (["password", "nested", "rows"], 3)


def test_no_pattern_can_run_over_an_unbounded_text() -> None:
    """Every repetition has an upper bound, so the time of one match is bounded and the whole is linear."""
    for pattern in secret_shapes():
        parsed = re._parser.parse(pattern.pattern, pattern.flags)  # type: ignore[attr-defined]
        assert unbounded_repetitions(parsed) == [], pattern.pattern


def unbounded_repetitions(parsed: Any) -> list[str]:
    """Repetitions without an upper bound anywhere in a parsed pattern."""
    found = []
    for operation, argument in parsed:
        if str(operation) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and str(argument[1]) == "MAXREPEAT":
            found.append(str(argument))
        pending = list(argument) if isinstance(argument, (tuple, list)) else [argument]
        while pending:
            part = pending.pop()
            if isinstance(part, list):
                pending += part
            elif hasattr(part, "data"):
                found += unbounded_repetitions(part)
    return found


def test_the_check_itself_sees_an_unbounded_repetition() -> None:
    assert unbounded_repetitions(re._parser.parse("x(?:a|b+)y")) != []  # type: ignore[attr-defined]
