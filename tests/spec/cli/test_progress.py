"""A person sees a bar, a log sees lines, a program sees one JSON object; nobody sees a row or SQL text.

Contract: CLI-14, CLI-21.
"""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from fcntl import ioctl
from pathlib import Path

import duckdb
import pytest

from dpone_core.cli.console import log_to
from dpone_core.cli.progress import HEARTBEAT_SECONDS, BarProgress, LogProgress, progress_on
from dpone_core.cli.progress_line import PhaseState, bar_line, finished_line
from dpone_core.evidence.redaction import Redactor
from dpone_core.wiring.runtime import SilentProgress
from tests.spec.builders import CHECKOUT, DPONE, Project, flow, hook, hooks

ROWS = 400_000
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@pytest.fixture(name="project")
def parquet_to_load(tmp_path: Path) -> Project:
    built = Project(tmp_path)
    duckdb.sql(f"COPY (SELECT i AS id, 'c4nary' AS name FROM range({ROWS}) r(i)) TO '{tmp_path}/a.parquet'")
    built.written(flow(source={"type": "files", "options": {"path": "a.parquet", "format": "parquet"}}))
    return built


def on_a_terminal(
    project: Project, *arguments: str, columns: int = 80, environment: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout as a pipe gets it, and every byte that the terminal behind stderr was given."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {"PATH": os.environ["PATH"], "HOME": str(project.root), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    variables["PYTHONPATH"] = str(CHECKOUT)
    process = subprocess.Popen(
        [*DPONE, *arguments],
        cwd=project.root,
        env=variables | project.environment | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
    )
    os.close(slave)
    shown = b"".join(_read(master))
    stdout, _ = process.communicate(timeout=60)
    os.close(master)
    return process.returncode, stdout, shown.decode()


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux says EIO when the last writer of a terminal is gone
            return
        if not piece:
            return
        yield piece


def drawn(shown: str) -> list[str]:
    """Each drawing of the line and each printed line, without escapes."""
    return [ESCAPES.sub("", line) for line in re.split(r"[\r\n]+", shown) if ESCAPES.sub("", line)]


@pytest.mark.slow  # it waits for redraws of a real terminal
def test_a_terminal_sees_a_bar_that_fits_it_and_leaves_one_line_per_phase_of_rows(project: Project) -> None:
    code, stdout, shown = on_a_terminal(project, "run", "m.yaml")
    assert code == 0 and stdout.startswith("succeeded")
    lines = drawn(shown)
    assert any(re.search(r"^stage +━+─* +\d+%  +[\d,]+ rows", line) for line in lines)
    assert max(len(line) for line in lines) < 80
    assert re.fullmatch(rf"stage +{ROWS:,} rows  [\d.]+[kM]/s  \d+ MiB  \d:\d\d", lines[-1]) or "finalize" in lines[-1]
    assert "c4nary" not in shown and "SELECT" not in shown and "duckdb://" not in shown


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
def test_no_line_is_wider_than_the_terminal(project: Project, columns: int) -> None:
    _, _, shown = on_a_terminal(project, "run", "m.yaml", columns=columns)
    assert max(len(line) for line in drawn(shown)) < columns


def test_json_on_stdout_is_one_object_beside_a_bar(project: Project) -> None:
    code, stdout, shown = on_a_terminal(project, "run", "m.yaml", "--format", "json")
    assert code == 0 and json.loads(stdout)["passed"] is True
    assert "rows" in shown


def test_no_color_takes_the_colour_and_nothing_else(project: Project) -> None:
    _, _, shown = on_a_terminal(project, "run", "m.yaml", environment={"NO_COLOR": "1"})
    assert re.search(r"\x1b\[\d*m", shown) is None and "rows" in shown


@pytest.mark.parametrize(
    ("environment", "mode"),
    [({"CI": "true"}, "auto"), ({"TERM": "dumb"}, "auto"), ({"TERM": "dumb"}, "bar"), ({}, "log")],
)
def test_lines_stand_where_nobody_would_see_a_bar(project: Project, environment: dict[str, str], mode: str) -> None:
    _, _, shown = on_a_terminal(project, "run", "m.yaml", "--progress", mode, environment=environment)
    assert "\x1b" not in shown
    assert all(line[:2] == "20" and " INFO dpone run phase=" in line for line in drawn(shown))


def test_a_bar_that_is_asked_for_in_ci_is_drawn(project: Project) -> None:
    _, _, shown = on_a_terminal(project, "run", "m.yaml", "--progress", "bar", environment={"CI": "true"})
    assert "\x1b[2K" in shown and "phase=" not in shown


@pytest.mark.parametrize("mode", ["auto", "bar", "log"])
def test_a_pipe_gets_lines(project: Project, mode: str) -> None:
    finished = project.dpone("run", "m.yaml", "--progress", mode)
    assert "\x1b" not in finished.stderr and "run phase=stage" in finished.stderr


def test_none_is_nothing(project: Project) -> None:
    _, _, shown = on_a_terminal(project, "run", "m.yaml", "--progress", "none")
    assert shown == ""


def test_a_failure_leaves_the_terminal_clean(project: Project) -> None:
    (project.root / "a.parquet").write_bytes(b"PAR1 nonsense")
    code, stdout, shown = on_a_terminal(project, "run", "m.yaml")
    assert code == 1 and "source_unreachable" in stdout
    assert "Traceback" not in shown and ESCAPES.sub("", shown.rpartition("\r")[2]).strip() == ""


def test_a_phase_without_rows_goes_on_being_seen(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000000) SELECT count(*) FROM n"
    options = hooks(pre=[hook("slow", slow, mutates_source=False)])
    project.written(flow(source__options=options))
    _, _, shown = on_a_terminal(project, "run", "m.yaml")
    seen = [line for line in drawn(shown) if line.startswith("pre_hook")]
    assert len(set(seen)) >= 2 and seen[-1].split()[-1] != "0:00"


def test_a_log_has_one_heartbeat_for_each_interval_rows_or_not() -> None:
    logger = logging.getLogger("dpone")
    text = io.StringIO()
    with progress_on(text, "auto", {}, heartbeat_seconds=0.2) as (progress, sink):
        log_to(sink, Redactor(), "INFO")
        progress.phase("finalize")
        time.sleep(0.5)
        progress.phase("stage")
        progress.rows(1000, 2048)
        time.sleep(0.5)
    logger.handlers.clear()
    lines = [line.split(" dpone ")[1] for line in text.getvalue().splitlines()]
    assert [line for line in lines if line.startswith("run phase=finalize")][1:] != []
    beats = [line for line in lines if line.startswith("run phase=stage seconds=")]
    assert 1 <= len(beats) <= 3
    counters = re.compile(r"run phase=stage seconds=\d+ rows=1000 bytes=2048 rows_per_second=\d+")
    assert all(counters.fullmatch(beat) for beat in beats)


def test_ten_quiet_minutes_are_sixty_lines_with_phase_and_counters(caplog: pytest.LogCaptureFixture) -> None:
    """CLI-14: who follows the log of a pod sees that it lives, however long one stage says nothing by itself."""
    progress = LogProgress(label="run")
    with caplog.at_level(logging.INFO, "dpone"):
        progress.phase("stage")
        progress.rows(1000, 2048)
        for seconds in range(0, 601, 10):
            progress._state = replace(progress._state, started=time.monotonic() - seconds)
            progress.beat()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "run phase=stage" and HEARTBEAT_SECONDS == 10
    counters = re.compile(r"run phase=stage seconds=(\d+) rows=1000 bytes=2048 rows_per_second=\d+")
    beats = [counters.fullmatch(line) for line in lines[1:]]
    assert [int(beat[1]) for beat in beats if beat is not None] == list(range(10, 601, 10))
    assert all(beats)


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "mode", "kind"),
    [
        ({"TERM": "xterm"}, "auto", BarProgress),
        ({"TERM": "xterm", "CI": "1"}, "auto", LogProgress),
        ({"TERM": "xterm", "CI": "1"}, "bar", BarProgress),
        ({"TERM": "dumb"}, "bar", LogProgress),
        ({}, "auto", LogProgress),
        ({"TERM": "xterm"}, "log", LogProgress),
        ({"TERM": "xterm"}, "none", SilentProgress),
    ],
)
def test_who_looks_decides_what_is_shown(environment: dict[str, str], mode: str, kind: type) -> None:
    with progress_on(Terminal(), mode, environment) as (progress, _):
        assert type(progress) is kind


def test_a_record_stands_above_the_bar() -> None:
    text = Terminal()
    bar = BarProgress(text, colour=False)
    bar.phase("stage")
    bar.above.write("2026 INFO dpone a record\n")
    bar.close()
    assert "\r\x1b[2K2026 INFO dpone a record\n\r\x1b[2Kstage" in text.getvalue()


def test_what_cannot_be_written_fails_no_load() -> None:
    text = io.StringIO()
    bar = BarProgress(text, colour=False)
    text.close()
    bar.phase("stage")
    bar.rows(1, 1)
    bar.close()


STATE = PhaseState(name="stage", started=0.0, rows=500_000, size_bytes=3 << 20, expected_rows=2_000_000)


def test_the_bar_says_how_much_is_done_how_fast_and_how_long_it_will_take() -> None:
    line = bar_line(STATE, 10.0, 79, colour=False, fine=False)
    assert line == "stage     ##---------  25%    500,000 rows  50.0k/s     3 MiB   0:10  eta  0:30"[:79]
    assert finished_line(STATE, 3700.0, 79) == "stage     500,000 rows  135/s  3 MiB  1:01:40"


@pytest.mark.parametrize("rows", [0, 1, 1_999_999, 2_000_000, 5_000_000])
def test_more_rows_than_forecast_are_everything_and_no_more(rows: int) -> None:
    state = PhaseState(name="stage", started=0.0, rows=rows, expected_rows=2_000_000)
    line = bar_line(state, 1.0, 79, colour=False, fine=True)
    assert re.search(r" (0|100)%", line) and len(line) <= 79
