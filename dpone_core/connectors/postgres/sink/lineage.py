"""The lineage columns as defaults of the staging table, and the row id in PostgreSQL's SQL."""

from __future__ import annotations

from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.model.lineage import LINEAGE_TYPES
from dpone_core.model.table_schema import Column, ColumnKind


def constant_expression(name: str, text: str) -> str:
    kind = LINEAGE_TYPES[name].kind
    return f"{literal_ansi(text)}::{'timestamptz' if kind is ColumnKind.TIMESTAMP_TZ else 'text'}"


class PostgresRowId:
    """RowIdDialect of PostgreSQL; sessions print dates in ISO style and instants in UTC."""

    def literal(self, text: str) -> str:
        return f"{literal_ansi(text)}::text"

    def concat(self, parts: tuple[str, ...]) -> str:
        return f"({' || '.join(parts)})"

    def plain_text(self, column: Column) -> str:
        quoted = quote_ansi(column.name)
        match column.type.kind:
            case ColumnKind.STRING:
                return quoted
            case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
                is_instant = column.type.kind is ColumnKind.TIMESTAMP_TZ
                clock = f"({quoted} AT TIME ZONE 'UTC')" if is_instant else quoted
                text = f"regexp_replace(to_char({clock}, 'YYYY-MM-DD HH24:MI:SS.US'), '\\.000000$', '')"
                return f"({text} || '+00:00')" if is_instant else text
            case _:
                return f"{quoted}::text"

    def json_string(self, expression: str) -> str:
        return f"to_json({expression})::text"

    def or_null_text(self, column: Column, expression: str) -> str:
        return f"coalesce({expression}, 'null')"

    def sha256_hex(self, expression: str) -> str:
        return f"encode(sha256(convert_to({expression}, 'UTF8')), 'hex')"
