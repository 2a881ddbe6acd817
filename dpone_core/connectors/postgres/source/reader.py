"""Reads PostgreSQL: describes from the catalogue, then streams the rows once as Arrow from one read-only snapshot."""

from __future__ import annotations

from dataclasses import replace

from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.catalog import PreparedQuery, hides_rows, prepare_query, relation_schema
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.errors import hidden_rows
from dpone_core.errors import ConnectorError
from dpone_core.model.special_values import with_flags
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.source import ExtractRequest

from .selection import Selection, cursor_column, cursor_text, number_tokens, selection
from .special_values import SPECIAL_VALUES
from .stream import PostgresStream


class PostgresSource:
    """SourcePort of one database. `describe` has the author's query prepared and never runs it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self, request: ExtractRequest) -> TableSchema:
        return self._prepare(request).schema

    def select(self, request: ExtractRequest) -> tuple[TableSchema, Selection]:
        """The schema of a request and its FROM and WHERE part."""
        prepared = self._prepare(request)
        return prepared.schema, selection(request, prepared.schema, prepared.parameter_types)

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> PostgresStream:
        check_columns(schema)
        _, chosen = self.select(request)
        whole = request.table if request.window is None else None
        return PostgresStream(self._database, chosen, with_flags(schema, request.special_values), whole_table=whole)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema, chosen = self.select(request)
        cursor = cursor_column(schema, column)
        with self._database.snapshot(chosen.settings, visible_rows=chosen.visible_rows) as connected:
            row = connected.execute(f"SELECT max({quote_ansi(column)})::text {chosen.text}".encode()).fetchone()
        return None if row is None or row[0] is None else cursor_text(cursor, str(row[0]))

    def _prepare(self, request: ExtractRequest) -> PreparedQuery:
        stored = self._describe_stored(request)
        return replace(stored, schema=SPECIAL_VALUES.describe(stored.schema, request.special_values))

    def _describe_stored(self, request: ExtractRequest) -> PreparedQuery:
        if request.table is None:
            return prepare_query(self._database, number_tokens(request), visible_rows=request.visible_rows)
        schema = relation_schema(self._database, request.table)
        if schema is None:
            raise ConnectorError(
                "the source table does not exist, or the role may not see it", code="source_object_not_found"
            )
        if not request.visible_rows and hides_rows(self._database, request.table):
            raise hidden_rows()
        return PreparedQuery(schema=schema, parameter_types=())
