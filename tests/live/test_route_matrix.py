"""Every source into every sink by every strategy: after each of two runs the target's rows are right, value by value.

One JUnit case per cell, `<source>__<sink>__<strategy>__values`. A cell whose server does not answer is UNVERIFIED.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.matrix import ADDED, CHANGED, FIRST, SINKS, SOURCES, Row
from tests.spec.builders import Project

pytestmark = pytest.mark.slow
_STRATEGIES: Final[dict[str, dict[str, Any]]] = {
    "full_refresh": {"mode": "full_refresh"},
    "incremental_append": {"mode": "incremental_append"},
    "incremental_merge": {"mode": "incremental_merge", "unique_key": ["id"]},
}
_AFTER_FIRST: Final = {"full_refresh": FIRST, "incremental_append": FIRST[:2], "incremental_merge": FIRST}
_AFTER_SECOND: Final = {
    "full_refresh": (CHANGED, *FIRST[1:], ADDED),
    "incremental_append": (*FIRST, ADDED),
    "incremental_merge": (CHANGED, *FIRST[1:], ADDED),
}
"""An append's newest rows wait for the next run, so the change of row 1 is not among what the second run reads."""
CELLS: Final = [
    pytest.param(source, sink, strategy, id=f"{source}__{sink}__{strategy}__values")
    for source in SOURCES
    for sink in SINKS
    for strategy in _STRATEGIES
    if not (sink == "files" and strategy == "incremental_merge")
]


@pytest.mark.parametrize(("source_name", "sink_name", "strategy"), CELLS)
def test_cell(source_name: str, sink_name: str, strategy: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        sink = stack.enter_context(SINKS[sink_name](tmp_path))
        source = stack.enter_context(SOURCES[source_name](tmp_path))
        project = Project(tmp_path / "project", environment={"DPONE_CONN_WAREHOUSE": sink.uri})
        if source.uri is not None:
            project.environment["DPONE_CONN_ORIGIN"] = source.uri
        project.written(_manifest(source.section, sink.section, strategy))
        for run, rows, expected in (
            ("first", FIRST, _AFTER_FIRST[strategy]),
            ("second", (CHANGED, *FIRST[1:], ADDED), _AFTER_SECOND[strategy]),
        ):
            source.write(rows)
            finished = project.run("--run-id", run)
            assert finished.exit_code == 0, finished.stdout + finished.stderr
            assert _known(sink.rows()) == _known(expected)


def _manifest(source: dict[str, Any], sink: dict[str, Any], strategy: str) -> dict[str, object]:
    options = dict(source.get("options", {}))
    manifest: dict[str, object] = {
        "kind": "dpone.flow.v1",
        "name": "orders",
        "source": {**source, "options": options},
        "sink": {**sink, "strategy": _STRATEGIES[strategy]},
        "quality": {
            "gates": [{"type": "row_count_reconciliation"}],
            "acceptance": {
                "enabled": True,
                "mode": "required",
                "capture": {"source": True, "staged": sink["type"] != "files", "target": True},
                "checks": {"row_count": True, "null_counts": "all_columns"},
            },
        },
    }
    if strategy != "full_refresh":
        options["incremental"] = {"cursor_column": "updated_at"}
        manifest["state"] = {"type": "sink"}
    return manifest


def _known(rows: Any) -> list[Row]:
    return sorted(tuple(row) for row in rows)
