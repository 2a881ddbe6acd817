"""Valid values with defaults; a test names only the field that matters."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.model.connector import ConnectorType
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import LoadConfig, SinkConfig, SourceConfig, StrategyConfig, TableName
from dpone_core.model.vocabulary import Boundary, LoadPath, StrategyMode
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.policy import QualityGatePolicy, quality_section
from dpone_core.quality.receipt import QualityGateReceipt
from dpone_core.quality.snapshot import QualityExecutionSnapshot

ROW_COUNT: dict[str, object] = {"type": "row_count_reconciliation"}
MIN_ROWS: dict[str, object] = {"type": "min_rows", "threshold": 1}
TYPED_HASH: dict[str, object] = {"type": "typed_hash_reconciliation"}


def load_config(quality: object = None) -> LoadConfig:
    authored: Mapping[str, object] = {} if quality is None else quality  # type: ignore[assignment]
    return LoadConfig(
        process="orders",
        manifest="orders.yaml",
        source=SourceConfig(type=ConnectorType.SQLITE, table=TableName(schema=None, name="orders")),
        sink=SinkConfig(
            type=ConnectorType.CLICKHOUSE,
            table=TableName(schema="raw", name="orders"),
            strategy=StrategyConfig(mode=StrategyMode.FULL_REFRESH),
        ),
        quality=authored,
    )


def policy(*gates: Mapping[str, object]) -> QualityGatePolicy:
    return QualityGatePolicy.from_section(quality_section({"gates": list(gates)}))


def rows(count: int | None, **hashes: str) -> QualitySideSnapshot:
    return QualitySideSnapshot(row_count=count, **hashes)


def identity(load_id: str = "01KB6Q4X7D8M1T9N3VZ5C2R0AE", run_id: str = "r1") -> LoadIdentity:
    return LoadIdentity(run_id=RunId(run_id), load_id=LoadId(load_id), attempt=1)


def execution(
    *gates: Mapping[str, object], path: LoadPath | None = LoadPath.STAGED, load_id: str = "01KB6Q4X7D8M1T9N3VZ5C2R0AE"
) -> QualityGateExecution:
    snapshot = QualityExecutionSnapshot.from_load_config(load_config({"gates": list(gates)}))
    made = QualityGateExecution(snapshot, identity(load_id))
    if path is not None:
        made.select_path(path)
    return made


def judged(owner: QualityGateExecution, boundary: Boundary = Boundary.PRE_COMMIT) -> QualityGateReceipt:
    """The receipt of one row on each side."""
    return owner.evaluate(boundary=boundary, source=rows(1), target=rows(1))
