"""Names and literals of MySQL that mean the same in every sql_mode and cannot be escaped from."""

from __future__ import annotations


def quote_name(name: str) -> str:
    """`name` in backticks; ANSI_QUOTES and NO_BACKSLASH_ESCAPES do not touch it."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A bound text value: neither MySQL's Rust reader nor pymysql binds on the server, so the value travels in hex.

    The introducer keeps it a literal, which takes the collation of what it is compared with.
    """
    return f"_utf8mb4 X'{text.encode().hex()}'"
