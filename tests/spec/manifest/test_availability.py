"""What dpone cannot do yet is refused by check, plan and run alike, at the field that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone_core.manifest.availability import GAPS, NOT_AVAILABLE_YET
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.problem import ManifestInvalidError
from tests.spec.manifest.manifests import flow, problems_of, written

CURSOR = {"incremental": {"cursor_column": "updated_at"}}
APPEND: dict[str, Any] = {"source__options": CURSOR, "sink__strategy": {"mode": "incremental_append"}}
FILES = {"type": "files", "options": {"path": "*.csv", "format": "csv"}}


def hooks(phase: str, **fields: object) -> dict[str, object]:
    return {"source__options": {"hooks": {phase: [{"id": "a"} | fields]}}}


ASKED = [
    ("sink.options.normalization", {"sink__options": {"normalization": {"enabled": True}}}),
    ("state.type", APPEND | {"state": {"type": "file"}}),
]


@pytest.mark.parametrize(("field", "changes"), ASKED)
def test_an_unavailable_field_is_refused_alone_and_with_a_way_out(
    tmp_path: Path, field: str, changes: dict[str, object]
) -> None:
    [problem] = problems_of(tmp_path, flow(**changes))
    assert (problem.code, problem.path) == (NOT_AVAILABLE_YET, field)
    assert problem.fix and problem.position is not None


def test_loading_for_plan_and_run_refuses_it_too(tmp_path: Path) -> None:
    with pytest.raises(ManifestInvalidError, match=NOT_AVAILABLE_YET):
        load_manifest(
            written(tmp_path, flow(sink__options={"normalization": {"enabled": True}})), project_root=tmp_path
        )


def test_every_gap_of_the_table_is_asked_for_here(tmp_path: Path) -> None:
    said = {problems_of(tmp_path, flow(**changes))[0].message for _, changes in ASKED}
    assert said == {f"{gap.what} is not available yet" for gap in GAPS}


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"type": "files", "options": {"path": "*.parquet", "format": "parquet"}}},
        {"source": FILES},
        {"sink__type": "duckdb"},
        APPEND | {"state": {"type": "sink"}},
        APPEND | {"sink__strategy": {"mode": "incremental_merge", "unique_key": ["id"]}, "state": {"type": "sink"}},
        {
            "sink__strategy__mode": "partition_replace",
            "sink__options": {"physical_design": {"partition_by": {"column": "day"}}},
        },
        {"sink__options": {"normalization": {"enabled": False}}},
        {"source__options": {"partitioning": {"column": "id", "num_partitions": 2, "airflow": "mapped"}}},
        {"quality": {"gates": [{"type": "typed_hash_reconciliation"}]}},
        {"sink__type": "files"},
        hooks("pre_hook", sql="SELECT 1", execution={"airflow": "separate_task"}),
        hooks("post_hook", sql="SELECT 1", execution={"airflow": "separate_task"}),
        hooks("pre_hook", type="webhook", kind="notification", connection_ref="pager"),
        hooks("post_hook", type="marker", kind="notification"),
        hooks("pre_hook", kind="data_quality_probe", sql="SELECT 0"),
        hooks("pre_hook", sql="UPDATE t SET a = 1", mutates_source=True, kind="source_refresh"),
    ],
)
def test_what_is_available_passes(tmp_path: Path, changes: dict[str, object]) -> None:
    assert problems_of(tmp_path, flow(**changes)) == ()
