"""Names and literals of MySQL with the same meaning in every sql_mode, safe against injection."""

from __future__ import annotations


def quote_name(name: str) -> str:
    """`name` in backticks; ANSI_QUOTES and NO_BACKSLASH_ESCAPES do not touch it."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text value in hex, because neither of MySQL's readers binds values on the server. The introducer makes it a
    literal, which takes the collation of what it is compared with."""
    return f"_utf8mb4 X'{text.encode().hex()}'"
