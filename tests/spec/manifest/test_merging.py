"""Table overrides win over schema defaults, those over defaults; mappings merge deep, lists replace.

Contract: MAN-07, MAN-08, MAN-12, MAN-17.
"""

from __future__ import annotations

from pathlib import Path

from dpone_core.manifest.merge import Layer, merge
from tests.spec.manifest.manifests import BATCH, codes_and_paths, loaded, problems_of

PRECEDENCE = """\
kind: dpone.batch.v1
quality: {acceptance: {enabled: true, checks: {null_counts: [a, b]}}}
defaults:
  source: {type: sqlite, connection_ref: shop}
  sink:
    type: clickhouse
    connection_ref: dwh
    table: {schema: raw}
    strategy: {mode: full_refresh}
    options: {physical_design: {order_by: [id, day]}}
  quality: {acceptance: {mode: required}}
schemas:
  main:
    defaults: {sink: {table: {schema: main_raw}}}
    tables:
      - orders
      - table: Lines
        name: order_lines
        overrides:
          sink: {table: {name: lines}, options: {physical_design: {order_by: [line]}}}
          quality: {acceptance: {checks: {null_counts: [c]}}}
  archive:
    tables: [orders]
"""


def test_the_most_specific_layer_wins(tmp_path: Path) -> None:
    orders, lines, archived = loaded(tmp_path, PRECEDENCE).processes
    assert [orders.process, lines.process, archived.process] == ["main_orders", "order_lines", "archive_orders"]
    assert [str(process.sink.table) for process in (orders, lines, archived)] == [
        "main_raw.orders",
        "main_raw.lines",
        "raw.orders",
    ]
    assert str(lines.source.table) == "main.Lines"


def test_lists_replace_and_mappings_merge(tmp_path: Path) -> None:
    orders, lines, _ = loaded(tmp_path, PRECEDENCE).processes
    assert orders.sink.physical_design.order_by == ("id", "day")
    assert lines.sink.physical_design.order_by == ("line",)
    assert orders.quality == {
        "acceptance": {"enabled": True, "mode": "required", "checks": {"null_counts": ["a", "b"]}}
    }
    assert lines.quality == {"acceptance": {"enabled": True, "mode": "required", "checks": {"null_counts": ["c"]}}}


def test_a_problem_in_defaults_is_reported_once_at_its_line(tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path, BATCH.replace("full_refresh", "full"))
    assert problem.path == "defaults.sink.strategy.mode"
    assert problem.position is not None and problem.position.line == 8


def test_a_problem_that_an_override_makes_is_reported_at_the_override(tmp_path: Path) -> None:
    text = BATCH.replace("- customers", "- {table: customers, overrides: {sink: {strategy: {unique_key: [id]}}}}")
    [problem] = problems_of(tmp_path, text)
    assert problem.path == "schemas.main.tables[1].overrides.sink.strategy.unique_key"
    assert problem.position is not None and problem.position.line == 13


def test_a_default_that_a_table_cannot_use_is_an_error(tmp_path: Path) -> None:
    text = BATCH.replace("{mode: full_refresh}", "{mode: full_refresh, unique_key: [id]}")
    assert codes_and_paths(tmp_path, text) == [
        ("DPONE_MANIFEST_CONFLICT", "defaults.sink.strategy.unique_key"),
    ]


def test_a_unique_key_is_used_by_lineage_row_ids(tmp_path: Path) -> None:
    text = BATCH.replace(
        "{mode: full_refresh}", "{mode: full_refresh, unique_key: [id]}\n    options: {lineage: {enabled: true}}"
    )
    assert all(process.sink.strategy.unique_key == ("id",) for process in loaded(tmp_path, text).processes)


def test_quality_conflicts_are_judged_after_merging(tmp_path: Path) -> None:
    gates = BATCH.replace("schemas:", "  quality: {gates: [{type: min_rows, threshold: 1}]}\nschemas:")
    text = gates.replace(
        "- customers", "- {table: customers, overrides: {quality: {checks: [{type: source_target_count}]}}}"
    )
    assert codes_and_paths(tmp_path, text) == [
        ("DPONE_MANIFEST_CONFLICT", "schemas.main.tables[1].overrides.quality.checks")
    ]


def test_two_tables_may_not_share_a_process_name(tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path, BATCH.replace("- customers", "- {table: x, name: main_orders}"))
    assert (problem.code, problem.path) == ("DPONE_MANIFEST_CONFLICT", "schemas.main.tables[1].name")


def test_layers_are_not_changed_by_merging() -> None:
    low, high = {"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}}
    merged = merge(Layer(origin=("low",), value=low), Layer(origin=("high",), value=high))
    assert merged.value == {"a": {"b": 1, "c": [2]}}
    assert (low, high) == ({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}})
    assert merged.authored_path(("a", "b")) == ("low", "a", "b")
    assert merged.authored_path(("a", "c", 0)) == ("high", "a", "c", 0)


def test_a_scalar_over_a_mapping_replaces_it_whole() -> None:
    merged = merge(Layer(origin=("low",), value={"a": {"b": 1}}), Layer(origin=("high",), value={"a": 2}))
    assert merged.value == {"a": 2}
    assert merged.authored_path(("a",)) == ("high", "a")
