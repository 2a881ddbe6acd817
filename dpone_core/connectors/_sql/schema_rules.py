"""Checks that every sink runs on a payload before the first row, and the error codes of a full disk or memory."""

from __future__ import annotations

import errno
from typing import Final

from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.load_config import PartitionGranularity
from dpone_core.model.table_schema import ColumnKind, TableSchema, is_framework_column
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest

from .keys import check_merge_key
from .row_id import row_id_refusal

_DATED: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
_MEMORY_TEXTS: Final = ("memory_limit_exceeded", "out of memory error")
_DISK_TEXTS: Final = ("no space left on device", "not_enough_space", "disk full", "file too large")


def check_payload(request: StageRequest) -> None:
    """Refuses an empty projection, framework names, repeated names, unsupported columns, impossible keys of rows or
    partitions, impossible row ids, and added columns that are not nullable."""
    check_columns(request.schema)
    _require_nullable(request.added)
    for name in request.physical_design.order_by:
        column = request.schema.find(name)
        if column is None:
            raise ConnectorError(
                f"order_by column {name!r} is not a column of the source", code="physical_design_mismatch"
            )
    check_merge_key(request)
    check_partition_key(request)
    refusal = row_id_refusal(request.schema, request.lineage.row_id_columns)
    if refusal is not None:
        raise ConnectorError(
            f"column {refusal.column!r} cannot be part of a row id: {refusal.reason}", code="row_identity_unsupported"
        )


def check_partition_key(request: StageRequest) -> None:
    """The partition column must be extracted, and a date or time where a day, month or year is taken of it."""
    partition = request.physical_design.partition_by
    if partition is None:
        if request.strategy is StrategyMode.PARTITION_REPLACE:
            raise ConnectorError(
                "partition_replace needs physical_design.partition_by, which is missing",
                code="physical_design_mismatch",
            )
        return
    column = request.schema.find(partition.column)
    if column is None or partition.column in request.target_only:
        raise ConnectorError(
            f"partition column {partition.column!r} is not a column of the source", code="physical_design_mismatch"
        )
    if partition.granularity is not PartitionGranularity.VALUE and column.type.kind not in _DATED:
        raise ConnectorError(
            f"partition column {partition.column!r} is {column.type}, which cannot be divided by"
            f" {partition.granularity}",
            code="physical_design_mismatch",
            fix="partition by value, or by a date or timestamp column",
        )


def refuse_case_twins(schema: TableSchema, engine: str) -> None:
    """Raises ConnectorError `sink_column_unsupported`, with both names, for columns that the engine takes for one."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise ConnectorError(
                f"columns {other!r} and {name!r} differ by case only, which {engine} takes for one name",
                code="sink_column_unsupported",
                fix="rename one of them by an alias in options.query",
            )


def refuse_width(request: StageRequest, engine: str, most_columns: int) -> None:
    """Raises ConnectorError `sink_column_unsupported` for more columns, technical ones included, than a table takes."""
    lineage = request.lineage
    width = len(request.schema.columns) + len(lineage.constants) + bool(lineage.row_id_columns)
    if width > most_columns:
        raise ConnectorError(
            f"the target would have {width} columns, and a table of {engine} has at most {most_columns}",
            code="sink_column_unsupported",
            fix="leave columns out in options.query, or spread them over several tables",
        )


def refuse_layout(request: StageRequest, engine: str, *, fix: str | None = None) -> None:
    """Refuses partitions and a cluster on an engine where dpone creates tables without them; `partition_replace` may
    name its partition column. Raises ConnectorError `physical_design_mismatch`."""
    design = request.physical_design
    partitioned = design.partition_by is not None and request.strategy is not StrategyMode.PARTITION_REPLACE
    if partitioned or design.cluster is not None:
        raise ConnectorError(
            f"dpone creates {engine} tables without partitions or a cluster", code="physical_design_mismatch", fix=fix
        )


def _require_nullable(added: TableSchema) -> None:
    """Refuses added columns that are not nullable: rows already in the target have no value for them. Raises
    ConnectorError `schema_evolution_refused`."""
    for column in added.columns:
        if not column.nullable:
            raise ConnectorError(
                f"an added column must be nullable; column {column.name!r} is not", code="schema_evolution_refused"
            )


def check_columns(schema: TableSchema) -> None:
    """Refuses a schema that cannot be loaded: no columns, reserved or repeated names, unsupported types. Sources call
    it when they describe, sinks when they stage."""
    if not schema.columns:
        raise ConnectorError("the source has no columns to load", code="empty_projection")
    for column in schema.columns:
        if is_framework_column(column.name):
            raise ConnectorError(
                f"source column {column.name!r} uses the reserved prefix __dpone__",
                code="framework_column_in_source",
                fix="rename it in a query",
            )
        if column.type.kind is ColumnKind.UNSUPPORTED:
            raise ConnectorError(
                f"column {column.name!r} has a type that cannot be loaded: {column.type}",
                code="source_column_unsupported",
                fix="cast or leave it out in a query",
            )
    if len(set(schema.names)) != len(schema.names):
        raise ConnectorError("two columns of the source have the same name", code="source_column_unsupported")


def is_disk_full(error: BaseException) -> bool:
    """Whether an exception or one of its causes says that a disk or quota is full."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            return True
        if any(text in str(seen).lower() for text in _DISK_TEXTS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def foreign_error(
    error: BaseException, message: str, code: str, *, kind: type[ConnectorError] = ConnectorError
) -> ETLExecutionError:
    """A driver's exception as a ConnectorError or the given `kind`. An error of dpone passes unchanged; a full disk and
    exhausted memory get codes of their own. The driver's text is never copied."""
    if isinstance(error, ETLExecutionError):
        return error
    if is_disk_full(error):
        return ConnectorError("no space left where the engine or its temporary files write", code="disk_full")
    if any(text in str(error).lower() for text in _MEMORY_TEXTS):
        return ConnectorError("the engine reached its memory limit", code="engine_memory_exceeded")
    return kind(message, code=code)
