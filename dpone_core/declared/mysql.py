"""What the MySQL source can do, as plain data for planning. MariaDB is read by the same connector."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import ConnectorDescriptor, ConnectorType, SourceTraits
from dpone_core.model.special_values import SpecialValue

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.MYSQL,
    sql_dialect="mysql",
    extra="mysql",
    uri_schemes=("mysql", "mariadb"),
    libraries=("pyarrow", "connectorx", "pymysql"),
    source=SourceTraits(
        reader="connectorx in a child process (pymysql with TLS)",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
        special_values=(SpecialValue.ZERO_DATE, SpecialValue.PARTIAL_DATE),
    ),
)
