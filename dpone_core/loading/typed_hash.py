"""An order-independent hash of typed rows, the same for equal values whatever engine stored them.

Both sides of a comparison are hashed here, by one engine over Arrow batches of one schema: the source's rows as they
flow to the sink, the staged rows as they are read back. A row's hash covers every column with its NULLs; the set's
hash is the sum of row hashes, so order does not matter and duplicates do. Floats have one zero and one NaN; decimals,
times and integers are compared in the schema's own type, so scale and width of a source do not matter.

Not cryptographic per row: two 64-bit sums detect differences between honest engines. Source: design "Quality", case
H09. Memory is bounded by one batch.
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
    """Feed batches with `update`, then ask for `digest`. `sample_key` restricts it to rows whose key falls into the
    sample (one of 16 key values, the same on both sides); () hashes every row."""

    schema: pa.Schema
    sample_key: tuple[str, ...] = ()
    rows: int = 0
    _first: int = 0
    _second: int = 0
    _connection: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)

    def update(self, batch: pa.RecordBatch) -> None:
        """Raises ConnectorError `typed_hash_value_refused` for a value that the schema cannot hold."""
        if batch.num_rows == 0 or not self.schema.names:
            return
        typed = _typed(batch, self.schema)
        query = _query(self.schema, self.sample_key)
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
        """`sha256:` over columns, row count and both sums; equal sets of rows give equal digests."""
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


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """The batch in the schema's types and order, cast exactly, as columns the engine can hold without rounding."""
    arrays = []
    for expected in schema:
        column = batch.column(expected.name)
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        try:
            arrays.append(_comparable(column.cast(expected.type, safe=True)))
        except pa.ArrowException as error:
            raise ConnectorError(
                f"column '{expected.name}' holds a value that {expected.type} cannot", code="typed_hash_value_refused"
            ) from error
    return pa.Table.from_arrays(arrays, names=schema.names)


def _comparable(values: pa.Array) -> pa.Array:
    """Times as the integers they are, since the engine's own types are coarser; its decimals end at 38 digits."""
    if pa.types.is_decimal256(values.type):
        return values.cast(pa.string())
    if pa.types.is_temporal(values.type):
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values


def _query(schema: pa.Schema, sample_key: tuple[str, ...]) -> str:
    values = ", ".join(_canonical(column) for column in schema)
    condition = ""
    if sample_key:
        key = ", ".join(_canonical(schema.field(name)) for name in sample_key)
        condition = f" WHERE hash('sample', {key}) % {SAMPLE_DIVISOR} = 0"
    first, second = f"hash('a', {values})::HUGEINT", f"hash({values}, 'b')::HUGEINT"
    return f"SELECT count(*), coalesce(sum({first}), 0), coalesce(sum({second}), 0) FROM batch{condition}"


def _canonical(column: Any) -> str:
    name: str = '"' + column.name.replace('"', '""') + '"'
    if pa.types.is_floating(column.type):
        return f"CASE WHEN isnan({name}) THEN 'nan' ELSE ({name} + 0.0)::DOUBLE::VARCHAR END"
    return name
