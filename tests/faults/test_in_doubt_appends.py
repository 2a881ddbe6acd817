"""An append that is in the target although its cursor was never saved is not repeated, whatever run id comes next.

Contract: LIFE-23, LIFE-24. Runs are killed for real, rows are counted in the target without dpone, and each way out
that an operator is told is gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bench import connections
from tests.faults.fault_points import FaultKind, When
from tests.faults.load_matrix import NEW, NEW_CURSOR, OLD, OLD_CURSOR, manifest
from tests.faults.matrix import Bench
from tests.spec.builders import Finished, Project, append_flow

SINKS = ["duckdb", "files", pytest.param("clickhouse", marks=pytest.mark.slow)]


class Shop(Project):
    """A project of one sink. Everything happens in processes of its own: an embedded engine opens one path each."""

    def __init__(self, root: Path, sink: str, bench: Bench) -> None:
        super().__init__(root, connections(root, sink))
        self.sink = sink
        self.bench = bench
        self.source("CREATE TABLE log (what INTEGER)")
        self.written(manifest(sink))

    def dies_before_commit(self) -> None:
        """A run that is killed when its intent is durable and nothing has been sent."""
        assert self._dies("commit_intents") == -9

    def dies_after_commit(self) -> None:
        """A run that is killed when its commit has returned."""
        call = "legacy.load" if self.sink == "files" else "staged.finalize"
        assert self._dies(call) == -9

    def seen(self) -> tuple[list[int], str | None]:
        """Ids in the target and the saved cursor, read without dpone."""
        assert self.bench(self.root, self.sink, None) == 0
        found: dict[str, Any] = json.loads((self.root / "seen.json").read_text("utf-8"))
        return found["ids"], found["cursor"]

    def state(self, *arguments: str) -> dict[str, Any]:
        finished = self.dpone("state", arguments[0], "m.yaml", *arguments[1:], "--format", "json")
        assert finished.exit_code == 0, finished.stdout + finished.stderr
        return finished.document

    def _dies(self, call: str) -> int:
        fault = {"call": call, "when": When.AFTER, "kind": FaultKind.SIGKILL}
        return self.bench(self.root, self.sink, "dead", fault=fault)


Shops = Callable[[str], Shop]


@pytest.fixture
def shops(bench: Bench, tmp_path: Path) -> Shops:
    """A shop whose target is in a sink of this kind."""
    return lambda sink: Shop(tmp_path, sink, bench)


def loaded_once(shops: Shops, sink: str) -> Shop:
    shop = shops(sink)
    shop.orders()
    assert shop.run("--run-id", "first").exit_code == 0
    shop.add_orders((4, "d", 40), (5, "e", 50))
    return shop


def refused(finished: Finished, code: str) -> None:
    assert (finished.exit_code, finished.code) == (1, code), finished.stdout
    context = finished.result["failure_context"]
    assert (context["failure_boundary"], context["target_state"]) == ("pre_commit", "not_mutated")
    assert context["retry_classification"] == "operator_verification_required"
    assert finished.receipt is not None and finished.receipt["error_code"] == code


@pytest.mark.parametrize("sink", SINKS)
def test_a_committed_append_is_repeated_by_no_run_id_and_settled_by_its_pending_value(shops: Shops, sink: str) -> None:
    shop = loaded_once(shops, sink)
    shop.dies_after_commit()
    assert shop.seen() == (NEW, OLD_CURSOR)
    for run_id in ("dead", "next"):
        refused(shop.run("--run-id", run_id), "load_already_committed")
        assert shop.seen() == (NEW, OLD_CURSOR)

    shown = shop.state("show")
    assert (shown["pending_run_id"], shown["pending_cursor_value"]) == ("dead", NEW_CURSOR)
    shop.state("set", "--value", NEW_CURSOR, "--reason", "the rows of the killed load were compared and stay")
    assert shop.state("show")["pending_load_id"] is None

    shop.add_orders((6, "f", 60))
    finished = shop.run("--run-id", "after")
    assert finished.exit_code == 0 and finished.result["inserted_rows"] == 1
    assert shop.seen() == ([*NEW, 5], "60")


@pytest.mark.parametrize("sink", SINKS)
def test_an_append_killed_before_its_commit_is_loaded_once_by_the_next_run(shops: Shops, sink: str) -> None:
    shop = loaded_once(shops, sink)
    shop.dies_before_commit()
    assert shop.seen() == (OLD, OLD_CURSOR)
    finished = shop.run("--run-id", "next")
    assert finished.exit_code == 0
    assert "earlier_load_not_published" in finished.result["details"]["warnings"]
    assert shop.seen() == (NEW, NEW_CURSOR)


def test_rows_that_an_operator_removed_are_loaded_again_once(shops: Shops) -> None:
    shop = loaded_once(shops, "duckdb")
    shop.dies_after_commit()
    shop.warehouse("DELETE FROM raw.orders WHERE id > 2")
    refused(shop.run(), "load_already_committed")
    shop.state("set", "--value", OLD_CURSOR, "--reason", "the rows of the killed load were removed")
    assert shop.run().exit_code == 0
    assert shop.seen() == (NEW, NEW_CURSOR)


@pytest.mark.parametrize("sink", ["duckdb", pytest.param("clickhouse", marks=pytest.mark.slow)])
def test_a_first_load_that_died_after_its_commit_has_no_cursor_and_is_not_repeated(shops: Shops, sink: str) -> None:
    shop = shops(sink)
    shop.orders()
    shop.dies_after_commit()
    refused(shop.run(), "load_already_committed")
    assert shop.state("show")["pending_cursor_value"] == OLD_CURSOR
    shop.state("set", "--value", OLD_CURSOR, "--reason", "compared")
    assert shop.run().exit_code == 0
    assert shop.seen() == (OLD, OLD_CURSOR)


def test_a_target_that_is_gone_holds_nothing_that_could_be_repeated(shops: Shops) -> None:
    shop = shops("duckdb")
    shop.orders()
    shop.dies_after_commit()
    shop.warehouse("DROP TABLE raw.orders")
    assert shop.run().exit_code == 0
    assert shop.seen() == (OLD, OLD_CURSOR)


def test_nothing_proves_a_move_whose_staging_was_removed_and_that_is_said(shops: Shops) -> None:
    shop = loaded_once(shops, "clickhouse")
    shop.dies_after_commit()
    assert shop.dpone("cleanup", "m.yaml", "--run-id", "dead").exit_code == 0
    refused(shop.run(), "earlier_load_unknown")
    assert shop.seen() == (NEW, OLD_CURSOR)


def test_a_publication_of_somebody_else_hides_what_became_of_the_dead_load(shops: Shops) -> None:
    shop = loaded_once(shops, "duckdb")
    shop.dies_after_commit()
    shop.source("CREATE TABLE more (id INTEGER NOT NULL, name TEXT, updated_at INTEGER NOT NULL)")
    shop.source("INSERT INTO more VALUES (8, 'x', 1), (9, 'y', 2)")
    shop.written(append_flow(name="more", source__table={"name": "more"}), "more.yaml")
    assert shop.run(manifest="more.yaml").exit_code == 0
    refused(shop.run(), "earlier_load_unknown")
    assert shop.target("SELECT list(id ORDER BY id) FROM raw.orders") == [([*NEW, 8],)]


def test_without_audit_tables_evidence_that_has_no_place_is_refused_before_the_load(shops: Shops) -> None:
    shop = shops("duckdb")
    shop.orders()
    shop.written(append_flow(sink__options={"load_governance": {"enabled": False}}))
    blocked = shop.root / "blocked"
    blocked.write_text("not a directory", encoding="utf-8")
    refused = shop.run("--run-id", "dead", environment={"DPONE_EVIDENCE_DIR": str(blocked)})
    assert (refused.exit_code, refused.code) == (2, "DPONE_EVIDENCE_NOT_WRITABLE")
    assert shop.run().exit_code == 0, "nothing is in doubt"
    assert shop.target("SELECT list(id ORDER BY id) FROM raw.orders") == [(OLD,)]
