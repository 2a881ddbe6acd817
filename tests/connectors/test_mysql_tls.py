"""TLS of MySQL, against a server with a certificate of its own: never a plain connection where TLS was asked for."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpone_core.connectors.mysql.open import open_source
from dpone_core.connectors.mysql.source.reader import MySqlSource
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import SqlText
from dpone_core.ports.source import ExtractRequest
from tests.connectors.sessions import connection

pytestmark = pytest.mark.slow
PROGRAMS = ("mariadbd", "mariadb-install-db", "openssl")
START_SECONDS = 60
QUERY = ExtractRequest(query=SqlText(text="SELECT CAST(7 AS SIGNED) AS v"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsServer:
    port: int
    authority: Path

    def uri(self, host: str, options: str) -> str:
        return f"mysql://root@{host}:{self.port}/mysql{options}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"UNVERIFIED: {', '.join(missing)} not installed")
    directory = tmp_path_factory.mktemp("tls")
    _certificates(directory)
    data = directory / "data"
    user = f"--user={os.environ.get('USER') or 'root'}"
    _run("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = (f"--datadir={data}", f"--socket={directory}/s", f"--pid-file={directory}/p", f"--port={port}")
    keys = (f"--ssl-ca={directory}/ca.pem", f"--ssl-cert={directory}/server.pem", f"--ssl-key={directory}/server.key")
    process = subprocess.Popen(
        ["mariadbd", "--no-defaults", user, "--bind-address=127.0.0.1", *options, *keys],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, process)
        yield TlsServer(port=port, authority=directory / "ca.pem")
    finally:
        process.terminate()
        process.wait()


def _certificates(directory: Path) -> None:
    key = ("-newkey", "rsa:2048", "-nodes")
    authority = ("-keyout", f"{directory}/ca.key", "-out", f"{directory}/ca.pem")
    _run("openssl", "req", "-x509", *key, *authority, "-subj", "/CN=test authority", "-days", "2")
    request = ("-keyout", f"{directory}/server.key", "-out", f"{directory}/server.csr")
    _run("openssl", "req", *key, *request, "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    signed = ("-CA", f"{directory}/ca.pem", "-CAkey", f"{directory}/ca.key", "-CAcreateserial")
    files = ("-in", f"{directory}/server.csr", "-out", f"{directory}/server.pem", "-extfile", f"{directory}/names")
    _run("openssl", "x509", "-req", *files, *signed, "-days", "2")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the server of the TLS tests did not start")


def cipher_and_rows(uri: str) -> tuple[str, list[dict[str, object]]]:
    """The cipher of the catalog's session, and what the reader in the child delivers."""
    with open_source(connection(uri)) as ports:
        assert isinstance(ports.source, MySqlSource)
        ((_, cipher),) = ports.source._session.rows("SHOW STATUS LIKE 'Ssl_cipher'")
        stream = ports.source.open_stream(QUERY, ports.source.describe(QUERY))
        return cipher, [row for batch in stream.batches() for row in batch.to_pylist()]


def test_a_checked_certificate_encrypts_both_sessions(server: TlsServer) -> None:
    cipher, rows = cipher_and_rows(server.uri("localhost", f"?tls=verify&tls_ca={server.authority}"))
    assert cipher.startswith("TLS_") and rows == [{"v": 7}]


def test_encryption_without_a_check_is_possible(server: TlsServer) -> None:
    cipher, rows = cipher_and_rows(server.uri("localhost", "?tls=required"))
    assert cipher.startswith("TLS_") and rows == [{"v": 7}]


def test_without_tls_nothing_is_encrypted(server: TlsServer) -> None:
    assert cipher_and_rows(server.uri("localhost", "")) == ("", [{"v": 7}])


@pytest.mark.parametrize(("host", "with_authority"), [("127.0.0.1", True), ("localhost", False)])
def test_another_name_and_an_unknown_authority_are_refused(server: TlsServer, host: str, with_authority: bool) -> None:
    authority = f"&tls_ca={server.authority}" if with_authority else ""
    with pytest.raises(ConnectorError) as raised, open_source(connection(server.uri(host, f"?tls=verify{authority}"))):
        pass
    assert raised.value.code == "source_unreachable" and "CERTIFICATE" in str(raised.value.__cause__)
