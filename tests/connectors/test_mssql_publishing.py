"""Publishing on SQL Server: golden T-SQL, nothing that hangs on a target is lost, and a lost answer tells the truth.

Wire-tested against a TDS double, which says nothing of locks. `DPONE_WRITE_GOLDENS=1` writes the golden files anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import sqlglot

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.lineage import LOAD_ID
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LineageColumns, StagedHandle
from dpone_core.testing.builders import INT64, ORDERS, TEXT, orders, stage_request, with_column
from dpone_core.testing.port_conformance import control_row, control_table
from dpone_core.testing.replace_conformance import DATE, schema_with_part
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, FULL_REFRESH, mssql_sink
from tests.connectors.tds_double import Fault, TdsDouble, tds_double
from tests.connectors.unixodbc import require_unixodbc
from tests.marks import first_quick

MERGE: Final = StrategyMode.INCREMENTAL_MERGE
REPLACE: Final = StrategyMode.PARTITION_REPLACE
GOLDEN: Final = Path(__file__).parents[1] / "golden" / "mssql"
WANTED: Final = {FULL_REFRESH: [2, 3], APPEND: [1, 2, 2, 3], MERGE: [1, 2, 3], REPLACE: [1, 2, 3]}
STRATEGIES: Final = list(WANTED)
_OBJECT: Final = re.compile(r"((?:object_id|referenced_id|major_id)) = \d+")


@pytest.fixture(scope="module")
def double() -> Iterator[TdsDouble]:
    with tds_double() as found:
        yield found


@pytest.fixture
def sink(double: TdsDouble) -> Iterator[OpenSink]:
    double.faults.clear()
    double.native("DELETE FROM double_sys.denied")
    with mssql_sink(double.uri, lock_timeout_seconds=1) as opened:
        yield opened
    double.faults.clear()


def staged(sink: OpenSink, strategy: StrategyMode, table: TableName | None = None) -> tuple[TableName, StagedHandle]:
    """A target that holds rows 1 and 2, and a staged load of row 2 anew and row 3."""
    table = table or fresh_table()
    sink.load(stage_request(table, "L0"), orders(1, 2))
    request = replace(stage_request(table, "L1", strategy=strategy), unique_key=("id",))
    if strategy is REPLACE:
        request = replace(request, physical_design=PhysicalDesign(partition_by=PartitionBy(column="id")))
    return table, sink.staged.stage(request, iter([orders(2, 3, name="new")]))


def compared(name: str, statements: list[str]) -> None:
    """Each statement by itself is T-SQL to sqlglot; procedures are known to it as commands."""
    text = _OBJECT.sub(r"\1 = 4711", ";\n".join(statements) + ";\n")
    path = GOLDEN / f"{name}.sql"
    if os.environ.get("DPONE_WRITE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    for statement in statements:
        assert all(tree is not None for tree in sqlglot.parse(statement, read="tsql"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_publishes_by_the_golden_statements(
    double: TdsDouble, sink: OpenSink, strategy: StrategyMode
) -> None:
    _, handle = staged(sink, strategy, TableName(schema="golden", name=f"t_{strategy.value}"))
    double.received.clear()
    sink.staged.finalize(handle)
    compared(f"sink_{strategy.value}", list(double.received))
    sink.staged.cleanup(handle.ref)


def test_an_attached_target_is_replaced_by_the_golden_statements(double: TdsDouble, sink: OpenSink) -> None:
    table = TableName(schema="golden", name="keyed")
    sink.load(stage_request(table, "L0"), orders(1))
    double.run("CREATE INDEX ix ON golden.keyed (id)")
    handle = sink.staged.stage(stage_request(table, "L1"), iter([orders(3)]))
    double.received.clear()
    assert sink.staged.finalize(handle).finaliser == "replace_in_transaction"
    compared("sink_full_refresh_attached", list(double.received))
    sink.staged.cleanup(handle.ref)


def test_staging_and_months_are_the_golden_statements(double: TdsDouble, sink: OpenSink) -> None:
    table = TableName(schema="golden", name="staged")
    double.received.clear()
    lineage = LineageColumns(constants={LOAD_ID: "it's"}, row_id_columns=("id", "name"), source_type="sqlite")
    schema = with_column(ORDERS, Column(name="name", type=TEXT, nullable=False))
    request = replace(stage_request(table, "L1", strategy=MERGE, schema=schema, lineage=lineage), unique_key=("name",))
    handle = sink.staged.stage(request, iter([orders(1).select(schema.names)]))
    sink.staged.project_lineage(handle)
    sink.staged.cleanup(handle.ref)
    compared("sink_staging", list(double.received))
    monthly = schema_with_part(DATE)
    by = PartitionBy(column="part", granularity=PartitionGranularity.MONTH)
    request = stage_request(table, "L2", strategy=REPLACE, schema=monthly, partition_by=by)
    sink.load(request)
    handle = sink.staged.stage(replace(request, identity=stage_request(table, "L3").identity), iter([]))
    double.received.clear()
    sink.staged.finalize(handle)
    compared("sink_partition_replace_month", [text for text in double.received if text.startswith("DELETE")])
    sink.staged.cleanup(handle.ref)


def test_text_keys_are_compared_by_their_bytes() -> None:
    """Neither case nor trailing blanks are the collation's to judge; an index still serves the plain comparison."""
    from dpone_core.connectors.mssql.sink.keys import same_key

    text = [Column(name="k", type=TEXT)]
    assert same_key(text, "a", "b") == (
        "a.[k] = b.[k] AND CAST(CAST(a.[k] AS nvarchar(max)) AS varbinary(max))"
        " = CAST(CAST(b.[k] AS nvarchar(max)) AS varbinary(max))"
    )


def test_control_rows_are_changed_by_the_golden_statements(double: TdsDouble, sink: OpenSink) -> None:
    assert sink.ports.control is not None
    table = replace(control_table(), schema="golden", name="control")
    double.received.clear()
    sink.ports.control.ensure(table)
    sink.ports.control.upsert(table, [control_row("a", note="x")])
    sink.ports.control.upsert(table, [control_row("a", note="y", seconds=1)])
    assert sink.ports.control.compare_and_set(table, {"k": "a"}, {"note": "y"}, None)
    compared("sink_control", list(double.received))


ATTACHED: Final = {
    "a trigger": "INSERT INTO double_sys.objects VALUES (-1, 'conformance', 'tr', 'TR', {oid}, NULL, NULL)",
    "a constraint": "INSERT INTO double_sys.objects VALUES (-1, 'conformance', 'ck', 'C ', {oid}, NULL, NULL)",
    "an index": "INSERT INTO double_sys.indexes VALUES ({oid}, 2)",
    "a foreign key of another table": "INSERT INTO double_sys.foreign_keys VALUES ({oid})",
    "a schema-bound view or function": "INSERT INTO double_sys.sql_expression_dependencies VALUES ({oid}, TRUE)",
    "grants": "INSERT INTO double_sys.database_permissions VALUES (1, {oid})",
    "extended properties": "INSERT INTO double_sys.extended_properties VALUES (1, {oid}, 0, 'MS_Description', 'x')",
    "statistics": "INSERT INTO double_sys.stats VALUES ({oid}, TRUE)",
    "change tracking": "INSERT INTO double_sys.change_tracking_tables VALUES ({oid})",
    "a security policy": "INSERT INTO double_sys.security_predicates VALUES ({oid})",
    "partitions or compression": "INSERT INTO double_sys.partitions VALUES ({oid}, 1, 2)",
    "versions, replication or memory storage": "INSERT INTO double_sys.tables VALUES ({oid}, 2, FALSE, FALSE, FALSE)",
    "another owner": "UPDATE double_sys.objects SET principal_id = 5 WHERE object_id = {oid}",
    "column settings": "UPDATE double_sys.columns SET is_masked = TRUE WHERE object_id = {oid} AND name = 'name'",
}


@pytest.mark.parametrize("what", ATTACHED)
def test_a_target_with_something_attached_keeps_it(double: TdsDouble, sink: OpenSink, what: str) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    ask = f"SELECT object_id FROM double_sys.objects WHERE name = '{table.name}' AND type = 'U'"
    before = double.native(ask)
    double.native(ATTACHED[what].format(oid=before[0][0]))
    handle = sink.staged.stage(stage_request(table, "L1"), iter([orders(3)]))
    assert sink.staged.finalize(handle).finaliser == "replace_in_transaction"
    sink.staged.cleanup(handle.ref)
    assert double.native(ask) == before and sink.ids(table) == [3]
    wider = with_column(ORDERS, Column(name="note", type=TEXT))
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(stage_request(table, "L2", schema=wider))
    assert raised.value.code == "physical_design_mismatch" and what in str(raised.value)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_lost_answer_of_the_commit_is_settled_by_the_marker(
    double: TdsDouble, sink: OpenSink, strategy: StrategyMode
) -> None:
    table, handle = staged(sink, strategy)
    double.faults.append(Fault("COMMIT", "after"))
    result = sink.staged.finalize(handle)
    assert (result.finaliser, result.total_rows) == ("settled_by_marker", len(WANTED[strategy]))
    assert (result.inserted_rows, result.updated_rows) == ((1, 1) if strategy is MERGE else (2, 0))
    assert sink.ids(table) == WANTED[strategy]
    again = sink.staged.finalize(handle)
    assert again == replace(result, finaliser="already_published")
    assert sink.ids(table) == WANTED[strategy]
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_commit_that_never_arrived_is_no_commit(double: TdsDouble, sink: OpenSink, strategy: StrategyMode) -> None:
    table, handle = staged(sink, strategy)
    double.faults.append(Fault("COMMIT", "before"))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert not isinstance(raised.value, CommitOutcomeUnknownError) and raised.value.code == "finaliser_refused"
    assert sink.ids(table) == [1, 2]
    assert sink.staged.finalize(handle).total_rows == len(WANTED[strategy])
    assert sink.ids(table) == WANTED[strategy]
    sink.staged.cleanup(handle.ref)


PUBLISHING: Final = {
    FULL_REFRESH: ("BEGIN TRAN", "sp_getapplock", "sp_rename", "DROP TABLE", "extendedproperty @"),
    APPEND: ("BEGIN TRAN", "sp_getapplock", "INSERT INTO", "extendedproperty @"),
    MERGE: ("SELECT COALESCE", "UPDATE ", "INSERT INTO", "dpone_updated", "'dpone_load', @value"),
    REPLACE: ("DELETE FROM", "INSERT INTO", "extendedproperty @"),
}


@pytest.mark.parametrize("fault", ["dropped before", "dropped after", "refused"])
@pytest.mark.parametrize(
    ("strategy", "statement"), first_quick([(s, text) for s, texts in PUBLISHING.items() for text in texts], 5)
)
def test_a_fault_at_any_statement_leaves_the_target_alone(
    double: TdsDouble, sink: OpenSink, strategy: StrategyMode, statement: str, fault: str
) -> None:
    table, handle = staged(sink, strategy)
    struck = Fault(statement, fault.removeprefix("dropped ") if fault != "refused" else "before")
    struck.number = 50_000 if fault == "refused" else None
    double.faults.append(struck)
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused" and struck.times == 0
    assert sink.ids(table) == [1, 2]
    sink.staged.cleanup(handle.ref)
    assert sink.ports.target.leftovers(table, None) == ()


def test_a_server_that_cannot_be_asked_leaves_the_outcome_unknown(double: TdsDouble, sink: OpenSink) -> None:
    table, handle = staged(sink, APPEND)
    double.received.clear()
    unanswered = Fault("SELECT 1 AS one", "before", times=3, once_seen="COMMIT")
    double.faults += [Fault("COMMIT", "after"), unanswered]
    with pytest.raises(CommitOutcomeUnknownError):
        sink.staged.finalize(handle)
    double.faults.clear()
    assert sink.staged.finalize(handle).finaliser == "already_published"
    assert sink.ids(table) == WANTED[APPEND]
    sink.staged.cleanup(handle.ref)


def test_a_publication_that_still_runs_is_waited_for(double: TdsDouble, sink: OpenSink) -> None:
    from dpone_core.connectors.mssql.sink.publish import lock_name

    table, handle = staged(sink, APPEND)
    other = object()
    assert double._locks.taken(lock_name(table), other, 1)
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused"
    double._locks.released(other)
    assert sink.staged.finalize(handle).total_rows == 4
    sink.staged.cleanup(handle.ref)


def test_a_lock_that_is_not_granted_is_no_lost_session(double: TdsDouble, sink: OpenSink) -> None:
    table, handle = staged(sink, APPEND)
    double.faults.append(Fault("INSERT INTO", "before", number=1222))
    with pytest.raises(ConnectorError, match="a lock was not granted") as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused"
    sink.staged.cleanup(handle.ref)
    assert sink.ids(table) == [1, 2]


def test_a_lock_timeout_has_a_state_of_timeouts_and_is_no_loss() -> None:
    require_unixodbc()
    from dpone_core.connectors.mssql.odbc import pyodbc
    from dpone_core.connectors.mssql.sink.database import is_lost

    told = "[HYT00] [Microsoft][ODBC Driver 18 for SQL Server]{} ({}) (SQLExecDirectW)"
    assert not is_lost(pyodbc.OperationalError("HYT00", told.format("Lock request time out", 1222)))
    assert is_lost(pyodbc.OperationalError("HYT00", told.format("Login timeout expired", 0)))


def test_rows_that_are_kept_out_or_lost_end_the_load(double: TdsDouble, sink: OpenSink) -> None:
    table, handle = staged(sink, APPEND)
    name = f'"{handle.table.schema}"."{handle.table.name}"'
    double.native(f"DELETE FROM {name} WHERE id = 3")
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused" and sink.ids(table) == [1, 2]
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("statement", ["CREATE TABLE", "INSERT INTO"])
@pytest.mark.parametrize("stage", ["before", "after"])
def test_staging_that_is_cut_leaves_nothing(double: TdsDouble, sink: OpenSink, statement: str, stage: str) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    double.faults.append(Fault(statement, stage))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.stage(stage_request(table, "L1"), iter([orders(2)]))
    assert raised.value.code == "sink_unreachable"
    assert sink.ports.target.leftovers(table, None) == () and sink.ids(table) == [1]


@pytest.mark.parametrize("stage", ["before", "after"])
def test_control_rows_and_leases_whose_answer_is_lost_are_settled(
    double: TdsDouble, sink: OpenSink, stage: str
) -> None:
    control, table = sink.ports.control, control_table()
    assert control is not None
    control.ensure(table)
    double.faults.append(Fault("COMMIT", stage))
    control.upsert(table, [control_row("a", note="x")])
    assert [row["note"] for row in control.read(table, {})] == ["x"]
    double.faults.append(Fault("COMMIT", stage))
    assert control.compare_and_set(table, {"k": "lease"}, None, control_row("lease", note="me"))
    assert not control.compare_and_set(table, {"k": "lease"}, None, control_row("lease", note="you"))
    double.faults.append(Fault("COMMIT", stage))
    assert control.compare_and_set(table, {"k": "lease"}, {"note": "me"}, None)
    assert all(fault.times == 0 for fault in double.faults)


DENIED: Final = {
    "create tables": ("CREATE TABLE", "DATABASE"),
    "in schema": ("ALTER", "SCHEMA"),
    "alter the target": ("ALTER", "OBJECT"),
}


@pytest.mark.parametrize("what", DENIED)
def test_a_login_without_the_rights_is_told_before_the_load(double: TdsDouble, sink: OpenSink, what: str) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    sink.ports.target.preflight(stage_request(table, "L1"))
    double.native("INSERT INTO double_sys.denied VALUES ('{}', '{}')".format(*DENIED[what]))
    with pytest.raises(ConnectorError, match=what) as raised:
        sink.ports.target.preflight(stage_request(table, "L1"))
    assert raised.value.code == "finaliser_assumption_failed"


def test_designs_sql_server_does_not_have_are_refused(sink: OpenSink) -> None:
    for design in (PhysicalDesign(partition_by=PartitionBy(column="id")), PhysicalDesign(cluster="c")):
        with pytest.raises(ConnectorError) as raised:
            sink.ports.target.preflight(replace(stage_request(fresh_table()), physical_design=design))
        assert raised.value.code == "physical_design_mismatch"
    twice = with_column(ORDERS, Column(name="ID", type=INT64))
    exotic = with_column(ORDERS, Column(name="t", type=ColumnType(kind=ColumnKind.TIMESTAMP, fraction=9)))
    for schema in (twice, exotic):
        with pytest.raises(ConnectorError) as raised:
            sink.ports.target.preflight(stage_request(fresh_table(), schema=schema))
        assert raised.value.code == "sink_column_unsupported"
