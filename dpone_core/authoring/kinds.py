"""The two kinds of manifest documents: `dpone.flow.v1` and `dpone.batch.v1`. Root keys that begin with `x-` are free.

`defaults`, `overrides` and a shared `quality` are fragments: each field is checked where it is authored, and the merged
process is checked as a whole by `ProcessSection` and `rules`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag

from dpone_core.authoring.names import ProcessName, QuotableName
from dpone_core.authoring.patterns import TABLE_IN_NAME
from dpone_core.authoring.process import Connections, ProcessSection
from dpone_core.authoring.section import Section
from dpone_core.authoring.validate import WRONG_TYPE

FRAGMENT_OF: Final = "x-dpone-fragment"
"""Marks a field whose JSON Schema `manifest.schema` inserts; the mark itself is never written to a file."""


class ManifestKind(StrEnum):
    """Kinds of manifests; the names are versioned contracts."""

    FLOW = "dpone.flow.v1"
    BATCH = "dpone.batch.v1"


Fragment = dict[str, JsonValue]
PartialProcess = Annotated[Fragment, Field(json_schema_extra={FRAGMENT_OF: "defaults"})]
PartialQuality = Annotated[Fragment, Field(json_schema_extra={FRAGMENT_OF: "quality"})]
SharedProcess = Annotated[Fragment, Field(json_schema_extra={FRAGMENT_OF: "process"})]


class FlowProcess(ProcessSection):
    """A flow manifest with one process at the root."""

    kind: Literal["dpone.flow.v1"]
    """Kind of manifest."""
    connections: Connections = Field(default_factory=dict)
    """Embedded connections by name."""


class FlowProcesses(Section):
    """A flow manifest with several processes that share connections and quality."""

    kind: Literal["dpone.flow.v1"]
    """Kind of manifest."""
    description: str | None = None
    """Text for readers; without effect."""
    connections: Connections = Field(default_factory=dict)
    """Embedded connections by name."""
    quality: PartialQuality = Field(default_factory=dict)
    """Quality of every process; a process's own quality is merged over it."""
    processes: Annotated[tuple[SharedProcess, ...], Field(min_length=1, max_length=1000)]
    """Processes in the order they run."""


class TableItem(Section):
    """A table with a name of its own or overrides."""

    model_config = ConfigDict(
        json_schema_extra={"if": {"required": ["name"]}, "else": {"properties": {"table": TABLE_IN_NAME}}}
    )

    table: QuotableName
    """Table name in the source schema."""
    name: ProcessName | None = None
    """Process name; `<schema>_<table>` unless given."""
    overrides: PartialProcess = Field(default_factory=dict)
    """Parts of the process that differ for this table."""


def _table_shape(value: object) -> str | None:
    if isinstance(value, str):
        return "name"
    return "item" if isinstance(value, (dict, TableItem)) else None


TableEntry = Annotated[
    Annotated[QuotableName, Field(json_schema_extra={"allOf": [TABLE_IN_NAME]}), Tag("name")]
    | Annotated[TableItem, Tag("item")],
    Discriminator(
        _table_shape, custom_error_type=WRONG_TYPE, custom_error_message="expected a table name or {table, overrides}"
    ),
]


class SchemaSection(Section):
    """Tables of one source schema."""

    defaults: PartialProcess = Field(default_factory=dict)
    """Parts of the process that are the same for every table of this schema."""
    tables: Annotated[tuple[TableEntry, ...], Field(min_length=1, max_length=10_000)]
    """Tables in the order they run."""


class BatchDocument(Section):
    """A batch manifest: many tables of one source, one process each."""

    kind: Literal["dpone.batch.v1"]
    """Kind of manifest."""
    description: str | None = None
    """Text for readers; without effect."""
    connections: Connections = Field(default_factory=dict)
    """Embedded connections by name."""
    quality: PartialQuality = Field(default_factory=dict)
    """Quality of every process; `defaults` and `overrides` are merged over it."""
    defaults: PartialProcess = Field(default_factory=dict)
    """Parts of the process that are the same for every table."""
    schemas: Annotated[dict[QuotableName, SchemaSection], Field(min_length=1)]
    """Tables by source schema."""
