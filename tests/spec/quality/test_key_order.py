"""The order in which keys are written changes no meaning: one policy, one semantic fingerprint; the pack hashes bytes.

Contract: MAN-10, RCPT-02.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from dpone_core.use_cases.gitops import pack_manifest
from tests.spec.builders import Project, flow, hook, hooks

WHOLE = flow(
    source__options=hooks(
        pre=[hook("second", "DELETE FROM log", depends_on=["first"]), hook("first", "INSERT INTO log VALUES (1)")]
    ),
    quality={
        "gates": [
            {"id": "lost", "type": "row_count_reconciliation", "tolerance": {"mode": "pct", "value": 1}},
            {"id": "some", "type": "min_rows", "side": "target", "threshold": 1, "severity": "warning"},
        ],
        "acceptance": {
            "enabled": True,
            "mode": "required",
            "capture": {"source": True, "staged": False, "target": True},
            "checks": {"row_count": True, "null_counts": ["id", "name"], "distinct_counts": "off"},
        },
    },
)


def reordered(value: Any, seed: int) -> Any:
    """The same value with the keys of every mapping in another order; lists keep theirs."""
    if isinstance(value, list):
        return [reordered(item, seed) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    random.Random(seed).shuffle(names)
    return {name: reordered(value[name], seed) for name in names}


def facts(project: Project, document: dict[str, Any]) -> dict[str, Any]:
    """Every fingerprint that `check`, `plan` and `gitops pack` state of one manifest."""
    path = project.written(document)
    checked = project.dpone("check", path.name, "--format", "json").document
    planned = project.dpone("plan", path.name, "--format", "json").document
    return {
        "semantic": checked["semantic_fingerprint"],
        "policy": planned["quality"]["policy_snapshot_id"],
        "bytes": checked["source_fingerprint"],
        "pack": pack_manifest(path, project_dir=project.root).pack_fingerprint,
    }


@pytest.fixture(name="project", scope="module")
def empty_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("seed", range(3))
def test_another_order_of_keys_is_the_same_policy_and_the_same_meaning(project: Project, seed: int) -> None:
    written, other = facts(project, WHOLE), facts(project, reordered(WHOLE, seed))
    assert (other["semantic"], other["policy"]) == (written["semantic"], written["policy"])


def test_a_pack_hashes_the_bytes_that_were_reviewed(project: Project) -> None:
    """On purpose: a step re-hashes the very file it opens, and another order of keys is another file."""
    written, other = facts(project, WHOLE), facts(project, reordered(WHOLE, 1))
    assert other["bytes"] != written["bytes"] and other["pack"] != written["pack"]
    assert facts(project, WHOLE) == written


def test_another_order_of_gates_is_another_policy(project: Project) -> None:
    gates = {**WHOLE, "quality": {**WHOLE["quality"], "gates": WHOLE["quality"]["gates"][::-1]}}  # type: ignore[dict-item, index]
    written, other = facts(project, WHOLE), facts(project, gates)
    assert other["policy"] != written["policy"] and other["semantic"] != written["semantic"]
