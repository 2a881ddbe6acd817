"""The base of all authored sections: strict types, frozen, no unknown fields.

The text under a field is its description in the JSON Schema; it is read when the schema is written, not at import.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Root of all authored models. Scalars are never coerced: a string boolean or a float integer is an error."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
