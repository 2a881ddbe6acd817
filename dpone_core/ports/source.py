"""Reading a source: describe the result, then stream it once as Arrow batches.

A source is opened by `wiring`, one session per resolved connection, and is not thread safe; a stream may be pulled
from one other thread. Driver errors leave as ConnectorError with a stable code, driver text only in `__cause__`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dpone_core.model.file_reading import FileReading
from dpone_core.model.load_config import TableName
from dpone_core.model.special_values import SpecialValueRule
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorWindow:
    """Half-open: `lower <= value < upper`, both as text of the cursor's own type; None = unbounded.

    Text is `str()` of integers and decimals, ISO 8601 of dates and times, as `cursor_maximum` returns it. A NULL
    cursor value lies in no window.
    """

    column: str
    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """What to read: exactly one of table, query and path; token values are bound as parameters of the query. `reading`
    declares what files do not say themselves. `special_values` are converted before everything else: windows, ranges,
    metrics and rows see converted values only. Without `visible_rows` a policy that hides rows from the role is a
    ConnectorError `source_rows_hidden`, of every method that would read them."""

    table: TableName | None = None
    query: SqlText | None = None
    token_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    path: str | None = None
    format: str | None = None
    reading: FileReading = field(default_factory=FileReading)
    window: CursorWindow | None = None
    special_values: tuple[SpecialValueRule, ...] = ()
    visible_rows: bool = False


class BatchStream(Protocol):
    """One pass over the result. `schema` is what describe() promised, followed by one flag for each rule of the
    request's special values (`with_flags`); batches carry exactly its columns in order."""

    @property
    def schema(self) -> TableSchema: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """At most 65,536 rows each; memory stays bounded by the batch whatever the result size."""
        ...

    def close(self) -> None:
        """Idempotent; safe before, during and after iteration."""
        ...


@runtime_checkable
class CountedStream(Protocol):
    """An optional capability of BatchStream, for a source that knows its size without reading."""

    def expected_rows(self) -> int | None:
        """The probable number of rows, from metadata; None when unknown. For progress only, never evidence."""
        ...


class SourcePort(Protocol):
    def describe(self, request: ExtractRequest) -> TableSchema:
        """Schema of the result without reading its rows; unsupported columns are reported as such, not raised.

        A column whose special values become NULL is nullable, whatever the source declares. Raises ConnectorError
        `source_object_not_found` for an absent table or file, and `special_values_refused` for a rule that names no
        column, has no effect on its type, or replaces by something that is no value of it.
        """
        ...

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> BatchStream:
        """Starts reading, cast exactly to `schema` (from describe); a value that does not fit raises
        ConnectorError `source_value_out_of_range` naming the column, never a wrapped value."""
        ...

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        """The greatest non-null cursor value at the time of the call, as text; None when there is none."""
        ...
