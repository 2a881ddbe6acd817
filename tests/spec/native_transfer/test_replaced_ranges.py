"""partition_replace in key ranges: no target partition lies in two of them, so each replaces only what it loads.

Contract: NAT-35. The reference is the same load with one reader.
"""

from __future__ import annotations

import itertools
import sqlite3
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_core.model.load_config import PartitionGranularity
from dpone_core.model.partition import KeyBounds
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.planning.key_scales import PartitionKeyError
from dpone_core.planning.partitions import plan_ranges
from tests.marks import first_quick
from tests.spec.builders import Project, code_of, flow, outcome_of

DAYS = {PartitionGranularity.DAY: 10, PartitionGranularity.MONTH: 7, PartitionGranularity.YEAR: 4}
KINDS = {ColumnKind.DATE: ("", 10), ColumnKind.TIMESTAMP: ("", 26), ColumnKind.TIMESTAMP_TZ: ("+00:00", 26)}
QUALITY = {"gates": [{"type": "row_count_reconciliation"}]}
FIRST = date(2024, 1, 1)


def text_of(kind: ColumnKind, moment: datetime) -> str:
    suffix, length = KINDS[kind]
    return moment.isoformat(timespec="microseconds")[:length] + suffix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", DAYS)
@given(
    moments=st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2299, 12, 31)), min_size=1, max_size=20),
    partitions=st.integers(1, 40),
)
def test_no_day_month_or_year_lies_in_two_ranges(
    kind: ColumnKind, whole: PartitionGranularity, moments: list[datetime], partitions: int
) -> None:
    texts = sorted(text_of(kind, moment) for moment in moments)
    bounds = KeyBounds(lower=texts[0], upper=texts[-1], rows=len(texts))
    null, *ranges = plan_ranges(Column(name="k", type=ColumnType(kind=kind)), bounds, partitions, whole)
    assert null.is_null_partition and 1 <= len(ranges) <= partitions
    for text in texts:
        found = [each for each in ranges if each.lower <= text and (text < each.upper or each.include_upper)]
        assert len(found) == 1 and text <= str(found[0].upper)
    for before, after in itertools.pairwise(ranges):
        assert before.upper == after.lower
        assert str(after.lower)[DAYS[whole] :] == f"{FIRST}T00:00:00.000000+00:00"[DAYS[whole] : len(str(after.lower))]


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        (ColumnKind.STRING, PartitionGranularity.VALUE),
        (ColumnKind.INT64, PartitionGranularity.MONTH),
        (ColumnKind.UUID, PartitionGranularity.DAY),
    ],
)
def test_a_key_that_may_divide_a_partition_is_refused(kind: ColumnKind, whole: PartitionGranularity) -> None:
    with pytest.raises(PartitionKeyError) as raised:
        plan_ranges(Column(name="k", type=ColumnType(kind=kind)), KeyBounds(lower=None, upper=None, rows=0), 2, whole)
    assert raised.value.code == "partition_key_unsupported"


@pytest.fixture(name="project")
def orders_by_month(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    filled(project, [(number, FIRST + timedelta(days=number * 3)) for number in range(100)])
    return project


def filled(project: Project, rows: list[tuple[int, date]]) -> None:
    """The source `orders` holds these rows and no other."""
    with sqlite3.connect(project.root / "shop.sqlite") as source:
        source.execute("DROP TABLE IF EXISTS orders")
        source.execute("CREATE TABLE orders (id INTEGER NOT NULL, day DATE NOT NULL)")
        source.executemany("INSERT INTO orders VALUES (?, ?)", [(number, day.isoformat()) for number, day in rows])
    source.close()


def replaced(
    granularity: str = "month", *, column: str = "day", split: dict[str, object] | None = None, **changes: object
) -> dict[str, object]:
    partitioning = {"column": column, "num_partitions": 7, "workers": 2, **(split or {})}
    return flow(
        **{
            "source__options": {"partitioning": partitioning},
            "sink__strategy": {"mode": "partition_replace"},
            "sink__options": {"physical_design": {"partition_by": {"column": "day", "granularity": granularity}}},
            "quality": QUALITY,
            **changes,
        }
    )


def held(project: Project) -> list[tuple[Any, ...]]:
    return project.target("SELECT id, day FROM raw.orders ORDER BY ALL")


@pytest.mark.parametrize("granularity", first_quick(["month", "value", "day", "year"]))
def test_ranges_replace_what_one_reader_would(project: Project, tmp_path: Path, granularity: str) -> None:
    """Old partitions that have news are replaced whole, others stay."""
    other = Project(tmp_path / "one")
    old = [(number + 1000, FIRST + timedelta(days=number * 5)) for number in range(200)]
    news = [(number, FIRST + timedelta(days=number * 3)) for number in range(100)]
    for each in (project, other):
        filled(each, old)
        each.written(replaced(granularity, source__options={}))
        assert each.execute("first").error is None
        filled(each, news)
        each.written(replaced(granularity, **({} if each is project else {"source__options": {}})))
        assert each.execute("second").error is None
    assert held(project) == held(other)
    assert set(held(project)) >= set(news)
    published = [step for step in outcome_of(project.execute("third")).steps if step.step_id == "finalized"]
    assert 1 < published[0].details["publications"] <= 7 or granularity == "year"


def test_a_second_load_replaces_and_does_not_append(project: Project) -> None:
    project.written(replaced())
    for run_id in ("r1", "r2", "r2"):
        execution = project.execute(run_id)
        assert execution.error is None
        assert len(held(project)) == 100


def test_another_column_would_divide_target_partitions(project: Project) -> None:
    project.written(replaced(column="id"))
    execution = project.execute("r1")
    assert code_of(execution) == "DPONE_ROUTE_REFUSED"
    assert "source.options.partitioning.column" in str(execution.error)


def test_a_source_without_rows_replaces_nothing_unless_that_is_meant(project: Project) -> None:
    project.written(replaced())
    assert project.execute("r1").error is None
    filled(project, [])
    assert code_of(project.execute("r2")) == "partition_empty_refused"
    filled(project, [(1, FIRST)])
    assert project.execute("r2").error is None, "nothing of the refused attempt is left to resume"
    filled(project, [])
    project.written(replaced(sink__strategy={"mode": "partition_replace", "allow_empty": True}))
    assert project.execute("r3").error is None
    assert len(held(project)) == 100 - 10, "January has one row instead of eleven"


def test_ranges_of_months_are_not_resumed_as_ranges_of_years(project: Project) -> None:
    """What was staged under the first plan is not published under the second one."""
    failing = {"gates": [{"type": "min_rows", "threshold": 1000}]}
    project.written(replaced(quality=failing))
    assert code_of(project.execute("r1")) == "DPONE_QUALITY_GATES_FAILED"
    project.written(replaced("year"))
    execution = project.execute("r1")
    assert execution.error is None
    assert len(held(project)) == 100
    assert outcome_of(execution).result.extracted_rows == 100
