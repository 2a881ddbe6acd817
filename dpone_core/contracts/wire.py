"""Strict parsing shared by the wire contracts: one bounded JSON object in, one frozen model out.

Nothing is coerced and nothing unknown passes: duplicate keys, non-finite numbers, lone surrogates and oversized
documents are refused before a model sees them. A message names a path and a rule, never the value that broke it.
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
    """A document is not what its contract says (exit 2); `code` names the contract, `path` the place."""

    code = "DPONE_CONTRACT_INVALID"

    def __init__(self, message: str, *, code: ErrorCode, path: str = "", fix: str | None = None) -> None:
        super().__init__(message, code=code, fix=fix)
        self.path = path


class Contract(BaseModel):
    """Root of the wire models: strict, frozen, closed."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", use_attribute_docstrings=True)

    def wire(self) -> dict[str, object]:
        """JSON-ready mapping under the wire names, in the order of the contract."""
        return self.model_dump(mode="json", by_alias=True)


ContractModel = TypeVar("ContractModel", bound=Contract)


def json_object(document: str | bytes, *, limit_bytes: int, what: str, code: ErrorCode) -> dict[str, object]:
    """The one JSON object in `document`; raises ContractInvalidError for any other shape or a larger size."""
    size = len(document) if isinstance(document, bytes) else len(document.encode("utf-8", "surrogatepass"))
    if size > limit_bytes:
        raise ContractInvalidError(f"{what} is larger than {limit_bytes} bytes", code=code)
    try:
        text = document.decode("utf-8") if isinstance(document, bytes) else document
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        raise ContractInvalidError(f"{what} is not one complete, strict JSON document", code=code) from None
    if not isinstance(value, dict):
        raise ContractInvalidError(f"{what} is not a JSON object", code=code)
    return value


def validated(model: type[ContractModel], value: Mapping[str, object], *, what: str, code: ErrorCode) -> ContractModel:
    """`value` as a model instance through its canonical JSON; the first violated rule is the message."""
    try:
        content = canonical_json(value).encode("utf-8")
    except (CanonicalizationError, UnicodeEncodeError, RecursionError):
        raise ContractInvalidError(f"{what} has no canonical JSON form", code=code) from None
    return validated_json(model, content, what=what, code=code)


def validated_json(
    model: type[ContractModel], content: bytes, *, what: str, code: ErrorCode, context: object = None
) -> ContractModel:
    """JSON bytes as a model instance; `context` reaches the model's own validators."""
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
