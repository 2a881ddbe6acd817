"""The lineage columns in the select list of the insert into staging, and the row id in DuckDB's SQL."""

from __future__ import annotations

from dpone_core.connectors._sql.row_id import CONTROL_ESCAPES, row_id_expression
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.model.lineage import LINEAGE_TYPES, ROW_ID
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import LineageColumns


def lineage_expressions(schema: TableSchema, lineage: LineageColumns) -> dict[str, str]:
    """Column -> expression over the payload, in the order of the technical columns."""
    expressions = {name: constant_expression(name, text) for name, text in lineage.constants.items()}
    if lineage.row_id_columns:
        expressions[ROW_ID] = row_id_expression(lineage, schema, DuckDbRowId())
    return expressions


def constant_expression(name: str, text: str) -> str:
    if LINEAGE_TYPES[name].kind is ColumnKind.TIMESTAMP_TZ:
        return f"CAST({literal_ansi(text)} AS TIMESTAMP WITH TIME ZONE)"
    return literal_ansi(text)


class DuckDbRowId:
    """RowIdDialect of DuckDB."""

    def literal(self, text: str) -> str:
        return literal_ansi(text)

    def concat(self, parts: tuple[str, ...]) -> str:
        return f"({' || '.join(parts)})"

    def plain_text(self, column: Column) -> str:
        quoted = quote_ansi(column.name)
        match column.type.kind:
            case ColumnKind.STRING:
                return quoted
            case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
                zone = " || '+00:00'" if column.type.kind is ColumnKind.TIMESTAMP_TZ else ""
                text = f"strftime(make_timestamp(epoch_us({quoted})), '%Y-%m-%d %H:%M:%S.%f')"
                return f"(regexp_replace({text}, '\\.000000$', ''){zone})"
            case _:
                return f"CAST({quoted} AS VARCHAR)"

    def json_string(self, expression: str) -> str:
        escaped = f"replace(replace({expression}, '\\', '\\\\'), '\"', '\\\"')"
        for character, text in CONTROL_ESCAPES:
            escaped = f"replace({escaped}, chr({ord(character)}), {literal_ansi(text)})"
        needed = f"regexp_matches({expression}, '[\\x00-\\x1f\"\\\\]')"
        return f"('\"' || CASE WHEN {needed} THEN {escaped} ELSE {expression} END || '\"')"

    def or_null_text(self, column: Column, expression: str) -> str:
        return f"coalesce({expression}, 'null')"

    def sha256_hex(self, expression: str) -> str:
        return f"sha256({expression})"
