"""What a connector does not declare it is never asked for: an undeclared strategy, format, cursor or phase is refused.

Contract: PLAN-05.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dpone_core.declared.duckdb import DESCRIPTOR as DUCKDB
from dpone_core.declared.files import DESCRIPTOR as FILES
from dpone_core.declared.sqlite import DESCRIPTOR as SQLITE
from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.connector import ConnectorDescriptor
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import FinalizationPhase, SchemaEvolution, StrategyMode
from dpone_core.planning.planner import plan_load
from dpone_core.planning.route import RouteRefusedError, choose_route
from dpone_core.planning.target_schema import TargetSchemaDiffersError, accepts, decide_target_schema
from tests.spec.builders import Project, append_flow, flow, hook, hooks


def config_of(directory: Path, manifest: dict[str, object]) -> LoadConfig:
    (config,) = load_manifest(Project(directory).written(manifest), project_root=directory).processes
    return config


def refused_at(config: LoadConfig, source: ConnectorDescriptor, sink: ConnectorDescriptor) -> str:
    with pytest.raises(RouteRefusedError) as caught:
        choose_route(config, source, sink)
    return ".".join(str(part) for part in caught.value.path)


def test_a_strategy_without_finaliser_is_refused(tmp_path: Path) -> None:
    assert DUCKDB.sink is not None
    kept = tuple(item for item in DUCKDB.sink.finalisers if item.strategy is not StrategyMode.FULL_REFRESH)
    poorer = replace(DUCKDB, sink=replace(DUCKDB.sink, finalisers=kept))
    assert kept and refused_at(config_of(tmp_path, flow()), SQLITE, poorer) == "sink.strategy.mode"


def test_a_format_the_source_does_not_read_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, flow())
    asked = replace(config, source=replace(config.source, format="carving"))
    assert refused_at(asked, FILES, DUCKDB) == "source.options.format"


def test_a_cursor_the_source_does_not_have_is_refused(tmp_path: Path) -> None:
    assert SQLITE.source is not None
    without = replace(SQLITE, source=replace(SQLITE.source, incremental=False))
    assert refused_at(config_of(tmp_path, append_flow()), without, DUCKDB) == "source.options.incremental"


def test_a_finalization_phase_that_contradicts_the_path_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, flow())
    governance = replace(config.sink.governance, finalization_phase=FinalizationPhase.LEGACY_POST_FINALIZE)
    asked = replace(config, sink=replace(config.sink, governance=governance))
    assert refused_at(asked, SQLITE, DUCKDB) == "sink.options.load_governance.finalization_phase"


def test_an_append_that_would_read_rows_twice_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, append_flow())
    assert config.source.incremental is not None
    overlapping = replace(config.source.incremental, lookback=timedelta(hours=1))
    with pytest.raises(RouteRefusedError, match="a second time"):
        plan_load(replace(config, source=replace(config.source, incremental=overlapping)), SQLITE, DUCKDB)


def test_a_hook_that_changes_what_it_does_not_admit_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, flow(source__options=hooks(pre=[hook("refresh", "DELETE FROM orders")])))
    secret = tuple(replace(item, mutates_source=False) for item in config.hooks)
    with pytest.raises(ETLConfigurationError):
        plan_load(replace(config, hooks=secret), SQLITE, DUCKDB)


def table(kind: ColumnKind, *, nullable: bool = False) -> TableSchema:
    return TableSchema(columns=(Column(name="id", type=ColumnType(kind=kind), nullable=nullable),))


def test_null_does_not_go_into_a_required_column() -> None:
    arriving, existing = table(ColumnKind.INT64, nullable=True), table(ColumnKind.INT64)
    nothing, append = TableSchema(columns=()), StrategyMode.INCREMENTAL_APPEND
    with pytest.raises(TargetSchemaDiffersError, match="may be NULL"):
        decide_target_schema(arriving, nothing, existing, append, SchemaEvolution.REFUSE)


def test_a_required_column_that_only_the_target_has_is_left_to_its_default_by_declaration() -> None:
    arriving = table(ColumnKind.INT64)
    made = Column(name="made", type=ColumnType(kind=ColumnKind.TIMESTAMP, fraction=6), nullable=False)
    existing = TableSchema(columns=(*arriving.columns, made))
    nothing, append, refuse = TableSchema(columns=()), StrategyMode.INCREMENTAL_APPEND, SchemaEvolution.REFUSE
    with pytest.raises(TargetSchemaDiffersError, match="'made'") as raised:
        decide_target_schema(arriving, nothing, existing, append, refuse)
    assert "target_defaults" in str(raised.value.fix)
    decided = decide_target_schema(arriving, nothing, existing, append, refuse, defaults=("made",))
    assert (decided.payload.names, decided.target_only) == (("id",), ())
    for name, words in (("id", "which the source has"), ("mode", "which the target lacks")):
        with pytest.raises(TargetSchemaDiffersError, match=words):
            decide_target_schema(arriving, nothing, existing, append, refuse, defaults=("made", name))


def test_an_unsigned_integer_fits_a_signed_one_only_if_that_is_wider() -> None:
    assert not accepts(ColumnType(kind=ColumnKind.INT32), ColumnType(kind=ColumnKind.UINT32))
    assert accepts(ColumnType(kind=ColumnKind.INT64), ColumnType(kind=ColumnKind.UINT32))
    assert not accepts(ColumnType(kind=ColumnKind.UINT64), ColumnType(kind=ColumnKind.INT8))


@pytest.mark.parametrize(("kind", "digits"), [(ColumnKind.INT8, 3), (ColumnKind.INT64, 19), (ColumnKind.UINT64, 20)])
def test_a_decimal_holds_integers_of_its_whole_digits(kind: ColumnKind, digits: int) -> None:
    for whole, wanted in ((digits - 1, False), (digits, True)):
        decimal = ColumnType(kind=ColumnKind.DECIMAL, precision=whole + 2, scale=2)
        assert accepts(decimal, ColumnType(kind=kind)) is wanted
