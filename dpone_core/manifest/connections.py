"""Finds the URI of a `connection_ref` in environment variables and files. No message ever shows a URI.

The first place that has it wins: the variable `DPONE_CONN_<REF>`, then `AIRFLOW_CONN_<REF>` (each a URI or JSON), a
file named like the reference in `DPONE_CONN_DIR`, the project's `connections.yaml`, the manifest's `connections`.
Contract: MAN-16, EVID-14.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest.document import MAX_DOCUMENT_BYTES, read_document
from dpone_core.model.connection import Connection
from dpone_core.resources import DocumentTooLargeError, read_file_bounded

MAX_SECRET_BYTES: Final = 64 * 1024
PROJECT_FILE: Final = "connections.yaml"
MANIFEST_ORIGIN: Final = "manifest"
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_PARAMETER: Final = re.compile(
    r"(?:pass|pwd|token|secret|credential|key|auth)[^=&;]*=(?!\$\{[A-Za-z_][A-Za-z0-9_]*\}(?:[&;]|$))", re.IGNORECASE
)
_JSON_FIELDS: Final = frozenset(
    {"uri", "conn_type", "host", "login", "password", "port", "schema", "extra", "description"}
)


class ConnectionUnresolvedError(ETLConfigurationError):
    """A connection has no URI or an invalid one; `ref` is its name, which is safe to print."""

    code = "DPONE_CONNECTION_UNRESOLVED"

    def __init__(self, ref: str, message: str, *, code: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, code=code, fix=fix or f"set DPONE_CONN_{ref.upper()} to its URI")
        self.ref = ref


def resolve_connection(
    ref: str, *, env: Mapping[str, str], project_root: Path | None, manifest_connections: Mapping[str, str]
) -> Connection:
    """Finds the URI of `ref`. Raises ConnectionUnresolvedError (exit status 2) saying how to set it."""
    for prefix in ("DPONE_CONN_", "AIRFLOW_CONN_"):
        name = prefix + ref.upper()
        if env.get(name, "").strip():
            return Connection(ref=ref, uri=_uri_of(ref, env[name].strip(), name), origin=name)
    mounted = _read_mounted_secret(ref, env)
    if mounted is not None:
        return Connection(ref=ref, uri=_uri_of(ref, mounted, "DPONE_CONN_DIR"), origin="DPONE_CONN_DIR")
    authored = _project_uri(ref, project_root) if project_root is not None else None
    if authored is not None:
        return Connection(ref=ref, uri=_substitute_references(ref, authored, env), origin=PROJECT_FILE)
    if ref in manifest_connections:
        return Connection(ref=ref, uri=manifest_connections[ref], origin=MANIFEST_ORIGIN)
    raise ConnectionUnresolvedError(ref, f"connection '{ref}' is not set")


def _invalid(ref: str, message: str, *, fix: str | None = None) -> ConnectionUnresolvedError:
    return ConnectionUnresolvedError(ref, f"connection '{ref}': {message}", code="DPONE_CONNECTION_INVALID", fix=fix)


def _uri_of(ref: str, text: str, origin: str) -> str:
    if text.startswith("{"):
        return _uri_of_json(ref, text, origin)
    if "://" not in text:
        raise _invalid(ref, f"expected a URI or a JSON object in {origin}")
    return text


def _uri_of_json(ref: str, text: str, origin: str) -> str:
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid(ref, f"{origin} starts with '{{' and is not valid JSON") from None
    if not isinstance(parts, dict) or not _JSON_FIELDS.issuperset(parts):
        raise _invalid(ref, f"the JSON in {origin} may have only the fields {', '.join(sorted(_JSON_FIELDS))}")
    given = {name for name, value in parts.items() if value not in (None, "", {}) and name != "description"}
    if any(isinstance(parts[name], (dict, list, bool)) for name in given) or "extra" in given:
        raise _invalid(
            ref,
            f"the JSON in {origin} must not have 'extra' or nested fields",
            fix="give a URI with parameters instead",
        )
    uri = parts.get("uri")
    if isinstance(uri, str) and "://" in uri and given == {"uri"}:
        return uri
    kind, host = parts.get("conn_type"), _text(parts, "host")
    if "uri" in given or not isinstance(kind, str) or not kind:
        raise _invalid(ref, f"the JSON in {origin} must have either 'uri' alone or 'conn_type'")
    if any(mark in host for mark in "/@?#"):
        raise _invalid(ref, f"'host' in {origin} must be a host name without '/', '@', '?' or '#'")
    return f"{kind}://{_user_information(parts)}{host}{_port(parts)}/{_quote_part(parts, 'schema')}"


def _user_information(parts: Mapping[str, object]) -> str:
    login, password = _quote_part(parts, "login"), _quote_part(parts, "password")
    if password:
        return f"{login}:{password}@"
    return f"{login}@" if login else ""


def _port(parts: Mapping[str, object]) -> str:
    port = _text(parts, "port")
    return f":{port}" if port else ""


def _quote_part(parts: Mapping[str, object], name: str) -> str:
    return quote(_text(parts, name), safe="")


def _text(parts: Mapping[str, object], name: str) -> str:
    value = parts.get(name)
    return "" if value is None else str(value)


def _read_mounted_secret(ref: str, env: Mapping[str, str]) -> str | None:
    directory = env.get("DPONE_CONN_DIR", "")
    if not directory:
        return None
    for name in (ref, ref.upper(), f"DPONE_CONN_{ref.upper()}"):
        try:
            text = read_file_bounded(Path(directory) / name, MAX_SECRET_BYTES).decode("utf-8").strip()
        except FileNotFoundError:
            continue
        except DocumentTooLargeError:
            text = ""
        except (OSError, UnicodeDecodeError):
            raise _invalid(ref, "its file in DPONE_CONN_DIR cannot be read") from None
        if not text:
            raise _invalid(ref, "its file in DPONE_CONN_DIR is empty or too large")
        return text
    return None


def _project_uri(ref: str, project_root: Path) -> str | None:
    """The URI in connections.yaml with its `${ENV}` references; None when the file has no entry. Same strict YAML as
    manifests.
    """
    try:
        content = read_file_bounded(project_root / PROJECT_FILE, MAX_DOCUMENT_BYTES)
    except FileNotFoundError:
        return None
    except OSError:
        raise _invalid(ref, f"{PROJECT_FILE} is no file that can be read, or is too large") from None
    document = read_document(content, file=PROJECT_FILE)
    entries = document.value.get("connections", {})
    if set(document.value) - {"connections"} or not isinstance(entries, Mapping):
        raise _invalid(ref, f"{PROJECT_FILE} must hold one mapping named 'connections'", fix="see the reference")
    if ref not in entries:
        return None
    entry = entries[ref]
    uri = entry.get("uri") if isinstance(entry, Mapping) and set(entry) == {"uri"} else None
    if not isinstance(uri, str):
        raise _invalid(ref, f"its entry in {PROJECT_FILE} must hold exactly 'uri'", fix="write {uri: ...}")
    if _contains_secret(uri):
        raise ConnectionUnresolvedError(
            ref,
            f"connection '{ref}': {PROJECT_FILE} holds a literal credential",
            code="DPONE_CONNECTION_LITERAL_REFUSED",
            fix="write a ${ENV} reference in its place",
        )
    return uri


def _contains_secret(uri: str) -> bool:
    """Whether the user information or a parameter with a secret's name is anything but one `${ENV}` reference."""
    _, separator, rest = uri.partition("://")
    authority = rest.split("/", 1)[0] if separator else uri
    information, at, _ = authority.rpartition("@")
    _, colon, password = information.partition(":")
    if at and colon and _REFERENCE.fullmatch(password) is None:
        return True
    return ("@" in rest.partition("/")[2] and not at and ":" in rest) or _SECRET_PARAMETER.search(uri) is not None


def _substitute_references(ref: str, uri: str, env: Mapping[str, str]) -> str:
    """Replaces `${ENV}` references. A reference that is the whole URI is used as it is; inside a URI its value is
    percent-encoded.
    """
    whole = _REFERENCE.fullmatch(uri) is not None

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if not env.get(name, ""):
            raise ConnectionUnresolvedError(
                ref, f"connection '{ref}' needs the environment variable {name}", fix=f"set {name}"
            )
        return env[name] if whole else quote(env[name], safe="")

    return _uri_of(ref, _REFERENCE.sub(value, uri), PROJECT_FILE)
