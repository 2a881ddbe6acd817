"""After the commit the target holds as many more rows as were staged, counted in the target; anything else fails.

Contract: LIFE-27, LIFE-29. The sinks are real; rows of the target go or come right behind the publication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.connectors.duckdb.database import Database, qualify, resolve
from dpone_core.connectors.duckdb.open import ports_of
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import Boundary, RetryClassification, SourceState, TargetState
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.sink import FinalizeResult, StagedHandle
from tests.spec.builders import append_flow, flow

from .harness import TARGET, Attempt

APPEND = append_flow(source__options={"incremental": {"cursor_column": "id"}})
OLD = 2


class WrongCommit:
    """A staged port whose publication loses or doubles rows and still reports success."""

    def __init__(self, port: Any, before: Callable[[StagedHandle], None], after: Callable[[], None]) -> None:
        self._port, self._before, self._after = port, before, after

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        self._before(handle)
        finalized: FinalizeResult = self._port.finalize(handle)
        self._after()
        return finalized

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


@contextmanager
def warehouse(directory: Path, *, before: str = "", after: str = "") -> Iterator[tuple[Database, SinkPorts]]:
    """A DuckDB file whose target holds rows already.

    `before` is SQL over the staged rows right before the publication, `after` SQL over the target right behind it.
    """
    database = Database(str(directory / "w.duckdb"))
    try:
        database.rows("CREATE SCHEMA raw")
        database.rows("CREATE TABLE raw.orders (id BIGINT NOT NULL, name VARCHAR, amount DECIMAL(18, 4))")
        database.rows(f"INSERT INTO raw.orders SELECT -range, NULL, NULL FROM range({OLD})")

        def spoil_staging(handle: StagedHandle) -> None:
            if before:
                database.rows(before.format(qualify(handle.table)))

        def spoil_target() -> None:
            if after:
                database.rows(after.format(qualify(resolve(TARGET))))

        ports = ports_of(database)
        yield database, replace(ports, staged=WrongCommit(ports.staged, spoil_staging, spoil_target))  # type: ignore[arg-type]
    finally:
        database.close()


def rows_of(database: Database) -> int:
    return int(database.rows(f"SELECT count(*) FROM {qualify(resolve(TARGET))}")[0][0])


@pytest.mark.parametrize("manifest", [APPEND, flow()], ids=["append", "refresh"])
@pytest.mark.parametrize(
    ("spoil", "gained"),
    [
        ("DELETE FROM {} WHERE id = 2", 2),
        ("INSERT INTO {0} SELECT * FROM {0} WHERE id = 2", 4),
        ("DELETE FROM {} WHERE id > 0", 0),
    ],
    ids=["lost", "doubled", "all lost"],
)
def test_a_commit_that_loses_or_doubles_rows_is_a_failure_with_the_counts_found(
    tmp_path: Path, manifest: dict[str, object], spoil: str, gained: int
) -> None:
    with warehouse(tmp_path, after=spoil) as (database, sink):
        attempt = Attempt(manifest=manifest, directory=tmp_path, sink=sink)
        outcome = attempt.ran().outcome
        total = rows_of(database)
    assert outcome.failure is not None and outcome.failure.code == "published_row_count_mismatch"
    assert (outcome.boundary, outcome.target_state) == (Boundary.POST_COMMIT, TargetState.MUTATION_RETURNED_SUCCESS)
    assert outcome.retry is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
    assert (outcome.source_state, attempt.state()) == (SourceState.NOT_ADVANCED, [])
    assert (outcome.result.inserted_rows, outcome.result.final_rows) == (gained, total)
    assert outcome.result.staged_rows == 3


@pytest.mark.parametrize("manifest", [APPEND, flow()], ids=["append", "refresh"])
@pytest.mark.parametrize("spoil", ["DELETE FROM {} WHERE id = 2", "INSERT INTO {0} SELECT * FROM {0} WHERE id = 2"])
def test_staging_that_changed_since_it_was_counted_is_not_published(
    tmp_path: Path, manifest: dict[str, object], spoil: str
) -> None:
    """The transaction that publishes counts the target itself and rolls back."""
    with warehouse(tmp_path, before=spoil) as (database, sink):
        attempt = Attempt(manifest=manifest, directory=tmp_path, sink=sink)
        outcome = attempt.ran().outcome
        assert rows_of(database) == OLD
    assert outcome.failure is not None and outcome.failure.code == "finaliser_refused"
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert (outcome.source_state, attempt.state()) == (SourceState.NOT_ADVANCED, [])


@pytest.mark.parametrize("manifest", [APPEND, flow()], ids=["append", "refresh"])
def test_a_commit_that_kept_every_row_passes(tmp_path: Path, manifest: dict[str, object]) -> None:
    with warehouse(tmp_path) as (database, sink):
        outcome = Attempt(manifest=manifest, directory=tmp_path, sink=sink).ran().outcome
        assert outcome.failure is None
        assert (outcome.result.inserted_rows, outcome.result.final_rows) == (3, rows_of(database))


class Uncountable:
    """Publications whose count fails from the second question on: the connection went after the commit."""

    def __init__(self, port: Any, answers: int) -> None:
        self._port, self._answers = port, answers

    def row_count(self, target: TableName) -> int | None:
        self._answers -= 1
        if self._answers < 0:
            raise ConnectorError("gone", code="sink_query_failed")
        found: int | None = self._port.row_count(target)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


@pytest.mark.parametrize(
    ("answers", "code", "boundary"),
    [(1, "published_rows_not_counted", Boundary.POST_COMMIT), (0, "sink_query_failed", Boundary.PRE_COMMIT)],
)
def test_a_target_that_cannot_be_counted_is_no_success(
    tmp_path: Path, answers: int, code: str, boundary: Boundary
) -> None:
    with warehouse(tmp_path) as (_, sink):
        sink = replace(sink, publications=Uncountable(sink.publications, answers))  # type: ignore[arg-type]
        attempt = Attempt(manifest=APPEND, directory=tmp_path, sink=sink)
        outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == code
    assert outcome.boundary is boundary and attempt.state() == []


def test_a_sink_that_does_not_count_says_that_nothing_was_compared(tmp_path: Path) -> None:
    attempt = Attempt(manifest=flow(), directory=tmp_path)
    attempt.sink = replace(attempt.warehouse.ports(), publications=None)
    outcome = attempt.ran().outcome
    assert outcome.passed and "published_rows_not_counted" in outcome.warnings
