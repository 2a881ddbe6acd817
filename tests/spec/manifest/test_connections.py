"""A connection_ref resolves in one order, and no message ever shows a URI (MAN-16, EVID-14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.errors import ExitClass
from dpone_core.manifest.connections import ConnectionUnresolvedError, resolve_connection
from dpone_core.model.connection import Connection
from tests.spec.manifest.manifests import flow, problems_of

CANARY = "c4n4ry-s3cret"


def resolved(root: Path, environment: dict[str, str], **manifest: str) -> Connection:
    return resolve_connection("erp", env=environment, project_root=root, manifest_connections=manifest)


def refused(root: Path, environment: dict[str, str]) -> ConnectionUnresolvedError:
    with pytest.raises(ConnectionUnresolvedError) as caught:
        resolved(root, environment)
    assert CANARY not in f"{caught.value} {caught.value.fix} {caught.value.__context__!r}"
    assert caught.value.exit_class is ExitClass.REFUSED
    return caught.value


def project_file(root: Path, uri: str) -> None:
    (root / "connections.yaml").write_text(f'connections: {{erp: {{uri: "{uri}"}}}}\n')


def test_the_first_resolver_that_knows_the_reference_wins(tmp_path: Path) -> None:
    mounted = tmp_path / "secrets"
    mounted.mkdir()
    (mounted / "erp").write_text("mysql://mounted/d\n")
    project_file(tmp_path, "mysql://project/d")
    environment = {
        "DPONE_CONN_ERP": "mysql://dpone/d",
        "AIRFLOW_CONN_ERP": "mysql://airflow/d",
        "DPONE_CONN_DIR": str(mounted),
    }
    origins = []
    while True:
        connection = resolved(tmp_path, environment, erp="mysql://manifest/d")
        origins.append((connection.origin, connection.uri))
        if connection.origin in environment:
            del environment[connection.origin]
        elif connection.origin == "connections.yaml":
            (tmp_path / "connections.yaml").unlink()
        else:
            break
    assert origins == [
        ("DPONE_CONN_ERP", "mysql://dpone/d"),
        ("AIRFLOW_CONN_ERP", "mysql://airflow/d"),
        ("DPONE_CONN_DIR", "mysql://mounted/d"),
        ("connections.yaml", "mysql://project/d"),
        ("manifest", "mysql://manifest/d"),
    ]


def test_an_unknown_reference_says_how_to_set_it(tmp_path: Path) -> None:
    error = refused(tmp_path, {"DPONE_CONN_ERP": "  "})
    assert error.code == "DPONE_CONNECTION_UNRESOLVED"
    assert "'erp'" in error.message and error.fix is not None and "DPONE_CONN_ERP" in error.fix


def test_json_forms_become_a_uri_with_encoded_parts(tmp_path: Path) -> None:
    text = '{"conn_type": "postgres", "host": "db", "port": 5432, "login": "u", "password": "p@/:", "schema": "d"}'
    assert resolved(tmp_path, {"AIRFLOW_CONN_ERP": text}).uri == "postgres://u:p%40%2F%3A@db:5432/d"
    assert resolved(tmp_path, {"DPONE_CONN_ERP": '{"uri": "chdb:///x"}'}).uri == "chdb:///x"


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        f'{{"password": "{CANARY}"',
        f'{{"pasword": "{CANARY}"}}',
        f'{{"password": "{CANARY}"}}',
        f'{{"uri": "mysql://h/d", "password": "{CANARY}"}}',
        f'{{"conn_type": "mysql", "host": "u:{CANARY}@h"}}',
        f'{{"conn_type": "mysql", "host": "h", "extra": {{"token": "{CANARY}"}}}}',
    ],
)
def test_broken_values_are_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, {"DPONE_CONN_ERP": text}).code == "DPONE_CONNECTION_INVALID"


def test_project_references_are_replaced_and_encoded_inside_a_uri(tmp_path: Path) -> None:
    project_file(tmp_path, "postgresql://${ERP_USER}:${ERP_PASSWORD}@db/erp")
    environment = {"ERP_USER": "etl", "ERP_PASSWORD": "a@b/c"}
    assert resolved(tmp_path, environment).uri == "postgresql://etl:a%40b%2Fc@db/erp"
    project_file(tmp_path, "${ERP_URI}")
    assert resolved(tmp_path, {"ERP_URI": "mysql://u:p@h/d"}).uri == "mysql://u:p@h/d"


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    project_file(tmp_path, "${ERP_URI}")
    error = refused(tmp_path, {})
    assert error.code == "DPONE_CONNECTION_UNRESOLVED" and error.fix == "set ERP_URI"


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://etl:{CANARY}@db/erp",
        f"postgresql://etl:{CANARY}${{X}}@db/erp",
        f"postgresql://db/erp?password={CANARY}",
        f"mssql://db/erp?PWD={CANARY}&x=1",
        f"postgresql://etl:p/{CANARY}@db/erp",
    ],
)
def test_a_credential_in_the_project_file_is_refused(tmp_path: Path, uri: str) -> None:
    project_file(tmp_path, uri)
    assert refused(tmp_path, {"X": "1"}).code == "DPONE_CONNECTION_LITERAL_REFUSED"


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://etl:{CANARY}@db/erp",
        f"chdb://etl:{CANARY}@host/x",
        f"duckdb:///x.db?motherduck_token={CANARY}",
        "postgresql://db/erp",
        "erp",
    ],
)
def test_a_manifest_holds_only_credential_free_embedded_uris(tmp_path: Path, uri: str) -> None:
    [problem] = problems_of(tmp_path, flow(connections={"dwh": {"uri": uri}}))
    assert (problem.code, problem.path) == ("DPONE_CONNECTION_LITERAL_REFUSED", "connections.dwh.uri")
    assert CANARY not in f"{problem} {problem.fix}"


def test_a_connection_is_printed_without_its_uri(tmp_path: Path) -> None:
    assert CANARY not in repr(resolved(tmp_path, {"DPONE_CONN_ERP": f"mysql://u:{CANARY}@h/d"}))
