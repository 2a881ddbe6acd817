"""Secrets and config maps a local pod may refer to; the same in every namespace.

The file is JSON: `{"secrets": {NAME: {KEY: VALUE}}, "config_maps": {NAME: {KEY: VALUE}}}`, values as plain text (not
base64). Values are handed to containers only; they appear in no answer of the API and in no state document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

Entries: TypeAlias = Mapping[str, Mapping[str, str]]


class FixtureError(ValueError):
    """The fixture file is not of the documented shape; the message names the place, never a value."""


class FixtureKind(StrEnum):
    """The kinds of objects that a pod may refer to."""

    SECRET = "Secret"
    CONFIG_MAP = "ConfigMap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixtures:
    """Named text entries by kind."""

    secrets: Entries = field(default_factory=dict, repr=False)
    config_maps: Entries = field(default_factory=dict)

    def entries(self, kind: FixtureKind, name: str) -> Mapping[str, str] | None:
        """The entries of one object, None when it does not exist."""
        return (self.secrets if kind is FixtureKind.SECRET else self.config_maps).get(name)

    @classmethod
    def from_file(cls, path: Path) -> Fixtures:
        """Reads the documented JSON; raises FixtureError, and OSError when the file cannot be read."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FixtureError(f"{path}: not a JSON document") from error
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Any) -> Fixtures:
        if not isinstance(document, dict) or not document.keys() <= {"secrets", "config_maps"}:
            raise FixtureError('expected an object with the keys "secrets" and "config_maps"')
        return cls(
            secrets=_entries("secrets", document.get("secrets", {})),
            config_maps=_entries("config_maps", document.get("config_maps", {})),
        )


def _entries(section: str, value: Any) -> Entries:
    if not isinstance(value, dict):
        raise FixtureError(f"{section}: expected an object")
    for name, entries in value.items():
        if not isinstance(entries, dict):
            raise FixtureError(f"{section}.{name}: expected an object")
        for key, text in entries.items():
            if not isinstance(text, str):
                raise FixtureError(f"{section}.{name}.{key}: expected text")
    return value
