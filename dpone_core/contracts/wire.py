"""Strict parsing for the documents that steps exchange: takes one JSON object up to a size limit, gives one frozen
model.

No value is converted and no unknown field is accepted. Repeated keys, non-finite numbers, lone surrogates and documents
over the limit are refused before a model is built. An error message names the field and the rule, never the value.
Contract: AIR-09, AIR-11, AIR-18.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from dpone_core.errors import ErrorCode, ETLConfigurationError
from dpone_core.model.fingerprint import CanonicalizationError, canonical_json

_MAX_PATH_CHARACTERS: Final = 120

Fingerprint = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
ProcessName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
StepId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,150}$")]


class ContractInvalidError(ETLConfigurationError):
    """A document breaks a rule of its contract (exit status 2). `code` names the contract, `path` the field ("" for
    the whole).
    """

    code = "DPONE_CONTRACT_INVALID"

    def __init__(self, message: str, *, code: ErrorCode, path: str = "", fix: str | None = None) -> None:
        super().__init__(message, code=code, fix=fix)
        self.path = path


class Contract(BaseModel):
    """Base class of the exchanged documents: strict types, frozen, no unknown fields."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", use_attribute_docstrings=True)

    def wire(self) -> dict[str, object]:
        """The document as JSON values under its published field names, in the order of the contract."""
        return self.model_dump(mode="json", by_alias=True)


ContractModel = TypeVar("ContractModel", bound=Contract)


def json_object(document: str | bytes, *, limit_bytes: int, what: str, code: ErrorCode) -> dict[str, object]:
    """Parses `document`, which must hold exactly one JSON object of at most `limit_bytes` bytes.

    Raises ContractInvalidError with `code`; `what` names the document in the message.
    """
    size = len(document) if isinstance(document, bytes) else len(document.encode("utf-8", "surrogatepass"))
    if size > limit_bytes:
        raise ContractInvalidError(f"{what} is larger than {limit_bytes} bytes", code=code)
    try:
        text = document.decode("utf-8") if isinstance(document, bytes) else document
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        raise ContractInvalidError(f"{what} is not one complete JSON document with unique keys", code=code) from None
    if not isinstance(value, dict):
        raise ContractInvalidError(f"{what} is not a JSON object", code=code)
    return value


def validate_value(
    model: type[ContractModel], value: Mapping[str, object], *, what: str, code: ErrorCode
) -> ContractModel:
    """Builds a model from `value` through its canonical JSON. Raises ContractInvalidError naming the first broken
    rule.
    """
    try:
        content = canonical_json(value).encode("utf-8")
    except (CanonicalizationError, UnicodeEncodeError, RecursionError):
        raise ContractInvalidError(f"{what} holds a value that JSON cannot express", code=code) from None
    return validate_json(model, content, what=what, code=code)


def validate_json(
    model: type[ContractModel], content: bytes, *, what: str, code: ErrorCode, context: object = None
) -> ContractModel:
    """Builds a model from JSON bytes; `context` is passed to the model's own validators. Raises
    ContractInvalidError.
    """
    try:
        return model.model_validate_json(content, context=context)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        path = _path(first["loc"])
        raise ContractInvalidError(f"{what} {path or '(root)'}: {first['msg']}", code=code, path=path) from None


def _path(location: tuple[int | str, ...]) -> str:
    dotted = ".".join(str(part) for part in location)
    return dotted.encode("ascii", "backslashreplace").decode("ascii")[:_MAX_PATH_CHARACTERS]


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("duplicate key")
    return mapping
