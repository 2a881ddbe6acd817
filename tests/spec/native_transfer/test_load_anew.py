"""What an operator does to load anew under a run id whose transfer is open, and what stays as it was until then.

The recipes of docs/concepts/native-transfer.md "Repeating one range, and clearing" and docs/how-to/airflow.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_core.native_transfer.reconcile import Finding
from dpone_core.use_cases.cleanup import clean_up
from dpone_core.use_cases.operation import Operation, OperatorOptions, prepare_operation
from dpone_core.use_cases.reconcile import reconcile_transfer
from tests.live.servers import scratch_postgres
from tests.spec.builders import code_of
from tests.spec.native_transfer.fan_out_process import EVERY, RUN, STAGING, FanOut

OUTSIDE = 500


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture
def fan_out(uri: str, tmp_path: Path) -> FanOut:
    return FanOut.at(tmp_path, uri)


@pytest.fixture
def plan(fan_out: FanOut) -> str:
    """Every range is staged; then rows are corrected, and one comes with a key that no range of the plan holds."""
    found = fan_out.staged()
    fan_out.sql("UPDATE t SET v = 'new'", f"INSERT INTO t VALUES ({OUTSIDE}, 'new', {OUTSIDE})")
    return found


def operation(fan_out: FanOut) -> Operation:
    project = fan_out.project
    return prepare_operation(
        project.root / "m.yaml", OperatorOptions(), env=project.environment, project_dir=project.root
    )


def cleaned_up(fan_out: FanOut) -> None:
    clean_up(operation(fan_out), RUN, dry_run=False)
    assert fan_out.sql(STAGING) == []


def read_again(fan_out: FanOut, plan: str) -> list[int | None]:
    return [fan_out.load(plan, index).extracted_rows for index in range(4)]


def published(fan_out: FanOut) -> tuple[list[int | None], set[str]]:
    return fan_out.ids(), {row[0] for row in fan_out.sql("SELECT v FROM raw.orders")}


def test_a_plan_made_again_keeps_what_is_staged(fan_out: FanOut, plan: str) -> None:
    assert fan_out.planned() == plan and read_again(fan_out, plan) == [0, 0, 0, 0]
    assert code_of(fan_out.publish(plan)) is None
    assert fan_out.ids() == EVERY and "new" not in published(fan_out)[1]


def test_after_cleanup_the_same_plan_is_read_again(fan_out: FanOut, plan: str) -> None:
    cleaned_up(fan_out)
    assert fan_out.planned() == plan and read_again(fan_out, plan) == [1, 33, 33, 34]
    assert code_of(fan_out.publish(plan)) is None and published(fan_out) == (EVERY, {"new"})


def test_a_run_that_is_cleaned_up_and_released_is_planned_anew(fan_out: FanOut, plan: str) -> None:
    cleaned_up(fan_out)
    reconcile_transfer(operation(fan_out), RUN, Finding.REMOVED, "corrected", override_marker=False)
    anew = fan_out.planned()
    assert anew != plan and sum(read or 0 for read in read_again(fan_out, anew)) == len(EVERY) + 1
    assert code_of(fan_out.publish(anew)) is None
    assert published(fan_out) == ([*EVERY, OUTSIDE], {"new"}) and fan_out.sql(STAGING) == []


def test_another_run_id_loads_anew_beside_the_open_run(fan_out: FanOut, plan: str) -> None:
    assert code_of(fan_out.publish(fan_out.staged("another"), "another")) is None
    assert published(fan_out) == ([*EVERY, OUTSIDE], {"new"})
    cleaned_up(fan_out)
