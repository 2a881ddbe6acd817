"""Parses a SQL Server URI: `mssql://user:password@host:1433/database?encrypt=yes&isolation=snapshot`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection

DEFAULT_PORT: Final = 1433
DEFAULT_TEXT_SIZE: Final = 32_768
_LEAST_TEXT_SIZE: Final = 8_000
_CHOICES: Final = {
    "encrypt": ("yes", "no", "strict"),
    "trust_server_certificate": ("no", "yes"),
    "isolation": ("read_committed", "snapshot"),
    "reader": ("auto", "pyodbc"),
}
_NUMBER: Final = "max_text_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parts of the URI. `max_text_size` limits a value of an unbounded column, in UTF-16 units or bytes. Without a
    user the login is by Kerberos."""

    host: str
    port: int
    user: str | None
    password: str = field(repr=False)
    database: str | None
    encrypt: str
    trust_server_certificate: str
    isolation: str
    reader: str
    max_text_size: int

    def odbc(self, driver: str) -> str:
        """The ODBC connection string, which is secret. Every value is in braces, so that no value can end early."""
        values = {
            "Driver": driver,
            "Server": f"tcp:{self.host},{self.port}",
            "Encrypt": self.encrypt,
            "TrustServerCertificate": self.trust_server_certificate,
            "APP": "dpone",
        }
        if self.database is not None:
            values["Database"] = self.database
        if self.user is None:
            values["Trusted_Connection"] = "yes"
        else:
            values |= {"UID": self.user, "PWD": self.password}
        return ";".join(f"{name}={brace(value)}" for name, value in values.items())


def brace(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


def address_of(connection: Connection) -> Address:
    """The parts of the connection's URI. Raises ConnectorError `connection_uri_invalid` for another form; the message
    does not show the URI."""
    try:
        parts = urlsplit(connection.uri)
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _invalid(connection, "it is not a URI") from None
    if host is None or parts.fragment or "/" in parts.path.strip("/"):
        raise _invalid(connection, "the form is mssql://user:password@host:1433/database")
    if options.keys() - _CHOICES.keys() - {_NUMBER}:
        raise _invalid(connection, f"known options are {', '.join(sorted((*_CHOICES, _NUMBER)))}")
    chosen = {name: options.get(name, values[0]) for name, values in _CHOICES.items()}
    for name, values in _CHOICES.items():
        if chosen[name] not in values:
            raise _invalid(connection, f"{name} is one of {', '.join(values)}")
    size = options.get(_NUMBER, str(DEFAULT_TEXT_SIZE))
    if not size.isdecimal() or int(size) < _LEAST_TEXT_SIZE:
        raise _invalid(connection, f"{_NUMBER} is a number of at least {_LEAST_TEXT_SIZE}")
    texts = (host, unquote(parts.username or ""), unquote(parts.password or ""), unquote(parts.path))
    if any("\0" in text for text in texts):
        raise _invalid(connection, "it holds a NUL")
    return Address(
        host=host,
        port=port or DEFAULT_PORT,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password or ""),
        database=unquote(parts.path.strip("/")) or None,
        max_text_size=int(size),
        **chosen,
    )


def require_address(connection: Connection) -> None:
    """Raises as `address_of`."""
    address_of(connection)


def _invalid(connection: Connection, why: str) -> ConnectorError:
    return ConnectorError(f"connection {connection.ref!r}: {why}", code="connection_uri_invalid")
