"""Resolves the connections of a run once per reference and teaches the redactor what must never be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpone_core.declared.registry import is_embedded
from dpone_core.evidence.public_words import names_in
from dpone_core.evidence.redaction import Redactor, secrets_in_uri
from dpone_core.manifest.connections import MANIFEST_ORIGIN, PROJECT_FILE, resolve_connection
from dpone_core.manifest.project_files import real_path
from dpone_core.model.connection import Connection
from dpone_core.model.load_config import LoadConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionResolver:
    """Resolves references of one manifest. A relative path of an embedded database is below the place that names it:
    the manifest's directory, the project root for connections.yaml, the working directory for a variable."""

    env: Mapping[str, str] = field(repr=False)
    project_root: Path
    manifest_directory: Path
    redactor: Redactor

    def resolve(self, ref: str, config: LoadConfig) -> Connection:
        """Raises ConnectionUnresolvedError (exit 2); whatever it returns, its secrets are known to the redactor."""
        connection = resolve_connection(
            ref,
            env=self.env,
            project_root=self.project_root,
            manifest_connections=config.connections,
        )
        self.redactor.keep(names_in(config))
        self.redactor.learn(secrets_in_uri(connection.uri))
        bases = {MANIFEST_ORIGIN: self.manifest_directory, PROJECT_FILE: self.project_root}
        base = bases.get(connection.origin)
        return connection if base is None else make_absolute(connection, base)

    def source_of(self, config: LoadConfig) -> Connection:
        """A files source without connection reads relative to the manifest."""
        if config.source.connection_ref is not None:
            return self.resolve(config.source.connection_ref, config)
        beside = Connection(ref="files", uri="file:///.", origin=MANIFEST_ORIGIN)
        return make_absolute(beside, self.manifest_directory)

    def sink_of(self, config: LoadConfig) -> Connection:
        return self.resolve(config.sink.connection_ref or "", config)


def make_absolute(connection: Connection, base: Path) -> Connection:
    """Returns the connection with an absolute path where it is embedded, any other as it is."""
    path = connection.uri.partition("://")[2].removeprefix("/")
    if not is_embedded(connection) or not path or path.startswith("/"):
        return connection
    return replace(connection, uri=f"{connection.scheme}:///{real_path(base) / path}")
