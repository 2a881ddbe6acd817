"""Writing rows straight into a target that has no staging: the legacy path of S0 "Legacy/non-staged load".

There is no moment at which the rows exist and the target is untouched, so gates are judged after `load` returned. The
rows of a load stay recognisable in the target and are counted there, never taken from what the writer claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpone_core.model.artifacts import LoadRef
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import StageRequest

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyLoadResult:
    """`written_rows` are this load's rows, re-read from the target; `total_rows` the rows of the whole target.

    `total_rows` is None where knowing it would mean reading the whole target.
    """

    finaliser: str
    written_rows: int
    total_rows: int | None


class LegacyLoadPort(Protocol):
    """Identity and target name the load in every call; `staging_schema` has no meaning here."""

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        """THE commit boundary. Not atomic for readers beyond what the finaliser declares.

        On an error before anything became visible it removes what it wrote and lets the error pass; once something
        is visible it raises CommitOutcomeUnknownError. Repeating it with the same identity replaces its own rows.
        """
        ...

    def has_rows(self, ref: LoadRef) -> bool:
        """Whether anything of the load is visible to readers of the target right now."""
        ...

    def discard(self, ref: LoadRef) -> None:
        """Removes what the load wrote and never made visible; idempotent; never the target."""
        ...

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        """The Arrow types `read_back` delivers for this payload."""
        ...

    def read_back(self, request: StageRequest) -> Iterator[pa.RecordBatch]:
        """This load's rows once, payload columns only, re-read from the target in any order; bounded memory.

        Raises ConnectorError `written_rows_unreadable`.
        """
        ...
