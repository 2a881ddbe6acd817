"""What PostgreSQL refuses is said with its class and a way out, and never with the driver's text."""

from __future__ import annotations

import psycopg
import pytest

from dpone_core.connectors.postgres.address import libpq_uri
from dpone_core.connectors.postgres.errors import SINK, SOURCE, server_error
from dpone_core.errors import ConnectorError
from tests.connectors.sessions import connection

CANARY = "canary 4711"


def said(error: psycopg.Error, code: str = SOURCE.refused, unreachable: str = SOURCE.unreachable) -> ConnectorError:
    found = server_error(error, "PostgreSQL refused it", code=code, unreachable=unreachable)
    assert isinstance(found, ConnectorError) and CANARY not in str(found) + str(found.fix)
    return found


def test_every_class_keeps_its_meaning() -> None:
    """No SQLSTATE that psycopg knows is refused without a reason."""
    states = {
        state
        for each in vars(psycopg.errors).values()
        if isinstance(each, type) and isinstance(state := getattr(each, "sqlstate", None), str)
    }
    assert len(states) > 200
    for state in sorted(states):
        error = said(psycopg.errors.lookup(state)(CANARY))
        assert str(error) != f"{error.code}: PostgreSQL refused it", state


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("54011", "1,600"),
        ("54001", "limit"),
        ("55006", "SQLSTATE 55006"),
        ("P0001", "an error of its own (SQLSTATE P0001)"),
        ("40001", "recovery"),
    ],
)
def test_a_state_names_its_reason(state: str, words: str) -> None:
    assert words in str(said(psycopg.errors.lookup(state)(CANARY)))


def test_a_sink_that_takes_no_writes_is_told_where_to_load() -> None:
    error = said(psycopg.errors.ReadOnlySqlTransaction(CANARY), SINK.refused, SINK.unreachable)
    assert "primary" in str(error.fix)
    assert "only read" in str(said(psycopg.errors.ReadOnlySqlTransaction(CANARY)).fix)


@pytest.mark.parametrize("kind", ["table", "view", "schema", "function", "foreign table"])
def test_a_missing_privilege_names_the_object(kind: str) -> None:
    error = said(psycopg.errors.InsufficientPrivilege(f"permission denied for {kind} orders\nHINT: {CANARY}"))
    assert f"privilege on {kind} 'orders'" in str(error)


@pytest.mark.parametrize("bare", ["p@ss", "p/ss", "a@b/c"])
def test_a_bare_character_of_a_password_is_named(bare: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        libpq_uri(connection(f"postgresql://me:{bare}@host/db"))
    assert raised.value.code == "connection_uri_invalid" and "%40" in str(raised.value.fix)
    assert bare not in str(raised.value)
    libpq_uri(connection("postgresql://me:p%40ss%2F@host/db?application_name=a@b"))
