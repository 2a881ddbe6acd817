"""Hashes a set of typed rows, independent of their order and of the engine that stored them.

Both sides of a comparison are hashed here, over Arrow batches of one schema: the source rows on their way to the
sink, and the staged rows as they are read back. The hash of a row covers every column and its NULLs. The hash of the
set is the sum of the row hashes, so order does not matter and duplicates do. Of floats all zeros are equal and all
NaN are equal; decimals, times and integers are compared in the type of the schema, whatever their scale and width in
the source.

Not cryptographic: two 64-bit sums detect differences between honest engines. Contract: GATE-21, GATE-23.
Memory is bounded by one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dpone_core.errors import ConnectorError
from dpone_core.model.fingerprint import fingerprint

if TYPE_CHECKING:
    import duckdb

SAMPLE_DIVISOR: Final = 16
_MODULUS: Final = 1 << 128


@dataclass(slots=True)
class TypedHash:
    """Hashes the batches given to `update`; `digest` returns the result.

    With `sample_key` only rows whose key falls into the sample are hashed: about one key value in 16, the same ones on
    both sides. With () every row is hashed.
    """

    schema: pa.Schema
    sample_key: tuple[str, ...] = ()
    rows: int = 0
    _first: int = 0
    _second: int = 0
    _connection: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)

    def update(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch. Raises ConnectorError `typed_hash_value_refused` for a value outside its type."""
        if batch.num_rows == 0 or not self.schema.names:
            return
        typed = _cast_exactly(batch, self.schema)
        query = _build_query(self.schema, self.sample_key)
        engine = self._engine()
        engine.register("batch", typed)
        try:
            ((rows, first, second),) = engine.execute(query).fetchall()
        finally:
            engine.unregister("batch")
        self.rows += int(rows)
        self._first = (self._first + int(first)) % _MODULUS
        self._second = (self._second + int(second)) % _MODULUS

    def digest(self) -> str:
        """`sha256:` fingerprint of columns, row count and sums. Equal sets of rows give equal digests."""
        return fingerprint(
            {
                "columns": [[field.name, str(field.type)] for field in self.schema],
                "sample_key": list(self.sample_key),
                "rows": str(self.rows),
                "sums": [str(self._first), str(self._second)],
            }
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _engine(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(":memory:", config={"threads": 1})
        return self._connection


def _cast_exactly(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """The batch in the types and column order of `schema`. Raises ConnectorError for a value that a cast would
    change.
    """
    arrays = []
    for expected in schema:
        column = batch.column(expected.name)
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        try:
            arrays.append(_make_comparable(column.cast(expected.type, safe=True)))
        except pa.ArrowException as error:
            raise ConnectorError(
                f"column '{expected.name}' holds a value that does not fit into {expected.type}",
                code="typed_hash_value_refused",
            ) from error
    return pa.Table.from_arrays(arrays, names=schema.names)


def _make_comparable(values: pa.Array) -> pa.Array:
    """Times as their integers, because the engine's time types are coarser; decimals above 38 digits as text."""
    if pa.types.is_decimal256(values.type):
        return values.cast(pa.string())
    if pa.types.is_temporal(values.type):
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values


def _build_query(schema: pa.Schema, sample_key: tuple[str, ...]) -> str:
    values = ", ".join(_canonical_expression(column) for column in schema)
    condition = ""
    if sample_key:
        key = ", ".join(_canonical_expression(schema.field(name)) for name in sample_key)
        condition = f" WHERE hash('sample', {key}) % {SAMPLE_DIVISOR} = 0"
    first, second = f"hash('a', {values})::HUGEINT", f"hash({values}, 'b')::HUGEINT"
    return f"SELECT count(*), coalesce(sum({first}), 0), coalesce(sum({second}), 0) FROM batch{condition}"


def _canonical_expression(column: Any) -> str:
    name: str = '"' + column.name.replace('"', '""') + '"'
    if pa.types.is_floating(column.type):
        return f"CASE WHEN isnan({name}) THEN 'nan' ELSE ({name} + 0.0)::DOUBLE::VARCHAR END"
    return name
