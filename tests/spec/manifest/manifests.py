"""Builders of manifest texts and files with valid defaults."""

from __future__ import annotations

from pathlib import Path

import yaml

from dpone_core.manifest.check import check_manifest
from dpone_core.manifest.resolve import Manifest, load_manifest
from dpone_core.model.problem import Problem

FLOW = """\
kind: dpone.flow.v1
name: orders
source:
  type: sqlite
  connection_ref: shop
  table: {name: orders}
sink:
  type: clickhouse
  connection_ref: dwh
  table: {schema: raw, name: orders}
  strategy: {mode: full_refresh}
"""

BATCH = """\
kind: dpone.batch.v1
defaults:
  source: {type: sqlite, connection_ref: shop}
  sink:
    type: clickhouse
    connection_ref: dwh
    table: {schema: raw}
    strategy: {mode: full_refresh}
schemas:
  main:
    tables:
      - orders
      - customers
"""


def flow(**changes: object) -> dict[str, object]:
    """The flow manifest as a value; a keyword replaces a dotted path written with `__`, None removes it."""
    value = yaml.safe_load(FLOW)
    for path, change in changes.items():
        *parents, last = path.split("__")
        node = value
        for part in parents:
            node = node.setdefault(part, {})
        if change is None:
            del node[last]
        else:
            node[last] = change
    return dict(value)


def written(directory: Path, manifest: str | dict[str, object], name: str = "m.yaml") -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = manifest if isinstance(manifest, str) else yaml.safe_dump(manifest, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path


def loaded(directory: Path, manifest: str | dict[str, object], name: str = "m.yaml") -> Manifest:
    return load_manifest(written(directory, manifest, name), project_root=directory)


def problems_of(directory: Path, manifest: str | dict[str, object], name: str = "m.yaml") -> tuple[Problem, ...]:
    return check_manifest(written(directory, manifest, name), project_root=directory).errors


def codes_and_paths(directory: Path, manifest: str | dict[str, object]) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in problems_of(directory, manifest)]
