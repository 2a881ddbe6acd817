"""An open sink for the conformance suites, and requests for each strategy it may declare."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pytest

from dpone_core.model.connector import ConnectorDescriptor
from dpone_core.model.load_config import PartitionBy, TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.sink import LegacyLoadPort, StagedHandle, StagedLoadPort, StageRequest

from .builders import stage_request

STRATEGIES: Final = tuple(StrategyMode)
MERGE: Final = StrategyMode.INCREMENTAL_MERGE
REPLACE: Final = StrategyMode.PARTITION_REPLACE
_counter: Final = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSink:
    """An open sink under test and two ways to look at it that no port offers.

    `rows` returns a table's rows as mappings; `definition` its whole definition as text, comments included.
    """

    descriptor: ConnectorDescriptor
    ports: SinkPorts
    rows: Callable[[TableName], list[dict[str, object]]]
    definition: Callable[[TableName], str]

    @property
    def staged(self) -> StagedLoadPort:
        assert self.ports.staged is not None
        return self.ports.staged

    @property
    def legacy(self) -> LegacyLoadPort:
        assert self.ports.legacy is not None
        return self.ports.legacy

    def ids(self, table: TableName) -> list[object]:
        """Values of column `id` in the table, sorted."""
        return sorted((row["id"] for row in self.rows(table)), key=str)

    def load(self, request: StageRequest, *batches: pa.RecordBatch) -> StagedHandle:
        """Stages, publishes and cleans up; returns the handle."""
        handle = self.staged.stage(request, iter(batches))
        self.staged.finalize(handle)
        self.staged.cleanup(handle.ref)
        return handle


def fresh_table(name: str = "orders") -> TableName:
    """A table name that no other test uses."""
    return TableName(schema="conformance", name=f"{name}_{next(_counter)}")


def require(sink: OpenSink, strategy: StrategyMode) -> None:
    """Skips the test when the sink does not declare the strategy; such a load is refused when it is planned."""
    if sink.descriptor.sink is None or sink.descriptor.sink.finaliser_for(strategy) is None:
        pytest.skip(f"{sink.descriptor.type} declares no finaliser for {strategy}")


def strategy_request(
    sink: OpenSink, table: TableName, strategy: StrategyMode, load: str = "L1", *, like: StrategyMode | None = None
) -> StageRequest:
    """A request over ORDERS with what the strategy needs: `id` is the key of a merge and the partition of a
    replacement. `like` prepares a target for a later load of that strategy."""
    require(sink, strategy)
    require(sink, like or strategy)
    request = stage_request(table, load, strategy=strategy, order_by=("id",))
    keyed = replace(request, unique_key=("id",)) if strategy is MERGE else request
    if REPLACE not in (strategy, like):
        return keyed
    return replace(keyed, physical_design=replace(keyed.physical_design, partition_by=PartitionBy(column="id")))
