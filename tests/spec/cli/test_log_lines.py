"""One record is one line, whatever its text and its exception hold (CLI-13)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dpone_core.cli.console import log_to
from dpone_core.evidence.redaction import Redactor

BREAKS = ["\n", "\r\n", "\r", "\n\n \n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"]


@contextmanager
def logged() -> Iterator[io.StringIO]:
    text, logger = io.StringIO(), logging.getLogger("dpone")
    log_to(text, Redactor(), "INFO")
    try:
        yield text
    finally:
        logger.handlers.clear()


@pytest.mark.parametrize("line_break", BREAKS)
def test_a_message_of_several_lines_is_one_line(line_break: str) -> None:
    with logged() as text:
        logging.getLogger("dpone").info("first%ssecond%s", line_break, line_break)
        logging.getLogger("dpone").info("after")
    lines = text.getvalue().splitlines()
    assert len(lines) == 2 and "first" in lines[0] and "second" in lines[0] and lines[1].endswith(" after")


@pytest.mark.parametrize("line_break", BREAKS)
def test_an_exception_of_several_lines_is_one_line(line_break: str) -> None:
    with logged() as text:
        try:
            raise ValueError(f"one{line_break}{line_break}two")
        except ValueError:
            logging.getLogger("dpone").exception("failed")
    (line,) = text.getvalue().splitlines()
    assert "failed" in line


def test_a_run_that_was_given_its_id_ends_every_line_with_it_and_with_the_line_s_number() -> None:
    text, logger = io.StringIO(), logging.getLogger("dpone")
    log_to(text, Redactor(), "INFO", "scheduled__2026-11-29")
    try:
        logger.info("first")
        logger.warning("second")
    finally:
        logger.handlers.clear()
    ends = [line.partition(" dpone ")[2] for line in text.getvalue().splitlines()]
    assert ends == ["first run_id=scheduled__2026-11-29 seq=1", "second run_id=scheduled__2026-11-29 seq=2"]
