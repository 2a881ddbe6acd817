"""A pattern of a text field with the sentence that is shown instead of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Explained:
    """Metadata of a text field: text that does not match `pattern` is refused with `message` and `fix`.

    The sentence hangs on the field, so two fields may have one pattern and say different things.
    """

    pattern: str
    message: str
    fix: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        matching = core_schema.custom_error_schema(
            core_schema.str_schema(pattern=self.pattern),
            custom_error_type="pattern",
            custom_error_message=self.message,
            custom_error_context={"fix": self.fix},
        )
        return core_schema.chain_schema([handler(source), matching])

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}
