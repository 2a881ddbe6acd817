"""A legacy sink in memory: no staging, each row marked with its load, one journal shared with the other fakes.

Journal lines: `sink.load`, `sink.publish` (before the rows become visible), `sink.published` (after), `sink.has_rows`,
`sink.discard`, `sink.read_back`. A failure at `sink.published` acts as a lost answer of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from dpone_core.errors import CommitOutcomeUnknownError
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.sink import LegacyLoadResult, StageRequest

from .builders import arrow_schema, batch_of
from .fake_keys import Row
from .fakes import MemoryTable, MemoryWarehouse, convert_rows, refuse_payload, written_schema

_OWNER = "\0load"
"""Key under which a row of a legacy target keeps its load; no column can have this name."""


class MemoryLegacy:
    """LegacyLoadPort over a MemoryWarehouse."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self._warehouse = warehouse

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        journal = self._warehouse.journal
        journal.write("sink.load")
        refuse_payload(request)
        owner = _owner(request.identity)
        written = [row | {_OWNER: owner} for batch in batches for row in convert_rows(self._warehouse, request, batch)]
        journal.write("sink.publish")
        table = self._warehouse.tables.setdefault(request.target, MemoryTable(schema=written_schema(request)))
        appends = request.strategy is StrategyMode.INCREMENTAL_APPEND
        kept = [row for row in table.rows if row[_OWNER] != owner] if appends else []
        table.schema = table.schema.widened(request.added) if appends else written_schema(request)
        table.rows[:] = [dict.fromkeys(table.schema.names) | row for row in (*kept, *written)]
        try:
            journal.write("sink.published")
        except Exception as error:
            raise CommitOutcomeUnknownError("the answer of the load is lost") from error
        return LegacyLoadResult(
            finaliser="memory", written_rows=len(self._rows(request.ref)), total_rows=len(table.rows)
        )

    def has_rows(self, ref: LoadRef) -> bool:
        self._warehouse.journal.write("sink.has_rows")
        return bool(self._rows(ref))

    def discard(self, ref: LoadRef) -> None:
        self._warehouse.journal.write("sink.discard")

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, request: StageRequest) -> Iterator[pa.RecordBatch]:
        self._warehouse.journal.write("sink.read_back")
        yield batch_of(request.schema, self._rows(request.ref))

    def _rows(self, ref: LoadRef) -> list[Row]:
        table = self._warehouse.tables.get(ref.target)
        owner = _owner(ref.identity)
        return [] if table is None else [row for row in table.rows if row[_OWNER] == owner]


def legacy_ports(warehouse: MemoryWarehouse) -> SinkPorts:
    """The warehouse as a sink without staging and without statements."""
    return replace(
        warehouse.ports(),
        staged=None,
        staged_rows=None,
        statements=None,
        publications=None,
        legacy=MemoryLegacy(warehouse),
    )


def legacy_rows(warehouse: MemoryWarehouse, table: TableName) -> list[Row]:
    """Rows of a legacy target as a reader sees them."""
    return [{name: value for name, value in row.items() if name != _OWNER} for row in warehouse.tables[table].rows]


def _owner(identity: LoadIdentity) -> str:
    return f"{identity.run_id}|{identity.load_id}"
