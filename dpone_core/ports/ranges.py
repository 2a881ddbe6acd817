"""Native transfer: reading key ranges of one source side by side, and staging them side by side in one sink.

Optional capabilities. A connector that has none cannot be split, and the manifest that asks for it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import StagedHandle, StageRequest
from dpone_core.ports.source import BatchStream, ExtractRequest


class RangeSourcePort(Protocol):
    """Text keys are ordered by code point and UUIDs as their bytes, whatever the engine's own collation says."""

    def snapshot(self) -> AbstractContextManager[str | None]:
        """A name under which readers of other sessions see the same rows until the block ends; None where the engine
        has no such thing, so that rows may change between two ranges."""
        ...

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        """Least and greatest non-null key and the number of rows, NULL keys included, in one query.

        Raises ConnectorError `partition_key_unsupported` for a type this engine cannot order as required, and
        `source_value_out_of_range` for a key that is not stored as its declared type.
        """
        ...

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> BatchStream:
        """The rows of one range, exactly as `open_stream` would read them; the request's window holds too."""
        ...


class RangeStagingPort(Protocol):
    """Each range has a staging dataset of its own, named by its request's identity."""

    def prepare(self, request: StageRequest) -> None:
        """Creates the namespaces that several stagings share, so that they do not create them at the same time."""
        ...

    def find(self, request: StageRequest) -> StagedHandle | None:
        """Staging of an earlier attempt under this identity, its rows counted now; None when it is gone."""
        ...

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        """One staging dataset under `request`'s identity that holds the rows of all parts, counted; the parts stay.

        Raises ConnectorError `staged_row_count_mismatch`.
        """
        ...
