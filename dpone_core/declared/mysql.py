"""What the MySQL source can do, as plain data for planning. MariaDB is read by the same connector."""

from __future__ import annotations

from typing import Final

from dpone_core.declared.functions import mysql as names
from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    SourceTraits,
    SqlNames,
    SqlSyntax,
    SqlTraits,
)
from dpone_core.model.special_values import SpecialValue

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.MYSQL,
    sql=SqlTraits(
        dialect="mysql",
        syntax=frozenset(
            {
                SqlSyntax.BACKSLASH_ESCAPES,
                SqlSyntax.BACKSLASH_BY_MODE,
                SqlSyntax.HASH_COMMENTS,
                SqlSyntax.DASH_COMMENTS_NEED_A_SPACE,
            }
        ),
        maintenance=rf"(OPTIMIZE|ANALYZE)\s+TABLE\s+{SQL_NAME}",
        names=SqlNames(functions=names.FUNCTIONS, table_functions=names.TABLE_FUNCTIONS),
    ),
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
