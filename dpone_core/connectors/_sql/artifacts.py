"""Finds the tables that loads of a target have left in a schema. `model.artifacts` makes and reads their names."""

from __future__ import annotations

import re

from dpone_core.model.artifacts import ROLES, artifact_prefix
from dpone_core.model.load_config import TableName
from dpone_core.ports.sink import Leftover


def find_artifacts(target: TableName, schema: str, names: tuple[str, ...]) -> tuple[Leftover, ...]:
    """The tables among `names` (all in `schema`) that belong to any load of `target`, in name order."""
    patterns = [(role, re.compile(re.escape(artifact_prefix(target, role)) + "[0-9a-f]{16}")) for role in ROLES]
    return tuple(
        Leftover(table=TableName(schema=schema, name=name), role=role)
        for name in sorted(names)
        for role, pattern in patterns
        if pattern.fullmatch(name)
    )
