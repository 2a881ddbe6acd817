"""What a sink does for a load: publish rows through staging or directly, describe the target, find a load again.

A sink has one of two load paths. StagedLoadPort publishes what it has staged; LegacyLoadPort writes into a target that
has no staging. All other ports work with both. Tables and files of a load have its identity in their names, and no
other load reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpone_core.model.artifacts import LoadRef
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import PhysicalDesign, TableName
from dpone_core.model.table_schema import NO_COLUMNS, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.control import HeldRow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageColumns:
    """Load-constant technical columns (name -> text value) and the deterministic row id.

    Timestamps are ISO 8601 UTC text, ids text. With `row_id_columns` the sink computes, in its own SQL,
    `__dpone__row_id` = lower-case hex sha256 over the canonical JSON of
    `{"key":{col:val},"source_schema":..,"source_table":..,"source_type":..}` (LIFE-42).
    """

    constants: Mapping[str, str] = field(default_factory=dict)
    row_id_columns: tuple[str, ...] = ()
    source_type: str = ""
    source_schema: str = ""
    source_table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRequest:
    """What one load asks of a sink; a legacy sink writes to the target where a staged sink writes to staging.

    `schema` holds the columns of the payload; staging and target hold these and then the lineage columns, in this
    order. Staged rows get a lineage value as a DEFAULT that is constant for the load. The DEFAULT (not the column) is
    removed before publication, so that the definition of the target names no load. `unique_key` identifies a row for
    incremental_merge. `target_only` names payload columns that the source does not have: batches carry NULL there, and
    a merge keeps the target's value in rows that it updates. `added` are nullable columns that the target lacks and the
    publication adds, together with the rows or not at all (`schema_evolution: add_columns`). `fence` is the lease of
    the load; a sink with transactions refuses a publication whose lease another load has.
    """

    identity: LoadIdentity
    target: TableName
    staging_schema: str | None
    schema: TableSchema
    strategy: StrategyMode
    physical_design: PhysicalDesign
    lineage: LineageColumns
    unique_key: tuple[str, ...] = ()
    target_only: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    added: TableSchema = NO_COLUMNS
    fence: HeldRow | None = None

    @property
    def ref(self) -> LoadRef:
        """The identity and target that find this load again."""
        return LoadRef(
            identity=self.identity,
            target=self.target,
            staging_schema=self.staging_schema,
            cluster=self.physical_design.cluster,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedHandle:
    """The staging dataset of one load. `staged_rows` was counted in the sink, not by the client that sent the rows."""

    request: StageRequest
    table: TableName
    payload_schema: TableSchema
    staged_rows: int

    @property
    def ref(self) -> LoadRef:
        return self.request.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageProjection:
    """Which lineage columns hold the values of this load in every staged row, and how many rows do."""

    columns: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeResult:
    """Rows as the sink counted them: `inserted` by this load, `updated` in place, `total` in the target after it.

    A merge counts a staged row whose key was in the target as updated, any other as inserted.
    """

    finaliser: str
    inserted_rows: int
    updated_rows: int
    total_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A table or directory that an interrupted load left behind; it is reported and never read."""

    table: TableName
    role: str


class StagedLoadPort(Protocol):
    """Loads in this order: stage, project_lineage, finalize, cleanup.

    `finalize` alone is the commit boundary: before it the target is unchanged, after it the target holds the staged
    rows.
    """

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        """Creates run-scoped staging and writes every batch; on any error drops what it created.

        Raises ConnectorError `staged_row_count_mismatch` when the sink's count differs from rows sent, and for a
        merge `merge_key_null` or `merge_key_duplicate`, naming the key columns, never a value.
        """
        ...

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        """Reads back, from the staged rows themselves, which lineage columns hold this load's values."""
        ...

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        """The commit boundary: publishes the staged rows. Readers see it as atomically as the finaliser declares. When
        the answer is lost, the load marker in the target says whether it happened; if that cannot be read either, it
        raises CommitOutcomeUnknownError. A merge into a target that holds several rows of one staged key raises
        ConnectorError `merge_key_duplicate`. A partition replacement replaces the partitions that staged rows lie in;
        without staged rows it changes nothing."""
        ...

    def cleanup(self, ref: LoadRef) -> None:
        """Drops staging, shadow and backup of one load, before or after finalize; idempotent; never the target.

        Raises ConnectorError `staged_cleanup_failed`.
        """
        ...


class StagedRowsPort(Protocol):
    """Reads staged rows back as Arrow, for gates that compare values and not only counts. Changes nothing."""

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        """The Arrow types `read_back` will deliver for this payload, known before anything is staged."""
        ...

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        """Every staged row once, payload columns only, in any order, exactly of `arrow_schema`; memory is bounded
        whatever the number of rows. Raises ConnectorError `staged_rows_unreadable`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyLoadResult:
    """`written_rows` are this load's rows, re-read from the target; `total_rows` the rows of the whole target.

    `total_rows` is None where knowing it would mean reading the whole target.
    """

    finaliser: str
    written_rows: int
    total_rows: int | None


class LegacyLoadPort(Protocol):
    """Writes rows directly into a target that has no staging.

    The rows are never complete while the target is unchanged, so gates run after `load` has returned. The rows of a
    load stay recognisable in the target and are counted there, not by the writer. Identity and target name the load in
    every call; `staging_schema` is ignored.
    """

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        """The commit boundary: writes the rows. It is no more atomic for readers than the finaliser declares. After an
        error before anything is visible it removes what it wrote and raises the error; once something is visible it
        raises CommitOutcomeUnknownError. A second call with the same identity replaces the rows of the first."""
        ...

    def has_rows(self, ref: LoadRef) -> bool:
        """Whether anything of the load is visible to readers of the target right now."""
        ...

    def discard(self, ref: LoadRef) -> None:
        """Removes what the load wrote and did not make visible; repeatable; never changes the visible target."""
        ...

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        """The Arrow types `read_back` delivers for this payload."""
        ...

    def read_back(self, request: StageRequest) -> Iterator[pa.RecordBatch]:
        """This load's rows once, payload columns only, re-read from the target in any order; bounded memory.

        Raises ConnectorError `written_rows_unreadable`.
        """
        ...


class TargetPort(Protocol):
    """Describes a target; changes nothing in it and reads no rows."""

    def describe_target(self, table: TableName) -> TableSchema | None:
        """Schema of the existing target, None when absent; framework columns included."""
        ...

    def preflight(self, request: StageRequest) -> None:
        """Checks the finaliser's assumptions on scratch objects and the physical design against an existing target.

        Raises ConnectorError `finaliser_assumption_failed`, `physical_design_mismatch` or `schema_evolution_refused`;
        mutates nothing.
        """
        ...

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        """Staging, shadow and backup objects of any load of this target that still exist."""
        ...


class RevocationPort(Protocol):
    """Takes the right to publish from earlier loads of a target, by taking away what they publish from. For sinks that
    cannot check a lease in the transaction that publishes."""

    def revoke(self, ref: LoadRef, keep: frozenset[str]) -> tuple[str, ...]:
        """Renames what other loads of the target of `ref` have staged, but not `keep`, and waits for their statements:
        from then on none of them changes the target. What was renamed is kept, as proof of what they did. Returns the
        names it had.

        Raises ConnectorError `load_in_progress` when a statement of an earlier load does not end."""
        ...


class PublicationPort(Protocol):
    """Finds out what publications did to a target; changes nothing. A sink without this port leaves the outcome of
    every load of a dead process unknown, and its commits are not counted."""

    def row_count(self, target: TableName) -> int | None:
        """Rows in the target, 0 without one; None where counting would mean reading the whole target."""
        ...

    def last_marker(self, target: TableName) -> str | None:
        """The marker of the load that published last; '' when the target has none, None when there is no target."""
        ...

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        """Whether the target holds the rows of the append that `ref` names; None when that cannot be known.

        `marker_before` is what `last_marker` answered just before that load committed. The load had rows and held the
        target's lease.
        """
        ...
