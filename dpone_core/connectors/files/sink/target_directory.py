"""One target: a directory of data files that dpone wrote, described by `_dpone_target.json` beside them.

Record: kind `dpone.files_target.v1`, format, columns (name, kind, precision, scale, fraction, nullable), refreshing
(hash of a full refresh that has begun to publish and has not removed the old files yet, else null). Not kept: rows,
run ids, load ids.

Data files are `part-<16 hex of run and load>-<number>.<format>`. What a load has not published yet stands in the
hidden directory `.<artifact name>`, which readers of the directory skip. Any other visible file is foreign.

A load publishes only from a hidden directory that it has claimed, by giving it another name; a load that comes after it
takes both directories away, again by a rename. Of the two one wins.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dpone_core.connectors.files.storage import replace_file, translate_errors
from dpone_core.errors import ConnectorError, LeaseLostError
from dpone_core.model.artifacts import ASIDE, ROLES, SCRATCH, SHADOW, STAGING, artifact_name, artifact_prefix
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

TARGET_KIND: Final = "dpone.files_target.v1"
FORMATS: Final = ("parquet", "csv", "ndjson")
_DESCRIPTION: Final = "_dpone_target.json"
_PART: Final = re.compile(rf"part-([0-9a-f]{{16}})-[0-9]{{5}}\.(?:{'|'.join(FORMATS)})")
_MAX_NAME_BYTES: Final = 255
_UNREADABLE: Final = "target_description_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDescription:
    """What `_dpone_target.json` says about a target."""

    format: str
    schema: TableSchema
    refreshing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDirectory:
    """`base` is the connection's directory; a table is `<schema>/<name>` below it."""

    base: Path
    table: TableName

    def __post_init__(self) -> None:
        for part in filter(None, (self.table.schema, self.table.name)):
            if part[0] in "._" or "/" in part or "\0" in part or len(part.encode()) > _MAX_NAME_BYTES:
                raise ConnectorError(
                    "a schema or table name cannot be the name of a directory of data files",
                    code="physical_design_mismatch",
                    fix="use names without slashes that begin with a letter or digit",
                )

    @property
    def path(self) -> Path:
        return self.base / (self.table.schema or "") / self.table.name

    def unpublished_directory(self, identity: LoadIdentity, role: str = STAGING) -> Path:
        """The hidden directory of one load: SHADOW when it is claimed, SCRATCH or ASIDE when it was taken away."""
        return self.path / f".{artifact_name(self.table, identity, role)}"

    def unpublished_names(self, *roles: str) -> tuple[str, ...]:
        """Artifact names of loads, dead or alive, whose hidden directory still exists."""
        prefixes = tuple(f".{artifact_prefix(self.table, role)}" for role in roles or ROLES)
        if not self.path.is_dir():
            return ()
        return tuple(sorted(child.name[1:] for child in self.path.iterdir() if child.name.startswith(prefixes)))

    def claim(self, identity: LoadIdentity) -> Path:
        """The hidden directory of a load under the name from which it publishes. Raises LeaseLostError when another
        load has taken it."""
        claimed = self.unpublished_directory(identity, SHADOW)
        try:
            self.unpublished_directory(identity).rename(claimed)
        except FileNotFoundError as error:
            raise LeaseLostError from error
        return claimed

    def revoke(self, keep: frozenset[str]) -> tuple[str, ...]:
        """Takes hidden directories from other loads, unclaimed ones first, and returns the names they had."""
        taken: list[str] = []
        for role, aside in ((STAGING, SCRATCH), (SHADOW, ASIDE)):
            for name in self.unpublished_names(role):
                renamed = artifact_prefix(self.table, aside) + name.removeprefix(artifact_prefix(self.table, role))
                if name not in keep:
                    with suppress(FileNotFoundError):  # its load has claimed or published it
                        (self.path / f".{name}").rename(self.path / f".{renamed}")
                        taken.append(name)
        return tuple(taken)

    def discard_unpublished(self, identity: LoadIdentity) -> None:
        with translate_errors("what this load wrote could not be removed", "staged_cleanup_failed"):
            for role in ROLES:
                if self.unpublished_directory(identity, role).exists():
                    shutil.rmtree(self.unpublished_directory(identity, role))

    def part_name(self, identity: LoadIdentity, number: int, file_format: str) -> str:
        return f"part-{load_hash(self.table, identity)}-{number:05d}.{file_format}"

    def parts(self, identity: LoadIdentity | None = None) -> tuple[Path, ...]:
        """Visible data files in name order: of one load, or of all."""
        if not self.path.is_dir():
            return ()
        wanted = None if identity is None else load_hash(self.table, identity)
        found = []
        for child in self.path.iterdir():
            match = _PART.fullmatch(child.name)
            if match is not None and wanted in (None, match.group(1)):
                found.append(child)
        return tuple(sorted(found))

    def has_foreign_files(self) -> bool:
        if not self.path.is_dir():
            return self.path.exists()
        return any(child.name[0] not in "._" and _PART.fullmatch(child.name) is None for child in self.path.iterdir())

    def describe(self) -> TargetDescription | None:
        """None while the target does not exist; ConnectorError `target_description_unreadable`."""
        try:
            text = (self.path / _DESCRIPTION).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise ConnectorError(
                "the target's description `_dpone_target.json` cannot be read", code=_UNREADABLE
            ) from error
        try:
            return _description_of(json.loads(text))
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise ConnectorError(
                "the target's description `_dpone_target.json` is not one that dpone wrote", code=_UNREADABLE
            ) from error

    def write_description(self, description: TargetDescription) -> None:
        document = {
            "kind": TARGET_KIND,
            "format": description.format,
            "columns": [_column_json(column) for column in description.schema.columns],
            "refreshing": description.refreshing,
        }
        replace_file(self.path / _DESCRIPTION, (json.dumps(document, indent=2, sort_keys=True) + "\n").encode())


def load_hash(table: TableName, identity: LoadIdentity) -> str:
    """The hash that ends the artifact name of a load and stands in the names of its files."""
    return artifact_name(table, identity, STAGING).rpartition("_")[2]


def _column_json(column: Column) -> dict[str, object]:
    described = asdict(column.type) | {"name": column.name, "kind": column.type.kind.value, "nullable": column.nullable}
    described.pop("native")
    return described


def _description_of(document: dict[str, Any]) -> TargetDescription:
    if document["kind"] != TARGET_KIND or document["format"] not in FORMATS:
        raise ValueError("another kind of description")
    columns = tuple(
        Column(
            name=str(item["name"]),
            type=ColumnType(
                kind=ColumnKind(item["kind"]),
                precision=item["precision"],
                scale=item["scale"],
                fraction=item["fraction"],
            ),
            nullable=bool(item["nullable"]),
        )
        for item in document["columns"]
    )
    refreshing = document["refreshing"]
    return TargetDescription(
        format=document["format"],
        schema=TableSchema(columns=columns),
        refreshing=None if refreshing is None else str(refreshing),
    )
