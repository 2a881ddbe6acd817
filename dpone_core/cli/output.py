"""Files that commands write on request: atomically, or compared with what stands there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dpone_core.errors import ETLConfigurationError


class OutputError(ETLConfigurationError):
    """The file named by --output cannot be written or is not up to date."""

    code = "DPONE_OUTPUT_NOT_WRITTEN"


def deliver(content: bytes, output: str) -> None:
    """Raises OutputError; a partial file never shows."""
    target = Path(output)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, target)
    except OSError as error:
        with suppress(OSError):  # the directory itself may be what refuses
            temporary.unlink()
        raise OutputError(f"'{target.name}' could not be written") from error


def require_current(content: bytes, output: str) -> None:
    """Raises OutputError DPONE_OUTPUT_STALE unless the file holds exactly `content`."""
    target = Path(output)
    if not target.is_file() or target.read_bytes() != content:
        raise OutputError(f"'{target.name}' is not up to date", code="DPONE_OUTPUT_STALE", fix="run without --check")
