"""Rules between `source.options.special_values` and other fields: each value of each column has one meaning."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from dpone_core.authoring.source import SourceOptionsSection, SpecialValueSection
from dpone_core.authoring.validate import CONFLICT, VALUE_INVALID, Finding, Path
from dpone_core.model.special_values import SpecialValue, instant_of

_PATH: Final[Path] = ("source", "options", "special_values")
_DATES: Final = frozenset({SpecialValue.ZERO_DATE, SpecialValue.PARTIAL_DATE})


def special_value_findings(options: SourceOptionsSection) -> Iterator[Finding]:
    """Contradictions that can be found before the source is asked for its column types."""
    seen: set[tuple[str, SpecialValue]] = set()
    for index, rule in enumerate(options.special_values or ()):
        path = (*_PATH, index)
        yield from _replacement_findings(rule, (*path, "becomes"))
        for number, column in enumerate(rule.columns):
            if (column, rule.value) in seen:
                yield Finding(
                    code=CONFLICT,
                    message=f"an earlier rule converts '{rule.value}' of this column",
                    path=(*path, "columns", number),
                    fix="keep one of the two",
                )
            seen.add((column, rule.value))
            if rule.becomes is None and column in (options.not_null or ()):
                yield Finding(
                    code=CONFLICT,
                    message="the column becomes NULL by this rule, and not_null says that it holds none",
                    path=(*path, "columns", number),
                    fix="remove one of the two, or write another value",
                )
            if options.incremental is not None and column == options.incremental.cursor_column:
                yield Finding(
                    code=CONFLICT,
                    message="the cursor column must not have a rule: converted values would decide what is read",
                    path=(*path, "columns", number),
                    fix="choose another cursor_column, or filter such rows in options.query",
                )


def _replacement_findings(rule: SpecialValueSection, path: Path) -> Iterator[Finding]:
    if rule.becomes is None:
        return
    text = rule.becomes
    dated = "-" in text[1:]
    if dated and not _is_existing_date(text):
        yield Finding(code=VALUE_INVALID, message="this date or time does not exist", path=path, fix="correct it")
    elif dated and rule.value is SpecialValue.NAN:
        yield Finding(
            code=VALUE_INVALID,
            message="nan is a number and cannot become a date",
            path=path,
            fix="write null or a number",
        )
    elif not dated and rule.value in _DATES:
        yield Finding(
            code=VALUE_INVALID, message="a date cannot become a number", path=path, fix="write null or a date"
        )


def _is_existing_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text)) if len(text) == len("2026-01-01") else bool(instant_of(text))
    except (ValueError, OverflowError):
        return False
