"""One process, and the connections that several processes share. Every kind of manifest is reduced to
`ProcessSection`.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from dpone_core.authoring.names import ConnectionRef, ProcessName
from dpone_core.authoring.quality import QualitySection
from dpone_core.authoring.section import Section
from dpone_core.authoring.sink import SinkSection
from dpone_core.authoring.source import SourceSection
from dpone_core.declared.registry import EMBEDDED_SCHEMES
from dpone_core.model.vocabulary import StateType

CONNECTION_LITERAL: Final = "DPONE_CONNECTION_LITERAL_REFUSED"
_EMBEDDED_URI_PATTERN: Final = rf"^({'|'.join(sorted(EMBEDDED_SCHEMES))})://[^/@?#\s]*(/[^?#]*)?$"


def _require_embedded_uri(uri: str) -> str:
    """Accepts the URI of an embedded engine without credentials. No part of it is shown in a message, as it might
    hold a password.
    """
    fix = "set DPONE_CONN_<REF> or connections.yaml with ${ENV} references instead"
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in EMBEDDED_SCHEMES:
        raise PydanticCustomError(
            CONNECTION_LITERAL,
            f"a manifest may hold only URIs of embedded engines ({', '.join(EMBEDDED_SCHEMES)})",
            {"fix": fix},
        )
    authority, _, path = rest.partition("/")
    if "@" in authority or any(mark in path + authority for mark in "?#") or any(c.isspace() for c in authority):
        raise PydanticCustomError(
            CONNECTION_LITERAL, "a URI in a manifest must not hold user information or parameters", {"fix": fix}
        )
    return uri


EmbeddedUri = Annotated[
    str,
    Field(max_length=1024, json_schema_extra={"pattern": _EMBEDDED_URI_PATTERN}),
    AfterValidator(_require_embedded_uri),
]


class ConnectionSection(Section):
    """A connection without any secret: an embedded engine."""

    uri: EmbeddedUri
    """Credential-free URI such as `chdb:///.dpone/warehouse`; anything else belongs into the environment."""


class StateSection(Section):
    """Where the cursor of the source is kept."""

    type: StateType
    """`sink` keeps it beside the target, `disabled` keeps none; incremental strategies need one."""


_CURSOR_MODES: Final[dict[str, JsonValue]] = {
    "properties": {"sink": {"properties": {"strategy": {"properties": {"mode": {"pattern": "^incremental_"}}}}}}
}
_CURSOR: Final[dict[str, JsonValue]] = {
    "required": ["state"],
    "properties": {
        "state": {"properties": {"type": {"enum": ["sink", "file"]}}},
        "source": {"required": ["options"], "properties": {"options": {"required": ["incremental"]}}},
    },
}
_NO_CURSOR: Final[dict[str, JsonValue]] = {
    "properties": {
        "state": {"properties": {"type": {"const": "disabled"}}},
        "source": {"properties": {"options": {"properties": {"incremental": False}}}},
    }
}


class ProcessSection(Section):
    """One load: a source, a sink, and what must be true of the result."""

    model_config = ConfigDict(json_schema_extra={"if": _CURSOR_MODES, "then": _CURSOR, "else": _NO_CURSOR})

    name: ProcessName
    """Name of the process in selectors, reports and evidence."""
    description: str | None = None
    """Text for readers; without effect."""
    source: SourceSection
    """Where rows come from."""
    sink: SinkSection
    """Where rows go."""
    quality: QualitySection = QualitySection()
    """Gates and acceptance metrics."""
    state: StateSection | None = None
    """Cursor state; disabled unless given."""

    @property
    def state_type(self) -> StateType:
        """Where the cursor is kept; `disabled` when no state is authored."""
        return self.state.type if self.state is not None else StateType.DISABLED


Connections = dict[ConnectionRef, ConnectionSection]
