"""dpone.pack.v1: lists every file that a process opens, with its sha256, under one fingerprint.

A step hashes the files it opens and stops when a hash differs from the pack. The pack holds hashes, never content.
Contract: DAG-06, DAG-07.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from dpone_core.contracts.wire import (
    Contract,
    ContractInvalidError,
    Fingerprint,
    ProcessName,
    json_object,
    validate_value,
)
from dpone_core.errors import ErrorCode
from dpone_core.model.fingerprint import fingerprint

PACK_SCHEMA: Final = "dpone.pack.v1"
PACK_INVALID: Final = ErrorCode("DPONE_PACK_INVALID")
MAX_PACK_BYTES: Final = 1024 * 1024

PackedPath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class DependencyKind(StrEnum):
    """Why a file belongs to a process."""

    MANIFEST = "manifest"
    HOOK_SQL = "hook_sql"
    QUERY_SQL = "query_sql"
    GATE_SQL = "gate_sql"
    DATA_CONTRACT = "data_contract"


class Dependency(Contract):
    """One file: its POSIX path relative to the bundle root and the sha256 of its bytes."""

    kind: DependencyKind
    path: PackedPath
    sha256: Fingerprint

    @model_validator(mode="after")
    def _require_path_inside_bundle(self) -> Self:
        parts = self.path.split("/")
        if self.path.startswith("/") or "\\" in self.path or any(part in ("", ".", "..") for part in parts):
            raise ValueError("path must be relative to the bundle root, with '/' and without '.', '..' or empty parts")
        if not self.path.isprintable():
            raise ValueError("path must hold printable characters only")
        return self


class PackedProcess(Contract):
    """One process of the manifest, with the fingerprint of the quality policy it was reviewed with."""

    process: ProcessName
    policy_snapshot_id: Fingerprint


class Pack(Contract):
    """A valid pack: processes ordered by name, dependencies by path and kind; `pack_fingerprint` covers all other
    fields.
    """

    contract: Literal["dpone.pack.v1"] = Field(alias="schema")
    manifest: PackedPath
    processes: Annotated[tuple[PackedProcess, ...], Field(min_length=1)]
    dependencies: Annotated[tuple[Dependency, ...], Field(min_length=1)]
    pack_fingerprint: Fingerprint

    @model_validator(mode="after")
    def _require_order_and_fingerprint(self) -> Self:
        names = [item.process for item in self.processes]
        keys = [(item.path, item.kind.value) for item in self.dependencies]
        if names != sorted(set(names)):
            raise ValueError("processes must be unique and ordered by name")
        if keys != sorted(set(keys)):
            raise ValueError("dependencies must be unique and ordered by path and kind")
        if len({(item.path, item.sha256) for item in self.dependencies}) != len({path for path, _ in keys}):
            raise ValueError("a path is listed with two different hashes")
        if [item.path for item in self.dependencies if item.kind is DependencyKind.MANIFEST] != [self.manifest]:
            raise ValueError("the manifest must be listed exactly once among the dependencies")
        if self.pack_fingerprint != _fingerprint_of(self.wire()):
            raise ValueError("pack_fingerprint does not match the content; make the pack again")
        return self


def build_pack(manifest: str, processes: Iterable[PackedProcess], dependencies: Iterable[Dependency]) -> Pack:
    """Builds a pack with its fingerprint, in canonical order. Equal entries are listed once.

    Raises ContractInvalidError, code DPONE_PACK_INVALID, when entries contradict each other.
    """
    document: dict[str, object] = {
        "schema": PACK_SCHEMA,
        "manifest": manifest,
        "processes": [item.wire() for item in sorted(set(processes), key=lambda item: item.process)],
        "dependencies": [
            item.wire() for item in sorted(set(dependencies), key=lambda item: (item.path, item.kind.value))
        ],
    }
    try:
        document["pack_fingerprint"] = _fingerprint_of(document)
    except UnicodeEncodeError:
        raise ContractInvalidError("a pack path is not valid Unicode", code=PACK_INVALID) from None
    return validate_value(Pack, document, what="pack", code=PACK_INVALID)


def parse_pack(document: str | bytes) -> Pack:
    """Parses a pack from JSON text of at most 1 MiB. Raises ContractInvalidError, code DPONE_PACK_INVALID."""
    value = json_object(document, limit_bytes=MAX_PACK_BYTES, what="pack", code=PACK_INVALID)
    return validate_value(Pack, value, what="pack", code=PACK_INVALID)


def render_pack(pack: Pack) -> bytes:
    """The bytes of the committed file: indented JSON that ends in one newline."""
    return (json.dumps(pack.wire(), indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _fingerprint_of(document: dict[str, object]) -> str:
    return fingerprint({key: value for key, value in document.items() if key != "pack_fingerprint"})
