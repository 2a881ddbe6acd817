"""Resolves the connections of a run once per reference and teaches the redactor what must never be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpone_core.evidence.redaction import Redactor, secrets_in_uri
from dpone_core.manifest.connections import resolve_connection
from dpone_core.model.connection import Connection
from dpone_core.model.load_config import LoadConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionResolver:
    environment: Mapping[str, str] = field(repr=False)
    project_root: Path
    redactor: Redactor

    def resolve(self, ref: str, config: LoadConfig) -> Connection:
        """Raises ConnectionUnresolvedError (exit 2); whatever it returns, its secrets are known to the redactor."""
        connection = resolve_connection(
            ref,
            environment=self.environment,
            project_root=self.project_root,
            manifest_connections=config.connections,
        )
        self.redactor.learn(secrets_in_uri(connection.uri))
        return connection
