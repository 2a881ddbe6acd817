"""Text of others, made harmless for terminals, logs and CI: control and bidirectional characters become escapes."""

from __future__ import annotations

import re
from typing import Final

REORDERING: Final = "\u202a-\u202e\u2066-\u2069"
"""A character class: embeddings, overrides and isolates, which show a line in another order than it is read."""
_UNSEEN: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029{REORDERING}\ud800-\udfff]")
_COMMAND: Final = re.compile(r"^(\s*)::", re.MULTILINE)


def visible(text: str) -> str:
    r"""One line: a line break is written `\n`, an escape character `\x1b`, a bidirectional override `\u202e`."""
    return _UNSEEN.sub(lambda found: _escape(found.group()), text)


def visible_lines(text: str) -> str:
    r"""Several lines of our own; what is no line break in them is made visible.

    No line is a workflow command of a CI system, which would begin with two colons.
    """
    lines = "\n".join(visible(line) for line in text.split("\n"))
    return _COMMAND.sub(r"\1\\::", lines)


def _escape(character: str) -> str:
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    code = ord(character)
    return named or (f"\\x{code:02x}" if code < 0x7F else f"\\u{code:04x}")
