"""The plan says which hooks run in the engine's read-only mode, and the run obeys (HOOK-31)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from dpone_core.loading.hooks import SqlHookProvider
from dpone_core.model.connector import ConnectorType
from dpone_core.model.hook import HookDefinition
from dpone_core.model.load_config import LoadConfig, SinkConfig, SourceConfig, StrategyConfig, TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import HookConnector, HookKind, HookPhase, StrategyMode
from dpone_core.ports.hooks import HookContext
from dpone_core.ports.statements import StatementAnswer, StatementScript
from dpone_core.use_cases.plan import plan_process

HOOK = HookDefinition(id="a", phase=HookPhase.PRE, kind=HookKind.CUSTOM, sql=SqlText(text="SELECT 1"))


@dataclass(slots=True)
class Recorder:
    """StatementPort that keeps the scripts."""

    scripts: list[StatementScript] = field(default_factory=list)

    def answer(self, script: StatementScript) -> StatementAnswer:
        raise NotImplementedError

    def execute(self, script: StatementScript) -> int:
        self.scripts.append(script)
        return 1


def planned(**changes: object) -> HookDefinition:
    """The hook as the plan of a load from SQLite into ClickHouse holds it."""
    config = LoadConfig(
        process="orders",
        manifest="direct",
        source=SourceConfig(
            type=ConnectorType.SQLITE, connection_ref="shop", table=TableName(schema=None, name="orders")
        ),
        sink=SinkConfig(
            type=ConnectorType.CLICKHOUSE,
            connection_ref="dwh",
            table=TableName(schema="raw", name="orders"),
            strategy=StrategyConfig(mode=StrategyMode.FULL_REFRESH),
        ),
        hooks=(replace(HOOK, **changes),),  # type: ignore[arg-type]
    )
    return plan_process(config).plan.pre_hooks[0]


@pytest.mark.parametrize(
    ("changes", "read_only"),
    [
        ({}, True),
        ({"connector": HookConnector.SINK}, True),
        ({"kind": HookKind.SOURCE_MAINTENANCE}, True),
        ({"kind": HookKind.SOURCE_MAINTENANCE, "sql": SqlText(text="ANALYZE")}, False),
        (
            {
                "kind": HookKind.TARGET_MAINTENANCE,
                "connector": HookConnector.SINK,
                "sql": SqlText(text="OPTIMIZE TABLE raw.orders FINAL"),
            },
            False,
        ),
        ({"mutates_source": True}, False),
        ({"mutates_source": True, "sql": SqlText(text="DELETE FROM t")}, False),
    ],
)
def test_a_hook_runs_read_only_unless_it_is_declared_or_known_maintenance(
    changes: dict[str, object], read_only: bool
) -> None:
    hook, port = planned(**changes), Recorder()
    context = HookContext(
        run_id="r", load_id=None, process="orders", phase=HookPhase.PRE, token_values={}, outcome=None, connection=None
    )
    SqlHookProvider(source=port, sink=port).execute(hook, context)
    assert [script.read_only for script in port.scripts] == [read_only]


def test_a_hook_that_no_plan_has_judged_runs_read_only() -> None:
    assert HOOK.runs_read_only
