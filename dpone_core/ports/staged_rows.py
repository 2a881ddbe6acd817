"""Reading staged rows back as Arrow, for gates that compare values and not only counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import StagedHandle

if TYPE_CHECKING:
    import pyarrow as pa


class StagedRowsPort(Protocol):
    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        """The Arrow types `read_back` will deliver for this payload, known before anything is staged."""
        ...

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        """Every staged row once, payload columns only, in any order, exactly of `arrow_schema`; memory is bounded
        whatever the number of rows. Raises ConnectorError `staged_rows_unreadable`."""
        ...
