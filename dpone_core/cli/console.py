"""stdout carries the result and nothing else; stderr carries logs. Everything that leaves is redacted first."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from dpone_core.cli.parser import UsageError
from dpone_core.cli.streams import can_print, print_error, print_out
from dpone_core.evidence.outcome import FailureFacts, failure_facts, problems_of
from dpone_core.evidence.redaction import Redactor
from dpone_core.model.visible_text import visible, visible_lines

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class TextSink(Protocol):
    """Where log records are written."""

    def write(self, text: str, /) -> int: ...


@dataclass(slots=True, kw_only=True)
class Console:
    """Collects the result of a command; `deliver` prints it once the receipt is written."""

    redactor: Redactor
    json_only: bool = False
    _pending: list[str] = field(default_factory=list)
    _prints_a_product: bool = False

    def result(self, text: str) -> None:
        """Lines of our own; control characters of others in them are made visible."""
        self._collect(visible_lines(self.redactor.text(text)))

    def rendered(self, text: str) -> None:
        """A document whose renderer has made control characters visible: JSON, SARIF, workflow commands."""
        self._collect(self.redactor.text(text))

    def artifact(self, text: str) -> None:
        """A finished document, byte for byte: it names secrets and holds none, and redaction would break it."""
        self._prints_a_product = True
        self._collect(text)

    def document(self, document: object) -> None:
        """Exactly one JSON object."""
        value = self.redactor.value(document)
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        self._collect(text if can_print(text) else json.dumps(value, indent=2, allow_nan=False))

    def failure(self, error: BaseException) -> None:
        """A failure that produced no report of its own: one object or one line on stdout, as the format asks."""
        facts, problems = failure_facts(error), problems_of(error)
        if self.json_only:
            document: dict[str, object] = {
                "schema": "dpone.error.v1",
                "code": facts.code,
                "severity": "error",
                "message": facts.message,
                "fix": facts.fix,
            }
            self.document(document | ({"problems": list(problems)} if problems else {}))
            return
        self.result("\n".join(problem_lines(problems)) if problems else _line_with_fix(facts))

    def note(self, text: str) -> None:
        print_error(visible_lines(self.redactor.text(text)))

    def deliver(self) -> bool:
        """Prints what was collected. A failure is a note: the verdict stands. False where the print was the product."""
        text = "".join(self._pending)
        self._pending.clear()
        if not text or print_out(text):
            return True
        self.note("note: the result could not be written to stdout")
        return not self._prints_a_product

    def _collect(self, text: str) -> None:
        self._pending.append(text if text.endswith("\n") else text + "\n")


def problem_lines(problems: Iterable[Mapping[str, object]]) -> list[str]:
    """`file:line:col: CODE path: message` and the way out, as `check` prints them."""
    lines = []
    for problem in problems:
        place = f"{problem['file']}:{problem['line']}:{problem['column']}: " if problem["file"] else ""
        path = f" {problem['path']}" if problem["path"] else ""
        lines.append(visible(f"{place}{problem['code']}{path}: {problem['message']}"))
        lines += [visible(f"    fix: {problem['fix']}")] if problem["fix"] else []
    return lines


def _line_with_fix(facts: FailureFacts) -> str:
    return visible(facts.line) + (f"\n    fix: {visible(facts.fix)}" if facts.fix else "")


class _OneLine(logging.Formatter):
    """One record, one line, redacted; a traceback is reduced to the exception's type.

    A run that was given its id ends every line with it and with the line's number: lines of several pods that a log
    store mixed can be parted and put in order again.
    """

    def __init__(self, redactor: Redactor, run_id: str | None) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime
        self._redactor = redactor
        self._run_id = run_id
        self._numbers = itertools.count(1)

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text, record.stack_info = None, None
        failure = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        record.exc_info = None
        line = " ".join(super().format(record).splitlines())
        if failure:
            line += f" ({failure})"
        if self._run_id is not None:
            line += f" run_id={self._run_id} seq={next(self._numbers)}"
        return visible(self._redactor.text(line))


def log_level(env: Mapping[str, str]) -> str:
    """DPONE_LOG_LEVEL, INFO where it is not set. Raises UsageError for another word."""
    level = env.get("DPONE_LOG_LEVEL", "").strip().upper() or "INFO"
    if level not in LOG_LEVELS:
        raise UsageError("DPONE_LOG_LEVEL is no level", fix=f"set it to one of {', '.join(LOG_LEVELS)}, or unset it")
    return level


def log_to(stream: TextSink, redactor: Redactor, level: str, run_id: str | None = None) -> None:
    """Sends dpone's own records to `stream`; other libraries' logging is left alone. `run_id` is the one that was
    given, None where a run makes its own.
    """
    logger = logging.getLogger("dpone")
    logger.handlers.clear()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_OneLine(redactor, run_id))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
