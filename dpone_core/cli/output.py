"""Documents as text, and files that commands write on request: atomically, or compared with what stands there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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


def shown_lines(value: object, depth: int = 0) -> Iterator[str]:
    """One fact per line; what belongs to a run or a batch stands below it."""
    pad = "  " * depth
    if isinstance(value, Mapping):
        for name, item in value.items():
            nested = isinstance(item, Mapping | list) and len(item) > 0
            yield f"{pad}{name}:" if nested else f"{pad}{name}: {_shown(item)}"
            if nested:
                yield from shown_lines(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            lines = list(shown_lines(item, depth + 1)) if isinstance(item, Mapping) else [f"{pad}  {_shown(item)}"]
            yield f"{pad}- {lines[0].strip()}"
            yield from lines[1:]


def _shown(value: object) -> str:
    if value is None or value in ({}, []):
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
