"""Types of names and lists that all sections use. A name is text that an engine can quote, not an expression."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from dpone_core.authoring.patterns import (
    CONNECTION_REF,
    PROCESS_NAME,
    QUOTABLE,
    TEXT,
)
from dpone_core.authoring.validate import VALUE_INVALID

_Item = TypeVar("_Item")


def _refuse_repeated_items(items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    for index, item in enumerate(items):
        if item in items[:index]:
            raise PydanticCustomError(
                VALUE_INVALID,
                "entry {number} of the list repeats an earlier entry",
                {"number": index + 1, "fix": "list it once"},
            )
    return items


ProcessName = Annotated[str, PROCESS_NAME]
ConnectionRef = Annotated[str, CONNECTION_REF]
QuotableName = Annotated[str, Field(min_length=1, max_length=128), QUOTABLE]
Text = Annotated[str, Field(min_length=1), TEXT]
ColumnNames = Annotated[
    tuple[QuotableName, ...],
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_refuse_repeated_items),
]
UniqueTexts = Annotated[
    tuple[Text, ...], Field(json_schema_extra={"uniqueItems": True}), AfterValidator(_refuse_repeated_items)
]
