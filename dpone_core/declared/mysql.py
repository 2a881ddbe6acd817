"""What the MySQL source can do, as plain data for planning. MariaDB is read by the same connector."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    SourceTraits,
    SqlSyntax,
    SqlTraits,
    words,
)
from dpone_core.model.special_values import SpecialValue

_READING_FUNCTIONS: Final = words(
    """
    json_unquote json_contains json_length json_keys json_type json_valid makedate maketime period_add period_diff
    sec_to_time time_to_sec to_seconds microsecond inet_aton inet_ntoa inet6_aton inet6_ntoa bit_count crc32
    elt field find_in_set make_set export_set bin_to_uuid uuid_to_bin
    """
)

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
        functions=_READING_FUNCTIONS,
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
