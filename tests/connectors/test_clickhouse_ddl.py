"""Every statement that changes something on ClickHouse, as text: on a cluster each one says ON CLUSTER (CH-01).

The statements are recorded from real loads on the embedded engine. It knows no cluster, so ON CLUSTER is taken out and
ReplicatedMergeTree becomes MergeTree before a recorded statement is run, and the other way round when the catalogue is
asked: what a cluster does with them is UNVERIFIED.
`DPONE_WRITE_GOLDENS=1` writes the files anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from dpone_core.connectors.clickhouse.open import ports_of
from dpone_core.connectors.clickhouse.session import Session, connect_embedded
from dpone_core.declared import clickhouse as descriptor
from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LineageColumns, StageRequest
from dpone_core.testing.builders import TEXT, batch_of, stage_request
from dpone_core.testing.open_sink import MERGE, REPLACE, OpenSink
from dpone_core.testing.port_conformance import control_row, control_table
from dpone_core.testing.replace_conformance import BY_NAME, parts
from tests.connectors.sessions import APPEND, FULL_REFRESH

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "clickhouse"
CLUSTER: Final = "main"
ON_CLUSTER: Final = f" ON CLUSTER `{CLUSTER}`"
TARGET: Final = TableName(schema="raw", name="orders")
WIDE: Final = TableSchema(columns=(*BY_NAME.columns, Column(name="note", type=TEXT)))
LINEAGE: Final = LineageColumns(constants={LOAD_ID: "L2"}, row_id_columns=("id",), source_type="sqlite")


class RecordingSession(Session):
    """Runs what it is told without the cluster, and keeps the text as it was told."""

    statements: list[str]
    clustered: bool = False

    def command(self, sql: str, **said: str) -> None:
        self.statements.append(sql)
        super().command(alone(sql), **said)

    def attempt(self, sql: str) -> Exception | None:
        self.statements.append(sql)
        return super().attempt(alone(sql))

    def rows(self, sql: str, parameters: Mapping[str, str] | None = None) -> list[list[Any]]:
        found = super().rows(sql, parameters)
        if self.clustered and sql.startswith("SELECT engine"):
            return [[str(engine).replace("MergeTree", "ReplicatedMergeTree"), *facts] for engine, *facts in found]
        return found

    def insert(self, table: str, batches: Sequence[pa.RecordBatch], *, token: str | None, message: str) -> None:
        settings = f"insert_deduplication_token = '{token}'" if token is not None else "insert_deduplicate = 0"
        self.statements.append(f"INSERT INTO {table} SETTINGS {settings} FORMAT ArrowStream")
        super().insert(table, batches, token=token, message=message)

    def insert_json(self, table: str, names: Sequence[str], lines: Sequence[str], *, message: str) -> None:
        self.statements.append(f"INSERT INTO {table} SETTINGS insert_deduplicate = 0 FORMAT JSONEachRow")
        super().insert_json(table, names, lines, message=message)


def alone(sql: str) -> str:
    return sql.replace(ON_CLUSTER, "").replace("ReplicatedMergeTree", "MergeTree")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingSession]:
    directory = str(tmp_path_factory.mktemp("chdb") / "warehouse")
    session = RecordingSession(partial(connect_embedded, directory), default_schema="default", embedded=True)
    session.statements = []
    yield session
    session.close()


@pytest.fixture
def sink(session: RecordingSession) -> OpenSink:
    """With no target."""
    session.command("DROP DATABASE IF EXISTS raw SYNC")
    session.command("DROP DATABASE IF EXISTS ops SYNC")
    session.statements.clear()
    session.clustered = False
    return OpenSink(
        descriptor=descriptor.DESCRIPTOR, ports=ports_of(session), rows=lambda table: [], definition=lambda table: ""
    )


def request(strategy: StrategyMode, load: str = "L2", *, cluster: str | None, **changes: object) -> StageRequest:
    plain = stage_request(
        TARGET, load, strategy=strategy, schema=BY_NAME, staging_schema="ops", lineage=LINEAGE, unique_key=("id",)
    )
    design = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="part"), cluster=cluster)
    return replace(plain, physical_design=design, **changes)  # type: ignore[arg-type]


def existing(sink: OpenSink, session: RecordingSession, schema: TableSchema = BY_NAME) -> None:
    rows = [{"id": i, "part": part} for i, part in ((1, "a"), (2, "b"), (3, "c"))]
    sink.load(request(FULL_REFRESH, "L1", cluster=None, schema=schema), batch_of(schema, rows))
    session.statements.clear()


def load(strategy: StrategyMode, *rows: tuple[int, str], target: bool = True) -> Callable[..., None]:
    def run(sink: OpenSink, session: RecordingSession, cluster: str | None) -> None:
        if target:
            existing(sink, session)
        sink.load(request(strategy, cluster=cluster), parts(*rows))

    return run


def merge_around_a_column(sink: OpenSink, session: RecordingSession, cluster: str | None) -> None:
    existing(sink, session, WIDE)
    wanted = request(MERGE, cluster=cluster, schema=WIDE, target_only=("note",))
    sink.load(wanted, batch_of(WIDE, [{"id": 2, "part": "b"}, {"id": 4, "part": "b"}]))


def preflight(sink: OpenSink, session: RecordingSession, cluster: str | None) -> None:
    for strategy in StrategyMode:
        session.statements.append(f"-- {strategy}")
        sink.ports.target.preflight(request(strategy, cluster=cluster))


SCENES: Final[dict[str, Callable[[OpenSink, RecordingSession, str | None], None]]] = {
    "absent_target": load(FULL_REFRESH, (4, "b"), target=False),
    "absent_target_merge": load(MERGE, (4, "b"), target=False),
    "full_refresh": load(FULL_REFRESH, (4, "b")),
    "append_one_partition": load(APPEND, (4, "b")),
    "append_partitions": load(APPEND, (4, "b"), (5, "d")),
    "merge": load(MERGE, (2, "b"), (3, "d"), (4, "d")),
    "merge_around_a_column": merge_around_a_column,
    "replace_one_partition": load(REPLACE, (4, "b")),
    "replace_partitions": load(REPLACE, (4, "b"), (5, "d")),
    "preflight": preflight,
}


@pytest.mark.parametrize("cluster", [None, CLUSTER], ids=["alone", "cluster"])
@pytest.mark.parametrize("scene", SCENES)
def test_statements_are_the_golden_ones(
    sink: OpenSink, session: RecordingSession, scene: str, cluster: str | None
) -> None:
    session.clustered = cluster is not None
    SCENES[scene](sink, session, cluster)
    compared(session, GOLDEN / f"{scene}{'_on_cluster' if cluster else ''}.sql")


def test_control_tables_stand_on_the_connected_server(sink: OpenSink, session: RecordingSession) -> None:
    """They belong to the connection, which names one server, and not to a manifest's cluster."""
    control, table = sink.ports.control, replace(control_table(), schema="ops", name="__dpone__example")
    assert control is not None
    control.ensure(table)
    assert control.compare_and_set(table, {"k": "a"}, None, control_row("a"))
    assert control.compare_and_set(table, {"k": "a"}, {"k": "a"}, None)
    compared(session, GOLDEN / "control.sql")


def test_a_target_that_each_node_has_for_itself_is_refused_on_a_cluster(
    sink: OpenSink, session: RecordingSession
) -> None:
    """EXCHANGE ON CLUSTER would publish an empty table wherever this load's rows are not (CH-21)."""
    existing(sink, session)
    for step in (sink.ports.target.preflight, lambda r: sink.staged.stage(r, iter([]))):
        with pytest.raises(ConnectorError) as raised:
            step(request(FULL_REFRESH, cluster=CLUSTER))
        assert raised.value.code == "physical_design_mismatch" and raised.value.fix is not None
    assert sink.ports.target.describe_target(TARGET) is not None


def compared(session: RecordingSession, path: Path) -> None:
    said = "".join(f"{statement}{'' if statement.startswith('--') else ';'}\n" for statement in session.statements)
    if os.environ.get("DPONE_WRITE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said, encoding="utf-8")
    assert said == path.read_text("utf-8")


@pytest.mark.parametrize("scene", SCENES)
def test_a_cluster_is_the_only_difference(scene: str) -> None:
    plain = (GOLDEN / f"{scene}.sql").read_text("utf-8")
    clustered = (GOLDEN / f"{scene}_on_cluster.sql").read_text("utf-8")
    assert "CLUSTER" not in plain and "Replicated" not in plain
    assert alone(clustered) == plain


@pytest.mark.parametrize("scene", SCENES)
def test_every_ddl_statement_names_the_cluster(sink: OpenSink, session: RecordingSession, scene: str) -> None:
    """What a load sends now, and not what a file says that it once sent."""
    session.clustered = True
    SCENES[scene](sink, session, CLUSTER)
    statements = [statement.lstrip() for statement in session.statements]
    ddl = [sent for sent in statements if re.match("CREATE|DROP|ALTER|RENAME|EXCHANGE|TRUNCATE|SYSTEM", sent)]
    assert ddl and all(ON_CLUSTER in sent for sent in ddl)
    assert all(re.match("INSERT|-- ", sent) for sent in set(statements) - set(ddl))
