"""A headless Chromium for tests that look at a page as a person does; absent, such a test is UNVERIFIED."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=15000"),
    *("--enable-logging=stderr", "--log-level=0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a browser made of a page: its document after loading, and what it wrote to the console."""

    dom: str
    console: tuple[str, ...]


def chromium() -> str:
    """Its path; skips the test where there is none."""
    found = os.environ.get("DPONE_TEST_CHROMIUM") or shutil.which("chromium")
    if found is None:
        pytest.skip("UNVERIFIED: there is no chromium here; set DPONE_TEST_CHROMIUM to one")
    return found


def look_at(page: Path) -> Seen:
    """Loads a local file to its end."""
    with tempfile.TemporaryDirectory(prefix="dpone-browser-") as profile:
        done = subprocess.run(
            [chromium(), *_FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.resolve().as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    console = tuple(line for line in done.stderr.splitlines() if ":CONSOLE" in line)
    return Seen(dom=done.stdout, console=console)
