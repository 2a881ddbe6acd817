"""Reads an unquoted YAML scalar by the YAML 1.2 core schema, and refuses forms that YAML readers interpret differently.

`off`, `no`, `yes`, `on`, dates and times are text. Each number has exactly one accepted spelling; any other spelling is
refused. Messages never show the scalar, which might be a misplaced secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_EXACT_INTEGER: Final = 2**53 - 1
MAX_SIGNIFICANT_DIGITS: Final = 15

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]")
_FORMS: Final = (
    (re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE), "a non-finite number", "give a finite number"),
    (re.compile(r"[-+]?0[xob][0-9a-f_]*", re.IGNORECASE), "a number in base 2, 8 or 16", "write it in base 10"),
    (re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?"), "a number with a leading zero", "drop the zero"),
    (re.compile(r"[-+]?[0-9][0-9]*_[0-9_.]*"), "a number with an underscore", "drop the underscore"),
    (re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)e[-+]?[0-9]+", re.IGNORECASE), "an exponent", "write all digits"),
    (re.compile(r"\+(?:[0-9]+\.?[0-9]*|\.[0-9]+)|-0(?:\.0*)?"), "a redundant sign", "drop the sign"),
    (re.compile(r"-?(?:[0-9]+\.[0-9]*0|[0-9]+\.)"), "a decimal that ends in zero or a dot", "drop the tail"),
    (re.compile(r"-?\.[0-9]+"), "a decimal without leading digit", "write the 0 before the dot"),
)
_ODD_SPACES: Final = re.compile("[\u00a0\u1680\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedScalar:
    """Why a scalar is refused. `what` completes the sentence "... is not accepted"; `fix` says what to write."""

    code: str
    what: str
    fix: str


Scalar = str | int | float | bool | None


def plain_scalar(text: str) -> Scalar | RefusedScalar:
    """The value of an unquoted scalar, or why it is refused."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _DECIMAL.fullmatch(text):
        return _decimal(text)
    if text[0] in "+-.0123456789":
        for form, what, fix in _FORMS:
            if form.fullmatch(text):
                return RefusedScalar(code="DPONE_YAML_NUMBER_FORM", what=what, fix=f"{fix}, or quote it if it is text")
    odd = _ODD_SPACES.search(text)
    if odd is not None:
        return RefusedScalar(
            code="DPONE_YAML_CHARACTER",
            what=f"the invisible space U+{ord(odd.group()):04X} in unquoted text",
            fix="use an ordinary space, or quote the text if the character is meant",
        )
    return text


def _integer(text: str) -> int | RefusedScalar:
    if len(text) > 17 or abs(int(text)) > MAX_EXACT_INTEGER:
        return RefusedScalar(
            code="DPONE_YAML_NUMBER_RANGE", what="an integer beyond 2^53 - 1", fix="quote it if it is text"
        )
    return int(text)


def _decimal(text: str) -> float | RefusedScalar:
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    if len(digits) > MAX_SIGNIFICANT_DIGITS or len(text) > 32:
        return RefusedScalar(
            code="DPONE_YAML_NUMBER_RANGE",
            what=f"a decimal of more than {MAX_SIGNIFICANT_DIGITS} significant digits",
            fix="shorten it, or quote it if it is text",
        )
    return float(text)
