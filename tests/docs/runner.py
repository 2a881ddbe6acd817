"""Runs a page as a reader would: files are saved, commands are typed, and the output must be the one shown.

Every command is a process of its own in the page's directory. A line `...` in shown output stands for any lines, `...`
inside a line for any text.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.docs.markdown import Block
from tests.forks import forked

PROMPT = "$ "
CONTINUED = "> "
SAVED = ("yaml", "sql", "toml", "python")
COMMAND_TIMEOUT_SECONDS = 120
_PLAIN = re.compile(r"dpone( [A-Za-z0-9_./:=,@%+ \"'-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One typed command and the output that the page promises."""

    text: str
    shown: tuple[str, ...]


def run_page(blocks: list[Block], directory: Path) -> int:
    """Executes the page's blocks in order in `directory`; returns how many commands and scripts ran."""
    executed = 0
    for block, following in pairwise([*blocks, None]):
        assert block is not None  # only the last element is
        if block.title is not None and block.language in SAVED:
            target = directory / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        if block.language == "python":
            _run_python(block, following, directory)
            executed += 1
        elif block.language == "console":
            for command in commands_of(block):
                _run_command(command, block, directory)
                executed += 1
    return executed


def commands_of(block: Block) -> Iterator[Command]:
    text: str | None = None
    shown: list[str] = []
    for line in block.text.splitlines():
        if line.startswith(PROMPT):
            if text is not None:
                yield Command(text=text, shown=tuple(shown))
            text, shown = line.removeprefix(PROMPT), []
        elif line.startswith(CONTINUED) and text is not None and not shown:
            text += "\n" + line.removeprefix(CONTINUED)
        else:
            assert text is not None, f"line {block.line}: a console block starts with '$ '"
            shown.append(line)
    assert text is not None, f"line {block.line}: a console block without a command"
    yield Command(text=text, shown=tuple(shown))


def _run_command(command: Command, block: Block, directory: Path) -> None:
    """`dpone` and words that no shell changes are a fork that need not start Python; bash runs everything else."""
    if _PLAIN.fullmatch(command.text):
        with tempfile.TemporaryDirectory() as elsewhere:
            output = Path(elsewhere, "output")
            arguments = shlex.split(command.text)[1:]
            status = forked(arguments, directory, environment(directory), output, output, COMMAND_TIMEOUT_SECONDS)
            printed = output.read_text("utf-8")
    else:
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=directory,
            env=environment(directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
        )
        status, printed = done.returncode, done.stdout
    wanted = int(block.attributes.get("exit", "0"))
    assert status == wanted, f"line {block.line}: {command.text}: exit {status}\n{printed}"
    assert_shown(command.shown, printed, f"line {block.line}: {command.text}")


def _run_python(block: Block, following: Block | None, directory: Path) -> None:
    arguments = [block.title] if block.title else ["-"]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment(directory),
        input=None if block.title else block.text,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, f"line {block.line}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    if following is not None and following.language == "text" and "output" in following.attributes:
        assert_shown(tuple(following.text.splitlines()), done.stdout, f"line {following.line}")


def environment(directory: Path) -> dict[str, str]:
    """A plain environment: this interpreter's commands first, no setting of dpone or Airflow from outside."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": str(directory),
        "AIRFLOW_HOME": str(directory / ".airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }


def assert_shown(shown: tuple[str, ...], actual: str, where: str) -> None:
    got = [line.rstrip() for line in actual.splitlines()]
    wanted = [line.rstrip() for line in shown]
    assert _matches(wanted, got), f"{where}\n--- shown ---\n" + "\n".join(wanted) + "\n--- got ---\n" + "\n".join(got)


def _matches(shown: list[str], got: list[str]) -> bool:
    pattern = "".join(r"(?:[^\n]*\n)*?" if line.strip() == "..." else f"{_line(line)}\\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in got)) is not None


def _line(shown: str) -> str:
    return r"[^\n]*".join(re.escape(part) for part in shown.split("..."))
