"""Native transfer: reads key ranges of one source in parallel and stages them in parallel in one sink.

These capabilities are optional. A manifest that asks for ranges of a connector without them is refused.
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
    """Reads key ranges of a source. Text keys are ordered by code point and UUIDs by their bytes, whatever the engine's
    collation."""

    def snapshot(self) -> AbstractContextManager[str | None]:
        """The name of a snapshot that readers in other sessions can share until the block ends, so that they see the
        same rows. None where the engine has none; rows may change between two ranges then."""
        ...

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        """The least and greatest non-null key and the number of rows, those with a NULL key included, from one query.
        Raises ConnectorError `partition_key_unsupported` for a type that the engine cannot order as required, and
        `source_value_out_of_range` for a key that is not stored as its declared type."""
        ...

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> BatchStream:
        """Streams the rows of one range, each value as `open_stream` reads it. The window of the
        request applies too."""
        ...


class RangeStagingPort(Protocol):
    """Stages key ranges. Each range has a staging dataset of its own, named by the identity in its request."""

    def prepare(self, request: StageRequest) -> None:
        """Creates the schemas that all ranges share, before the ranges start, so that they do not create them at the
        same time."""
        ...

    def find(self, request: StageRequest) -> StagedHandle | None:
        """The staging dataset that an earlier attempt made under this identity, with its rows counted now; None when it
        does not exist."""
        ...

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        """Copies the rows of all parts into one staging dataset under the identity of `request`, counts them, and keeps
        the parts. Raises ConnectorError `staged_row_count_mismatch`."""
        ...
