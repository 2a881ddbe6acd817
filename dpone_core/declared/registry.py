"""The declarations of all connectors, in the order in which messages name them. One line registers a connector.

Every closed set of connectors (sink types, embedded schemes, dialects, ...) is derived from these. No vendor library is
loaded: a declaration imports `model` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpone_core.declared import clickhouse, duckdb, files, mssql, mysql, postgres, sqlite
from dpone_core.model.connector import ConnectorDescriptor, ConnectorType

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
    """What this connector declares."""
    return DECLARED[connector]
