"""The fingerprint of what a manifest means: spelling, comments, order of keys and default values do not change it."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_core.authoring.acceptance import ColumnSelector, selects_columns
from dpone_core.manifest.processes import AuthoredManifest, AuthoredProcess
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.load_config import LoadConfig

_UNMEANT = {"kind", "connections", "description"}


def semantic_fingerprint(manifest: AuthoredManifest, configs: Sequence[LoadConfig]) -> str:
    """SQL counts by its hash, wherever it stands; `off`, `none` and `false` are one selector."""
    processes = [_meaning(process, config) for process, config in zip(manifest.processes, configs, strict=True)]
    return fingerprint({"processes": processes, "connections": dict(manifest.connections)})


def _meaning(process: AuthoredProcess, config: LoadConfig) -> dict[str, object]:
    meant: dict[str, object] = process.section.model_dump(mode="json", by_alias=True, exclude=_UNMEANT)
    query = config.source.query
    meant["sql"] = {
        "query": query.sql_hash if query is not None else None,
        "hooks": [hook.sql_hash for hook in config.hooks],
    }
    checks = process.section.quality.acceptance.checks
    meant["selectors"] = [_selector(checks.null_counts), _selector(checks.distinct_counts)]
    return _without_spellings(meant)


def _selector(chosen: bool | ColumnSelector | tuple[str, ...]) -> object:
    if not selects_columns(chosen):
        return "off"
    return list(chosen) if isinstance(chosen, tuple) else "all_columns" if chosen is True else str(chosen)


def _without_spellings(meant: dict[str, object]) -> dict[str, object]:
    """Drops what `sql` and `selectors` state in one form."""
    dropped = {"sql_file", "null_counts", "distinct_counts"}

    def kept(node: object, *, top: bool = False) -> object:
        if isinstance(node, dict):
            return {key: kept(item) for key, item in node.items() if key not in dropped and (top or key != "sql")}
        return [kept(item) for item in node] if isinstance(node, list) else node

    result = kept(meant, top=True)
    return result if isinstance(result, dict) else {}
