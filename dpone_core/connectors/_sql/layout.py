"""The columns of a staging table, and whether that table replaces the target or its rows are copied into the target.

For engines that publish in a transaction. It is decided before the first row, and checked again inside that
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import ROW_ID, lineage_schema
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

_MISMATCH: Final = "physical_design_mismatch"
Stored = TypeVar("Stored")


class SinkTable(Protocol):
    """A table of the sink as its catalogue describes it.

    `schema` leaves out the columns that only the engine fills; they are in `computed`. `defaulted` have
    a DEFAULT. `note` is the text that may hold
    a load marker (the comment of the table, or an extended property); '' where there is none.
    """

    @property
    def schema(self) -> TableSchema: ...

    @property
    def computed(self) -> tuple[str, ...]: ...

    @property
    def defaulted(self) -> tuple[str, ...]: ...

    @property
    def note(self) -> str: ...

    def declared_type(self, column: Column) -> str:
        """The type of one of its columns as the engine writes it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutDialect(Generic[Stored]):
    """How one engine defines a staging column: `created` for a column that the load creates, `existing` for a column of
    the target in the target's own type.

    `described_type` is the type that the catalogue will show for a created column. Without `replaces_attached` the
    engine cannot replace, in one transaction, the rows of a table that has something attached (an index, a view, a
    grant).
    """

    created: Callable[[Column, StageRequest], Stored]
    existing: Callable[[Column, str], Stored]
    described_type: Callable[[Column], ColumnType]
    replaces_attached: bool = True


def lineage_names(request: StageRequest) -> tuple[str, ...]:
    row_id = (ROW_ID,) if request.lineage.row_id_columns else ()
    return (*request.lineage.constants, *row_id)


def may_swap(request: StageRequest, target: SinkTable | None, attachments: tuple[str, ...]) -> bool:
    """Whether the staging table may take the target's place: there is no target yet, or a full refresh replaces a
    target to which nothing is attached."""
    return target is None or (request.strategy is StrategyMode.FULL_REFRESH and not attachments)


def stored_columns(
    dialect: LayoutDialect[Stored], request: StageRequest, target: SinkTable | None, attachments: tuple[str, ...]
) -> tuple[Stored, ...]:
    """The payload columns of the staging table. Where rows will be copied into the target they have the target's own
    types. Raises ConnectorError `physical_design_mismatch` or `sink_column_unsupported` when the target cannot take
    them."""
    if target is None:
        return tuple(dialect.created(column, request) for column in request.schema.columns)
    _refuse_computed(request, target)
    for name in request.defaults:
        if name not in target.defaulted:
            raise ConnectorError(
                f"column {name!r} of the target has no DEFAULT",
                code=_MISMATCH,
                fix="give it one, or take it out of sink.options.target_defaults",
            )
    if may_swap(request, target, attachments):
        return tuple(_stored_like_target(dialect, column, request, target) for column in request.schema.columns)
    if request.strategy is StrategyMode.FULL_REFRESH:
        refuse_different(dialect, request, target, attachments)
    return tuple(_stored_for_copy(dialect, column, request, target) for column in request.schema.columns)


def _refuse_computed(request: StageRequest, target: SinkTable) -> None:
    for name in target.computed:
        if request.schema.find(name) is not None:
            raise ConnectorError(
                f"column {name!r} is computed by the target and cannot be loaded",
                code=_MISMATCH,
                fix="leave it out in options.query",
            )


def refuse_different(
    dialect: LayoutDialect[Stored], request: StageRequest, target: SinkTable, attachments: tuple[str, ...]
) -> None:
    """Raises ConnectorError `physical_design_mismatch` when a full refresh must keep the table (something is attached
    to it) and its columns are not those of the source."""
    if not dialect.replaces_attached:
        raise ConnectorError(
            f"the target has {', '.join(attachments)} that a full refresh by swap would lose", code=_MISMATCH
        )
    wanted = TableSchema(columns=(*request.schema.columns, *lineage_schema(lineage_names(request)).columns))
    differences: list[str] = []
    for column in wanted.columns:
        there = target.schema.find(column.name)
        if there is None:
            differences.append(f"column {column.name!r} is not in the target")
        elif not there.type.same_values(dialect.described_type(column)):
            differences.append(f"column {column.name!r} is {column.type} and {there.type} in the target")
    differences += [
        f"column {name!r} is in the target only" for name in target.schema.names if wanted.find(name) is None
    ]
    if differences:
        raise ConnectorError(
            f"the target has {', '.join(attachments)}, which a new table would not have,"
            f" and other columns than the source: {'; '.join(differences)}",
            code=_MISMATCH,
            fix="change the target's columns by hand, or remove what is attached to it",
        )


def _stored_like_target(
    dialect: LayoutDialect[Stored], column: Column, request: StageRequest, target: SinkTable
) -> Stored:
    """The source's column in the target's own type (jsonb, an enum, money) if both types hold the same values,
    otherwise in the type of a created column."""
    there = target.schema.find(column.name)
    if there is None or not there.type.same_values(column.type):
        return dialect.created(column, request)
    return dialect.existing(replace(there, nullable=column.nullable), target.declared_type(there))


def _stored_for_copy(
    dialect: LayoutDialect[Stored], column: Column, request: StageRequest, target: SinkTable
) -> Stored:
    there = target.schema.find(column.name)
    if there is None:
        if request.added.find(column.name) is not None:
            return dialect.created(replace(column, nullable=True), request)
        raise ConnectorError(f"the target has no column {column.name!r}", code=_MISMATCH)
    if there.type.kind is ColumnKind.UNSUPPORTED:
        raise ConnectorError(
            f"column {column.name!r}: the target's type {there.type.native} cannot take every value exactly",
            code="sink_column_unsupported",
        )
    return dialect.existing(there, target.declared_type(there))
