"""Builds a model from an authored value, or lists what is wrong with it in dpone's own codes and paths.

Values pass through canonical JSON (`model_validate_json`), so that a Python mapping and a YAML document are checked
equally strictly: no tuple, date, NaN or key that is not text is accepted. No message shows an authored value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
MORE_PROBLEMS: Final = "DPONE_MANIFEST_MORE_PROBLEMS"
MAX_PROBLEMS: Final = 100
"""Of one document; what is beyond is counted."""
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
_ENUM_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")
_SENTENCES: Final = {
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "dict_type": "expected a mapping",
    "tuple_type": "expected a list",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "int_type": "expected an integer",
    "float_type": "expected a number",
    "too_short": "expected at least {min_length} in the list",
    "too_long": "expected at most {max_length} in the list",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
}
PathPart = str | int
Path = tuple[PathPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An error without a position; `path` leads from the root of the authored value to the field.

    `unlisted`: for how many further errors it stands.
    """

    code: str
    message: str
    path: Path = ()
    fix: str | None = None
    unlisted: int = 0


def validate(model: type[_Model], value: object) -> _Model | tuple[Problem, ...]:
    """Returns a model, or at least one Problem with paths relative to `value` and without positions."""
    result = findings_of(model, value)
    if isinstance(result, tuple):
        return tuple(
            Problem(code=found.code, message=found.message, path=path_text(found.path), fix=found.fix)
            for found in result
        )
    return result


def findings_of(model: type[_Model], value: object) -> _Model | tuple[Finding, ...]:
    """Returns a model, or at least one finding in the model's field order.

    A list with wrong entries is not reported as too short as well. Beyond MAX_PROBLEMS, findings are counted only.
    """
    try:
        text = canonical_json(value)
    except CanonicalizationError as error:
        return (Finding(code=WRONG_TYPE, message=f"the value cannot be written as JSON: {error}"),)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        details = error.errors(include_url=False)
        broken = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
        kept = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in broken]
        listed = tuple(dict.fromkeys(_finding(detail, value, model) for detail in kept[:MAX_PROBLEMS]))
        hidden = len(kept) - MAX_PROBLEMS
        return (*listed, more_problems(hidden)) if hidden > 0 else listed


def more_problems(unlisted: int) -> Finding:
    """Stands for problems that are not listed."""
    return Finding(
        code=MORE_PROBLEMS,
        message=f"{unlisted:,} more problems are not listed",
        fix="correct those above, then check again",
        unlisted=unlisted,
    )


def null_findings(value: object, path: Path = (), *, skip: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """One finding for each null, because a field has a value or is absent. Values below a key in `skip` are not
    searched.
    """
    if value is None:
        yield Finding(
            code=WRONG_TYPE,
            message="expected a value, found null",
            path=path,
            fix="give it a value or remove the field",
        )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in skip:
                yield from null_findings(item, (*path, key), skip=skip)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from null_findings(item, (*path, index), skip=skip)


def path_text(parts: Iterable[PathPart]) -> str:
    """Prints a path: `("quality", "gates", 0, "id")` gives `quality.gates[0].id`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a misspelt word most likely means, or None."""
    import difflib

    matches = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _finding(detail: ErrorDetails, value: object, model: type[BaseModel]) -> Finding:
    path = authored_path(detail["loc"], value)
    kind = detail["type"]
    context = detail.get("ctx") or {}
    message: str
    fix: str | None
    match kind:
        case "extra_forbidden":
            message, fix = _unknown_field(str(path[-1]), _siblings(model, detail["loc"]))
        case "missing":
            message, fix = f"required field '{path[-1]}' is missing", f"add '{path[-1]}'"
        case "enum" | "literal_error" | "union_tag_invalid":
            expected = str(context.get("expected") or context.get("expected_tags") or "one of the listed values")
            expected = _ENUM_MEMBER.sub(r"\1", expected)
            message, fix = f"expected {expected}", _suggestion(_given_text(detail, context), expected)
        case "union_tag_not_found":
            message, fix = "required field 'type' is missing", "add 'type'"
        case _:
            sentence = _SENTENCES.get(kind)
            message = sentence.format_map(context) if sentence else str(detail["msg"]).removeprefix("Value error, ")
            fix = str(context["fix"]) if "fix" in context else _quoting_hint(kind, detail["input"])
    return Finding(code=_code(kind), message=message, path=path, fix=fix)


def _unknown_field(name: str, siblings: Iterable[str]) -> tuple[str, str]:
    guess = closest(name, siblings)
    message = (
        f"unknown field '{name}'" if name.isidentifier() or name.replace("-", "_").isidentifier() else "unknown field"
    )
    return message, f"did you mean '{guess}'?" if guess else "remove the field"


def _given_text(detail: ErrorDetails, context: Mapping[str, object]) -> str:
    if "tag" in context:
        return str(context["tag"])
    return detail["input"] if isinstance(detail["input"], str) else ""


def _suggestion(given: str, expected: str) -> str | None:
    guess = closest(given, [word.strip("' ") for word in expected.replace(" or ", ",").split(",")])
    return f"did you mean '{guess}'?" if guess else None


def _quoting_hint(kind: str, given: object) -> str | None:
    if kind == "string_type" and isinstance(given, (int, float)):
        return "quote it if it is text"
    if kind == "bool_type":
        return "write true or false without quotes"
    return None


def _code(kind: str) -> str:
    if kind.startswith("DPONE_"):
        return kind
    if kind in _PLAIN_CODES:
        return _PLAIN_CODES[kind]
    return WRONG_TYPE if kind.endswith(("_type", "_parsing")) else VALUE_INVALID


def authored_path(loc: Sequence[PathPart], value: object) -> Path:
    """Removes the union tags that pydantic adds to `loc`; the remaining parts lead through the authored value."""
    kept: list[PathPart] = []
    node: object = value
    for index, part in enumerate(loc):
        if isinstance(node, Mapping) and isinstance(part, str) and part in node:
            node = node[part]
        elif isinstance(node, Sequence) and not isinstance(node, str) and isinstance(part, int) and part < len(node):
            node = node[part]
        elif not (index == len(loc) - 1 and isinstance(node, Mapping) and isinstance(part, str) and part != "[key]"):
            continue
        kept.append(part)
    return tuple(kept)


def _siblings(model: type[BaseModel], loc: Sequence[PathPart]) -> list[str]:
    """Field names at the level of an unknown field. Parts of `loc` that are not fields (index, key, union tag) are
    skipped.
    """
    current: tuple[type[BaseModel], ...] = (model,)
    for part in loc[:-1]:
        below = tuple(
            inner
            for outer in current
            for name, field in outer.model_fields.items()
            if part == (field.alias or name)
            for inner in _models_in(field.annotation)
        )
        current = below or current
    return [field.alias or name for outer in current for name, field in outer.model_fields.items()]


def _models_in(annotation: object) -> tuple[type[BaseModel], ...]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(found for argument in getattr(annotation, "__args__", ()) for found in _models_in(argument))
