"""The lineage columns of staged rows as DEFAULT expressions, and the row id in ClickHouse's SQL."""

from __future__ import annotations

from typing import Final

from dpone_core.connectors._sql.row_id import CONTROL_ESCAPES, row_id_expression
from dpone_core.connectors._sql.text import literal_backslash, quote_backtick
from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LINEAGE_TYPES, ROW_ID, lineage_schema
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import LineageColumns

_NEEDS_ESCAPE: Final = literal_backslash('[\\x00-\\x1f"\\\\]')


def staged_schema(schema: TableSchema, lineage: LineageColumns) -> TableSchema:
    """Payload, then the constants in their order, then the row id."""
    unknown = [name for name in lineage.constants if name not in LINEAGE_TYPES]
    if unknown:
        raise ConnectorError(f"{unknown[0]!r} is no technical column", code="row_identity_unsupported")
    return TableSchema(columns=schema.columns + lineage_schema(lineage_names(lineage)).columns)


def lineage_names(lineage: LineageColumns) -> tuple[str, ...]:
    return (*lineage.constants, *((ROW_ID,) if lineage.row_id_columns else ()))


def lineage_defaults(schema: TableSchema, lineage: LineageColumns) -> dict[str, str]:
    """Column -> DEFAULT expression: load constants (never now()) and the row id over the payload."""
    defaults = {name: constant_expression(name, text) for name, text in lineage.constants.items()}
    if lineage.row_id_columns:
        defaults[ROW_ID] = row_id_expression(lineage, schema, ClickHouseRowId())
    return defaults


def constant_expression(name: str, text: str) -> str:
    if LINEAGE_TYPES[name].kind is ColumnKind.TIMESTAMP_TZ:
        return f"parseDateTime64BestEffort({literal_backslash(text)}, 6, 'UTC')"
    return literal_backslash(text)


class ClickHouseRowId:
    """RowIdDialect of ClickHouse; independent of session settings."""

    def literal(self, text: str) -> str:
        return literal_backslash(text)

    def concat(self, parts: tuple[str, ...]) -> str:
        return f"concat({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def plain_text(self, column: Column) -> str:
        quoted = quote_backtick(column.name)
        match column.type.kind:
            case ColumnKind.STRING:
                return quoted
            case ColumnKind.DECIMAL:
                return f"toDecimalString({quoted}, {column.type.scale})"
            case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
                zone = ", '+00:00'" if column.type.kind is ColumnKind.TIMESTAMP_TZ else ", ''"
                text = f"toString(toDateTime64({quoted}, 6, 'UTC'))"
                return f"concat(replaceRegexpOne({text}, '\\\\.000000$', ''){zone})"
            case _:
                return f"toString({quoted})"

    def json_string(self, expression: str) -> str:
        escaped = f"replaceAll(replaceAll({expression}, '\\\\', '\\\\\\\\'), '\"', '\\\\\"')"
        for character, text in CONTROL_ESCAPES:
            escaped = f"replaceAll({escaped}, '\\x{ord(character):02x}', {literal_backslash(text)})"
        return f"concat('\"', if(match({expression}, {_NEEDS_ESCAPE}), {escaped}, {expression}), '\"')"

    def or_null_text(self, column: Column, expression: str) -> str:
        return f"ifNull({expression}, 'null')"

    def sha256_hex(self, expression: str) -> str:
        return f"lower(hex(SHA256({expression})))"
