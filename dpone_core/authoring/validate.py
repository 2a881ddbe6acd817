"""Authored value -> model or Problems. The only place that turns pydantic's findings into our codes and paths.

Values enter through canonical JSON (`model_validate_json`), so a direct Python mapping and a YAML document meet the
same strictness: no tuple, date, NaN or non-text key slips in.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dpone_core.model.fingerprint import CanonicalizationError, canonical_json
from dpone_core.model.problem import Problem

UNKNOWN_FIELD: Final = "DPONE_MANIFEST_UNKNOWN_FIELD"
MISSING_FIELD: Final = "DPONE_MANIFEST_MISSING_FIELD"
WRONG_TYPE: Final = "DPONE_MANIFEST_WRONG_TYPE"
UNKNOWN_VALUE: Final = "DPONE_MANIFEST_UNKNOWN_VALUE"
VALUE_INVALID: Final = "DPONE_MANIFEST_VALUE_INVALID"
CONFLICT: Final = "DPONE_MANIFEST_CONFLICT"

_Model = TypeVar("_Model", bound=BaseModel)
_PLAIN_CODES: Final = {
    "extra_forbidden": UNKNOWN_FIELD,
    "missing": MISSING_FIELD,
    "enum": UNKNOWN_VALUE,
    "literal_error": UNKNOWN_VALUE,
    "union_tag_invalid": UNKNOWN_VALUE,
    "union_tag_not_found": MISSING_FIELD,
}
PathPart = str | int


def validate(model: type[_Model], value: object) -> _Model | tuple[Problem, ...]:
    """A model instance, or at least one Problem (paths relative to `value`, no positions yet)."""
    try:
        text = canonical_json(value)
    except CanonicalizationError as error:
        return (Problem(code=WRONG_TYPE, message=f"the value has no JSON form: {error}"),)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        return tuple(dict.fromkeys(_problem(detail, value, model) for detail in error.errors(include_url=False)))


def path_text(parts: Iterable[PathPart]) -> str:
    """`("quality", "gates", 0, "id")` -> `quality.gates[0].id`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate a typo most likely meant, or None."""
    matches = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _problem(detail: ErrorDetails, value: object, model: type[BaseModel]) -> Problem:
    parts = authored_path(detail["loc"], value)
    kind = detail["type"]
    context = detail.get("ctx") or {}
    fix: str | None = None
    if kind == "extra_forbidden":
        unknown = str(parts[-1])
        guess = closest(unknown, _siblings(model, detail["loc"]))
        message = f"unknown field '{unknown}'"
        fix = f"did you mean '{guess}'?" if guess else "remove the field or prefix a root key with 'x-'"
    elif kind == "missing":
        message = f"required field '{parts[-1]}' is missing"
        fix = f"add '{parts[-1]}'"
    elif kind in ("enum", "literal_error", "union_tag_invalid"):
        expected = str(context.get("expected") or context.get("expected_tags") or "one of the listed values")
        message = f"expected {expected}"
        given = detail["input"] if isinstance(detail["input"], str) else ""
        guess = closest(given, [word.strip("' ") for word in expected.replace(" or ", ",").split(",")])
        fix = f"did you mean '{guess}'?" if guess else None
    else:
        message = str(detail["msg"]).removeprefix("Value error, ")
        fix = str(context["fix"]) if "fix" in context else None
    return Problem(code=_code(kind), message=message, path=path_text(parts), fix=fix)


def _code(kind: str) -> str:
    if kind.startswith("DPONE_"):
        return kind
    if kind in _PLAIN_CODES:
        return _PLAIN_CODES[kind]
    return WRONG_TYPE if kind.endswith(("_type", "_parsing")) else VALUE_INVALID


def authored_path(loc: Sequence[PathPart], value: object) -> tuple[PathPart, ...]:
    """Drops the union tags pydantic mixes into `loc`: keeps what the authored value can be walked by."""
    kept: list[PathPart] = []
    node: object = value
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if (isinstance(node, Mapping) and isinstance(part, str) and part in node) or (isinstance(node, Sequence) and not isinstance(node, str) and isinstance(part, int) and part < len(node)):
            node = node[part]
            kept.append(part)
        elif last and isinstance(node, Mapping) and isinstance(part, str):
            kept.append(part)
    return tuple(kept)


def _siblings(model: type[BaseModel], loc: Sequence[PathPart]) -> list[str]:
    """Field names the unknown one stands among; best effort, for the hint only."""
    current: type[BaseModel] | None = model
    for part in loc[:-1]:
        if current is None or not isinstance(part, str) or part not in current.model_fields:
            continue
        current = _model_in(current.model_fields[part].annotation)
    return [field.alias or name for name, field in current.model_fields.items()] if current is not None else []


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
