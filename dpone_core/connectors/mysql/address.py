"""Parses a MySQL URI: `mysql://user:password@host:3306/database?tls=verify&tls_ca=/ca.pem`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from dpone_core.connectors._sql.text import require_encoded
from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection

DEFAULT_PORT: Final = 3306
_OPTIONS: Final = frozenset({"tls", "tls_ca", "reader"})
_TLS: Final = frozenset({"off", "required", "verify"})
_READERS: Final = frozenset({"auto", "pymysql"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parts of the URI. `tls` is `off`, `required` (encrypted, certificate not checked) or `verify` (certificate
    and host name checked, against `tls_ca` or the system's authorities). `reader` `pymysql` selects the slow reader."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str | None
    tls: str = "off"
    tls_ca: str | None = None
    reader: str = "auto"

    @property
    def rust_uri(self) -> str:
        """The URI for connectorx, which is secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"mysql://{user}@{host}:{self.port}/{quote(self.database or '', safe='')}?prefer_socket=false"

    def as_json(self) -> Mapping[str, object]:
        return asdict(self)


def address_of(connection: Connection) -> Address:
    """The parts of the connection's URI. Raises ConnectorError `connection_uri_invalid` for another form; the message
    does not show the URI."""
    require_encoded(connection)
    try:
        parts = urlsplit(connection.uri)
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _invalid(connection, "it is not a URI") from None
    if host is None or parts.fragment or "/" in parts.path.strip("/"):
        raise _invalid(connection, "the form is mysql://user:password@host:3306/database")
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise _invalid(connection, f"known options are {', '.join(sorted(_OPTIONS))}")
    if options.get("tls", "off") not in _TLS or options.get("reader", "auto") not in _READERS:
        raise _invalid(connection, "tls is off, required or verify; reader is auto or pymysql")
    if "tls_ca" in options and options.get("tls") != "verify":
        raise _invalid(connection, "tls_ca needs tls=verify")
    return Address(
        host=host,
        port=port or DEFAULT_PORT,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.strip("/")) or None,
        **options,
    )


def require_address(connection: Connection) -> None:
    """Raises as `address_of`."""
    address_of(connection)


def _invalid(connection: Connection, why: str) -> ConnectorError:
    return ConnectorError(f"connection {connection.ref!r}: {why}", code="connection_uri_invalid")
