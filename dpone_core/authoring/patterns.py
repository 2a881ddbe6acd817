"""Patterns of names, each with the error message and fix that are shown instead of the regular expression.

Every pattern means the same in Python, in Rust (pydantic) and in ECMA 262 (JSON Schema).
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from dpone_core.model.explained import Explained
from dpone_core.model.file_reading import DECLARED_TYPE_PATTERN

PROCESS_NAME: Final = Explained(
    r"^[a-z0-9][a-z0-9_-]{0,127}$",
    "a process name has lower-case letters, digits, underscores and hyphens, at most 128",
    "rename the process",
)
CONNECTION_REF: Final = Explained(
    r"^[a-z][a-z0-9_]{0,63}$",
    "a connection name starts with a lower-case letter and has lower-case letters, digits and underscores",
    "name a connection here; its URI comes from DPONE_CONN_<REF> or connections.yaml",
)
HOOK_ID: Final = Explained(
    r"^[a-z0-9][a-z0-9_]{0,63}$",
    "a hook id has lower-case letters, digits and underscores, at most 64",
    "rename the hook",
)
HOOK_TYPE: Final = Explained(
    r"^[a-z][0-9a-z_]{0,63}$",
    "a hook type has lower-case letters, digits and underscores",
    "use sql, marker, webhook, or the name a provider registers",
)
PLAIN_COLUMN: Final = Explained(
    "^[A-Za-z_\u00a1-\uffff][A-Za-z0-9_$\u00a1-\uffff]{0,127}$",
    "expected a plain column name, not an expression",
    "alias the expression in source.options.query and name the alias here",
)
QUOTABLE: Final = Explained(
    r"^[^\s\x00-\x1f\x7f{}]([^\x00-\x1f\x7f{}]*[^\s\x00-\x1f\x7f{}])?$",
    "a name has no braces, control characters, or space at its ends",
    "give the name as the engine knows it, without quotes",
)
DURATION: Final = Explained(
    r"^P([0-9]{1,6}D)?(T([0-9]{1,6}H)?([0-9]{1,6}M)?([0-9]{1,6}S)?)?$",
    "expected an ISO 8601 duration of days, hours, minutes, seconds",
    "write for example PT1H",
)
TEXT: Final = Explained(
    r"[^ \t\r\n]",
    "expected text that is not blank",
    "give a value or remove the field",
)
REPLACEMENT: Final = Explained(
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
    r"|-?[0-9]{1,76}(\.[0-9]{1,76})?)$",
    "expected null, an ISO 8601 date or moment, or a number",
    "write for example null, 9999-12-31, '2999-12-31T00:00:00Z' or '0.00'",
)
CSV_NULL: Final = Explained(
    r"^[^\x00-\x1f\x7f\",;|]*$",
    "a NULL token has no quotes, delimiters or control characters",
    "write the text as it stands in the file, for example NULL",
)
NO_CONTROLS: Final[dict[str, JsonValue]] = {"not": {"pattern": r"[\x00-\x1f\x7f]"}}
"""Beside a pattern that ends with `$`: Python's own validators let a last line break pass there."""
NO_TOKENS: Final[dict[str, JsonValue]] = {"not": {"pattern": r"\{\{|\}\}"}}
TABLE_IN_NAME: Final[dict[str, JsonValue]] = {"pattern": r"^[A-Za-z0-9_\u212a]+$"}
"""A table whose name becomes part of its process's name; the Kelvin sign is a k in lower case."""
DECLARED_TYPE: Final = Explained(
    DECLARED_TYPE_PATTERN,
    "expected a type: boolean, int8 to int64, uint8 to uint64, float32, float64, decimal(p,s), string, binary,"
    " date, time(f), timestamp(f), timestamp_tz(f) or uuid",
    "write for example int64, decimal(18,4) or timestamp_tz(6); fractions are 0, 3, 6 or 9",
)
