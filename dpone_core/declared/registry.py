"""The descriptors of all connectors, in the order in which messages name them.

One line registers a connector. Every closed set of connectors (sink types, embedded schemes, SQL dialects, ...) is
derived from this list. It imports `model` alone and loads no vendor library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from dpone_core.declared import clickhouse, duckdb, files, mssql, mysql, postgres, sqlite
from dpone_core.model.connection import Connection
from dpone_core.model.connector import ConnectorDescriptor, ConnectorType, SinkTraits, SourceTraits
from dpone_core.model.vocabulary import LoadPath, StrategyMode

_DESCRIPTORS: Final = (
    clickhouse.DESCRIPTOR,
    duckdb.DESCRIPTOR,
    sqlite.DESCRIPTOR,
    postgres.DESCRIPTOR,
    mssql.DESCRIPTOR,
    mysql.DESCRIPTOR,
    files.DESCRIPTOR,
)
DECLARED: Final[Mapping[ConnectorType, ConnectorDescriptor]] = {
    descriptor.type: descriptor for descriptor in _DESCRIPTORS
}


def descriptor_of(connector: ConnectorType) -> ConnectorDescriptor:
    """The descriptor of a connector."""
    return DECLARED[connector]


def is_embedded(connection: Connection) -> bool:
    """Whether the connection opens an engine inside this process, or plain files."""
    return connection.scheme in EMBEDDED_SCHEMES


def _sources(which: Callable[[SourceTraits], bool]) -> tuple[ConnectorType, ...]:
    return tuple(one.type for one in _DESCRIPTORS if one.source is not None and which(one.source))


def _sinks(which: Callable[[SinkTraits], bool]) -> tuple[ConnectorType, ...]:
    return tuple(one.type for one in _DESCRIPTORS if one.sink is not None and which(one.sink))


EMBEDDED_SCHEMES: Final = tuple(
    scheme for one in _DESCRIPTORS if one.embedded is not None for scheme in one.embedded.uri_schemes
)
"""URI schemes that name a path, never a server, so that no credential can stand in them."""
SOURCE_TYPES: Final = _sources(lambda source: True)
SINK_TYPES: Final = _sinks(lambda sink: True)
FILE_SOURCES: Final = _sources(lambda source: bool(source.formats))
"""They read `options.path` in `options.format`; every other source reads a table or a query of a connection."""
ROW_SECURED_SOURCES: Final = _sources(lambda source: source.row_security)
"""They know which rows a policy hides, and take `options.rows`."""
FILE_SINKS: Final = _sinks(lambda sink: bool(sink.formats))
"""They take `options.files`."""
LEGACY_SINKS: Final = _sinks(lambda sink: sink.load_path is LoadPath.LEGACY)
"""They stage nothing and publish by their own write."""
DESIGNED_SINKS: Final = _sinks(lambda sink: sink.physical_design)
"""They take a whole `physical_design`."""
DEFAULTING_SINKS: Final = _sinks(lambda sink: sink.column_defaults)
"""They take `options.target_defaults`."""
KEYED_SINKS: Final = _sinks(
    lambda sink: not sink.physical_design and sink.finaliser_for(StrategyMode.PARTITION_REPLACE) is not None
)
"""They take the key of `partition_replace` alone from a `physical_design`, and under that strategy only."""
