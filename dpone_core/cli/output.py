"""Documents as text, and files that commands write on request: atomically, or compared with their present content."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.visible_text import visible


class OutputError(ETLConfigurationError):
    """The file named by --output cannot be written or is not up to date."""

    code = "DPONE_OUTPUT_NOT_WRITTEN"


def deliver(content: bytes, output: str) -> None:
    """Raises OutputError; a partial file never shows."""
    target = Path(output)
    if target.exists() and not target.is_file():  # a rename would put a file in the place of a device
        raise OutputError(f"'{target.name}' is no regular file")
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


def render_lines(value: object, depth: int = 0) -> Iterator[str]:
    """Renders a document for a terminal: one fact per line, nested facts indented."""
    pad = "  " * depth
    if isinstance(value, Mapping):
        for name, item in value.items():
            nested = isinstance(item, Mapping | list) and len(item) > 0
            shown = visible(str(name))
            yield f"{pad}{shown}:" if nested else f"{pad}{shown}: {_render_scalar(item)}"
            if nested:
                yield from render_lines(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            nested = isinstance(item, Mapping | list) and len(item) > 0
            lines = list(render_lines(item, depth + 1)) if nested else [f"{pad}  {_render_scalar(item)}"]
            yield f"{pad}- {lines[0].strip()}"
            yield from lines[1:]


def _render_scalar(value: object) -> str:
    if value is None or value in ({}, []):
        return "-"
    return str(value).lower() if isinstance(value, bool) else visible(str(value))
