"""Finding the run-scoped objects of a target among the tables of a schema; their names are made in model.artifacts."""

from __future__ import annotations

import re

from dpone_core.model.artifacts import ROLES, artifact_prefix
from dpone_core.model.load_config import TableName
from dpone_core.ports.sink import Leftover


def find_artifacts(target: TableName, schema: str, names: tuple[str, ...]) -> tuple[Leftover, ...]:
    """Which of `names` (tables of `schema`) are artifacts of any load of `target`, in name order."""
    patterns = [(role, re.compile(re.escape(artifact_prefix(target, role)) + "[0-9a-f]{16}")) for role in ROLES]
    return tuple(
        Leftover(table=TableName(schema=schema, name=name), role=role)
        for name in sorted(names)
        for role, pattern in patterns
        if pattern.fullmatch(name)
    )
