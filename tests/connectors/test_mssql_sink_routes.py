"""SQLite into SQL Server end to end, by every strategy: gates, acceptance, audit, state and lease in the server.

Wire-tested against a TDS double.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.connectors.tds_double import PASSWORD, TdsDouble, tds_double
from tests.marks import first_quick
from tests.spec.builders import Project, flow

GATES: Final = [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}]
ACCEPTANCE: Final = {"enabled": True, "mode": "required", "checks": {"null_counts": "all_columns"}}
CURSOR: Final = {"source__options": {"incremental": {"cursor_column": "id"}}, "state": {"type": "sink"}}
STRATEGIES: Final[dict[str, dict[str, Any]]] = {
    "full_refresh": {"sink__strategy": {"mode": "full_refresh"}},
    "incremental_append": {"sink__strategy": {"mode": "incremental_append"}, **CURSOR},
    "incremental_merge": {
        "sink__strategy": {"mode": "incremental_merge", "unique_key": ["id"]},
        "sink__options": {"lineage": {"enabled": True, "preset": "standard"}},
        **CURSOR,
    },
    "partition_replace": {
        "sink__strategy": {"mode": "partition_replace"},
        "sink__options": {"physical_design": {"partition_by": {"column": "id"}}},
    },
}


@pytest.fixture(scope="module")
def double() -> Iterator[TdsDouble]:
    with tds_double() as found:
        yield found


@pytest.mark.parametrize("mode", first_quick(STRATEGIES))
def test_sqlite_is_loaded_and_reconciled(tmp_path: Path, double: TdsDouble, mode: str) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": double.uri})
    project.orders()
    table = {"schema": "raw", "name": f"orders_{mode}"}
    quality = {"gates": GATES, "acceptance": ACCEPTANCE}
    project.written(flow(sink__type="mssql", sink__table=table, quality=quality, **STRATEGIES[mode]))
    counts = []
    for _ in range(2):
        finished = project.run()
        assert finished.exit_code == 0, finished.stdout + finished.stderr
        assert PASSWORD not in finished.stdout + finished.stderr
        counts.append(double.run(f"SELECT COUNT_BIG(*) AS held FROM raw.orders_{mode}")[0][0])
    assert counts[0] > 0 and counts[1] == counts[0]
    held = double.run("SELECT COUNT_BIG(*) AS held FROM sys.objects WHERE name LIKE '__dpone__stg%'")
    assert held == [(0,)]
