"""The URI that libpq gets: the connection's URI with the settings that dpone fixes for every session."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from dpone_core.connectors._sql.text import require_encoded
from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection

_DEFAULTS: Final = (("fallback_application_name", "dpone"), ("connect_timeout", "10"))
_UNKNOWN: Final = re.compile(r'invalid URI query parameter: "([a-z_]{1,40})"')
SESSION_SETTINGS: Final = (
    "SET TIME ZONE 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'iso_8601'",
    "SET standard_conforming_strings = on",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
    "SET xmlbinary = 'base64'",
)
"""Fixes the text form of values; sent as statements, for poolers refuse startup options."""


def require_address(connection: Connection) -> None:
    """Raises ConnectorError `connection_uri_invalid` for a URI that libpq does not read; nothing is connected.

    A name after `?` that libpq does not know is shown where it is a plain word.
    """
    require_encoded(connection)
    try:
        conninfo_to_dict(connection.uri)
    except psycopg.ProgrammingError as error:
        unknown = _UNKNOWN.search(str(error))
        what = f"unknown parameter {unknown.group(1)!r}" if unknown else "PostgreSQL's client library does not read it"
        raise ConnectorError(
            f"connection {connection.ref!r}: {what}", code="connection_uri_invalid", fix="correct where it is set"
        ) from error


def libpq_uri(connection: Connection) -> str:
    """TLS, timeout and other libpq parameters of the URI pass through; text always travels as UTF-8. Raises
    ConnectorError `connection_uri_invalid` where a character of the password ends it."""
    base, _, query = connection.uri.partition("?")
    require_encoded(connection)
    given = [part for part in query.split("&") if part and not part.startswith("client_encoding=")]
    names = {part.partition("=")[0] for part in given}
    added = [f"{name}={value}" for name, value in _DEFAULTS if name not in names]
    return f"{base}?{'&'.join([*given, *added, 'client_encoding=UTF8'])}"
