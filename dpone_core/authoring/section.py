"""The closed, strict, frozen shape every authored section shares: nothing unknown passes, nothing is coerced.

The text under a field describes it in the JSON Schema; it is collected when the schema is written, not at import.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Root of all authored models. Scalars are never coerced: a string boolean or a float integer is an error."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
