"""The fingerprint of a manifest's meaning: spelling, comments, the order of keys and explicit default values do not
change it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpone_core.authoring.acceptance import ColumnSelector, selects_columns
from dpone_core.manifest.processes import AuthoredManifest, AuthoredProcess
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.sql import sql_hash_of

_FIELDS_WITHOUT_MEANING = {"kind", "connections", "description"}


def semantic_fingerprint(manifest: AuthoredManifest, configs: Sequence[LoadConfig]) -> str:
    """Fingerprint of all processes and connections. SQL counts by its hash, inline or from a file; `off`, `none` and
    `false` count as one selector.
    """
    processes = [_meaning(process, config) for process, config in zip(manifest.processes, configs, strict=True)]
    return fingerprint({"processes": processes, "connections": dict(manifest.connections)})


def _meaning(process: AuthoredProcess, config: LoadConfig) -> dict[str, object]:
    meant: dict[str, object] = process.section.model_dump(mode="json", by_alias=True, exclude=_FIELDS_WITHOUT_MEANING)
    query = config.source.query
    meant["sql"] = {
        "query": query.sql_hash if query is not None else None,
        "hooks": [hook.sql_hash for hook in config.hooks],
        **({"gates": statements} if (statements := _statements(config)) else {}),
    }
    checks = process.section.quality.acceptance.checks
    meant["selectors"] = [_selector(checks.null_counts), _selector(checks.distinct_counts)]
    return _drop_spellings(meant)


def _statements(config: LoadConfig) -> list[str]:
    """Hashes of the statements of gates, in authored order."""
    gates = config.quality.get("gates")
    texts = [gate.get("sql") for gate in (gates if isinstance(gates, list) else [])]
    return [sql_hash_of(text) for text in texts if isinstance(text, str)]


def _selector(chosen: bool | ColumnSelector | tuple[str, ...]) -> object:
    if not selects_columns(chosen):
        return "off"
    return list(chosen) if isinstance(chosen, tuple) else "all_columns" if chosen is True else str(chosen)


def _drop_spellings(meant: dict[str, object]) -> dict[str, object]:
    """Drops the fields that `sql` and `selectors` repeat in one form."""
    dropped = {"sql_file", "null_counts", "distinct_counts"}

    def drop_from(node: object, *, top: bool = False) -> object:
        if isinstance(node, dict):
            return {key: drop_from(item) for key, item in node.items() if key not in dropped and (top or key != "sql")}
        return [drop_from(item) for item in node] if isinstance(node, list) else node

    result = drop_from(meant, top=True)
    return result if isinstance(result, dict) else {}
