"""Writes to stdout and stderr without ever raising: what cannot be printed must not change what a command says of
itself."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def print_out(text: str) -> bool:
    """Writes to stdout and flushes; False when it could not be written, and then stdout takes nothing any more."""
    return _write(sys.stdout, text)


def print_error(text: str) -> None:
    """Writes a line to stderr where it can be written."""
    _write(sys.stderr, text + "\n")


def can_print(text: str) -> bool:
    """Whether stdout can write each character as it is."""
    return _encoded(sys.stdout, text) == text


def _write(stream: TextIO | None, text: str) -> bool:
    if stream is None:  # closed before the process began
        return False
    try:
        stream.write(_encoded(stream, text))
        stream.flush()
    except (OSError, ValueError):
        _discard(stream)
        return False
    return True


def _encoded(stream: TextIO | None, text: str) -> str:
    """A character that the stream cannot encode is written as an escape."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _discard(stream: TextIO) -> None:
    """Lets what is left in the buffer go nowhere, so that the interpreter's own flush at the end does not fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
