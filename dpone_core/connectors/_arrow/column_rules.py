"""Rules about columns over Arrow batches that can be read more than once, for a sink without an engine of its own.

DuckDB in memory asks the same queries as over a staging table; each of them reads the batches anew. What does not fit
into its memory limit it writes into a directory that is removed afterwards. Contract: GATE-33.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors._sql.column_rules import RuleDialect, SqlStagedRules, stays_ansi
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.model.column_rules import RuleMeasure
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.rules import AskedRule
from dpone_core.ports.sink import StagedHandle

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT_BYTES: Final = 1024 * 1024 * 1024
_TABLE: Final = "dpone_batches"
_CODE: Final = "rule_not_judged"


def judge_batches(
    handle: StagedHandle, asked: Sequence[AskedRule], read: Callable[[], Iterable[pa.RecordBatch]]
) -> Mapping[str, RuleMeasure]:
    """The measure of each rule over the batches that `read` yields, by gate id.

    Raises ConnectorError `rule_not_judged` when the engine does not answer, and what `read` raises.
    """
    import duckdb

    with tempfile.TemporaryDirectory(prefix="dpone-rules-") as directory:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{MEMORY_LIMIT_BYTES}B",
            "temp_directory": directory,
        }
        try:
            with duckdb.connect(":memory:", config=config) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                asking = _Batches(connection, arrow_schema(handle.payload_schema), read)
                return SqlStagedRules(_dialect(asking, handle.payload_schema)).judge(handle, asked)
        except duckdb.Error as error:
            raise foreign_error(error, "DuckDB did not judge the rows", _CODE) from error


class _Batches:
    """Answers queries about `dpone_batches`, which is read anew for each of them."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, schema: pa.Schema, read: Callable[[], Iterable[pa.RecordBatch]]
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._read = read

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        failed: list[ConnectorError] = []

        def batches() -> Iterable[pa.RecordBatch]:
            try:
                yield from self._read()
            except ConnectorError as error:  # DuckDB would tell it as an error of its own
                failed.append(error)
                raise

        self._connection.register(_TABLE, pa.RecordBatchReader.from_batches(self._schema, batches()))
        try:
            return self._connection.execute(sql).fetchall()
        except Exception as error:
            raise (failed[0] if failed else error) from error
        finally:
            self._connection.unregister(_TABLE)

    def typed(self, schema: TableSchema) -> TableSchema:
        """The columns with the names that DuckDB has for their types."""
        found = {str(name): str(kind) for name, kind, *_ in self.rows(f"DESCRIBE {_TABLE}")}
        return TableSchema(
            columns=tuple(
                replace(column, type=replace(column.type, native=found[column.name])) for column in schema.columns
            )
        )


def _dialect(asking: _Batches, schema: TableSchema) -> RuleDialect:
    typed = asking.typed(schema)
    return RuleDialect(
        schema_of=lambda _: typed,
        qualify=lambda _: _TABLE,
        quote=quote_ansi,
        rows=asking.rows,
        exact=lambda column: quote_ansi(column.name),
        literal=_literal,
        newest=lambda column: f"epoch_us(CAST(max({quote_ansi(column.name)}) AS TIMESTAMP)) // 1000000",
        bucket="hash({}) % {}".format,
        stays=stays_ansi,
    )


def _literal(column: Column, text: str) -> str:
    if column.type.kind is ColumnKind.UUID:  # its 16 bytes in Arrow
        return f"unhex({literal_ansi(text.replace('-', ''))})"
    return f"CAST({literal_ansi(text)} AS {column.type.native})"
