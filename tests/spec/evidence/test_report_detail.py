"""A report says which rows an incremental load has read, where its time went, and compares only what can be equal.

Contract: EVID-25, EVID-26, EVID-27.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpone_core.evidence.html import run_html
from dpone_core.evidence.redaction import Redactor
from dpone_core.evidence.window import describe_window
from dpone_core.model.read_window import MAX_VALUE_CHARACTERS, ReadWindow, WindowValues
from tests.spec.builders import Project, append_flow, project_with_orders
from tests.spec.evidence.strict_html import Page

HIDDEN = {"sink__options": {"load_governance": {"window_values": "hide"}}}


def shown(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Page(source=page).texts))


def second_run(project: Project) -> tuple[dict[str, Any], str, str]:
    """run.json, the page and the Markdown of an append that reads on behind an earlier load."""
    project.orders([(1, "a", 4_711_001), (2, "b", 4_711_002)])
    assert project.execute("r1").report.passed
    project.add_orders((3, "c", 4_711_003))
    (outcome,) = project.execute("r2").outcomes
    assert outcome.report.passed and outcome.evidence is not None
    record = project.root / "evidence" / outcome.evidence.path
    pages = (record.with_name(name).read_text() for name in ("report.html", "report.md"))
    return json.loads(record.read_bytes()), *pages  # type: ignore[return-value]


def test_a_report_says_which_cursor_values_its_load_has_read(tmp_path: Path) -> None:
    run, page, markdown = second_run(project_with_orders(tmp_path, append_flow()))
    assert run["report"]["result"]["details"]["window"] == {
        "column": "updated_at",
        "values": "show",
        "has_lower_bound": True,
        "has_upper_bound": True,
        "from": "4711002",
        "to": "4711003",
        "next_from": "4711003",
    }
    line = "updated_at from 4711002 (included) to 4711003 (left to the next load)"
    assert f"Window {line}" in shown(page) and f"- window: {line}" in markdown


def test_a_manifest_keeps_the_values_out_of_every_byte_of_evidence(tmp_path: Path) -> None:
    project = project_with_orders(tmp_path, append_flow(**HIDDEN))
    run, page, markdown = second_run(project)
    window = run["report"]["result"]["details"]["window"]
    assert (window["from"], window["to"], window["next_from"]) == (None, None, None)
    line = "updated_at from the saved value (included) to the newest value seen at the start"
    assert line in shown(page) and line in markdown
    evidence = b"".join(path.read_bytes() for path in (tmp_path / "evidence").rglob("*") if path.is_file())
    assert b"4711" not in evidence
    assert "4711" not in str(project.target("SELECT * FROM etl_state.__dpone__load_steps"))


def test_a_refresh_has_no_window_and_a_long_value_is_cut() -> None:
    assert describe_window(None) is None and describe_window({"from": "1"}) is None
    window = ReadWindow(column="c", lower="x" * 999, upper=None, next_lower="z")
    told = window.as_json(WindowValues.SHOW)
    assert len(str(told["from"])) == MAX_VALUE_CHARACTERS + 1
    assert "to the end; the next load begins at z" in str(describe_window(told))
    assert describe_window(
        ReadWindow(column="c", lower=None, upper=None, next_lower=None).as_json(WindowValues.SHOW)
    ) == ("c from the beginning to the end")


def timed(*steps: tuple[str, float, float], begin: float = 0, end: float = 0) -> str:
    """The timeline of a run from second `begin` to second `end` with steps of start and length."""

    def at(second: float) -> str:
        return f"2026-01-01T10:00:{second:09.6f}Z"

    details = {
        "started_at": at(begin),
        "finished_at": at(end),
        "load_steps": [
            {"step_id": name, "phase": "x", "status": "succeeded", "started_at": at(start), "duration_seconds": length}
            for name, start, length in steps
        ],
    }
    result = {"status": "success", "errors": [], "duration_seconds": end - begin, "details": details}
    page = run_html({"passed": True, "result": result}, Redactor(), evidence_sha256=None)
    return shown(page).partition("Timeline Steps in order")[2]


def test_the_timeline_has_no_hole_and_ends_where_the_duration_ends() -> None:
    page = timed(("staged", 2.0, 1.0), ("finalized", 3.01, 1.0), ("cleanup", 6.0, 0.5), begin=0, end=9.5)
    assert re.search(r"Open sessions, lease and audit prepare .*?\+0 ms 2\.00 s", page)
    assert re.search(r"Between two steps dpone .*?\+4\.01 s 1\.99 s", page)
    assert re.search(r"Save the state, close lease and sessions finish .*?\+6\.50 s 3\.00 s", page)
    assert page.count("Between two steps") == 1, "ten milliseconds are worth no row"


def test_steps_that_overlap_leave_no_time_between_them() -> None:
    page = timed(("source_exported", 0.0, 4.0), ("staged", 1.0, 4.0), begin=0, end=5.0)
    assert "Between two steps" not in page and "Save the state" not in page


def test_a_run_states_when_it_began_and_ended_and_every_step_that_moves_rows_has_a_rate(tmp_path: Path) -> None:
    project = project_with_orders(
        tmp_path,
        append_flow(quality={"gates": [{"type": "row_count_reconciliation"}]}),
        rows=[(n, "a", n) for n in range(99)],
    )
    report: Any = project.execute("r1").report.as_json()
    details = report["result"]["details"]
    assert details["started_at"] <= details["load_steps"][0]["started_at"]
    assert details["finished_at"] >= details["load_steps"][-1]["finished_at"]
    rates = {
        step["step_id"]: step["details_json"]["throughput"]["row_count"]
        for step in details["load_steps"]
        if "throughput" in step["details_json"]
    }
    assert rates == dict.fromkeys(("source_exported", "staged", "quality_checked", "finalized", "cleanup"), 98)


@pytest.mark.parametrize(("strategy", "differs"), [("full_refresh", 1), ("incremental_append", 0), (None, 0)])
def test_the_target_is_compared_only_where_it_holds_the_rows_of_one_load(strategy: str | None, differs: int) -> None:
    def side(rows: int) -> dict[str, object]:
        return {"row_count": rows, "null_counts": {}, "distinct_counts": {}, "warnings": []}

    snapshots = {"source": side(3), "staged": side(3), "target": side(5)}
    details = {"strategy": strategy, "reconciliation_metrics": {"acceptance_metrics": {"snapshots": snapshots}}}
    document = {"passed": True, "result": {"status": "success", "errors": [], "details": details}}
    page = shown(run_html(document, Redactor(), evidence_sha256=None))
    assert page.count("! differs") == differs and ("measured and not compared" in page) == (not differs)
    snapshots["staged"] = side(2)
    page = shown(run_html(document, Redactor(), evidence_sha256=None))
    assert page.count("! differs") == differs + 1, "staging holds what was read, whatever the strategy"
