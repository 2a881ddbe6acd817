"""What an environment has of its own stands in a file beside the platform file and is merged over it (DAG-28)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.spec.builders import Finished, Project

COMMON = """kind: dpone.platform.v1
image: registry.example/dpone@sha256:{digest}
connections:
  shop: {{secret: dpone-shop, key: uri}}
steps:
  bundle_verify: {{resources: {{requests: {{memory: 256Mi}}}}}}
defaults:
  namespace: dwh
  labels: {{team: dwh}}
  tolerations: [{{key: spot, operator: Exists}}]
""".format(digest="a" * 64)
PROD = """defaults:
  namespace: dwh-prod
  labels: {tier: "1"}
  tolerations: []
"""


def shown(root: Path, *arguments: str, prod: str = PROD) -> Finished:
    project = Project(root)
    (root / "platform.yaml").write_text(COMMON, encoding="utf-8")
    (root / "platform.prod.yaml").write_text(prod, encoding="utf-8")
    return project.dpone("gitops", "airflow", "platform", "--platform", "platform.yaml", *arguments)


def document(finished: Finished) -> dict[str, Any]:
    assert finished.exit_code == 0, finished.stderr
    found: dict[str, Any] = yaml.safe_load(finished.stdout)
    return found


def test_an_environment_is_merged_over_the_common_file(tmp_path: Path) -> None:
    merged = document(shown(tmp_path, "--environment", "prod"))
    assert merged["defaults"] == {
        "namespace": "dwh-prod",
        "labels": {"team": "dwh", "tier": "1"},
        "tolerations": [],
    }
    assert merged["image"] == yaml.safe_load(COMMON)["image"] and "shop" in merged["connections"]


def test_without_one_the_common_file_is_printed_as_it_is(tmp_path: Path) -> None:
    assert document(shown(tmp_path)) == yaml.safe_load(COMMON)


def test_what_is_decided_for_one_process_is_printed_with_its_limits(tmp_path: Path) -> None:
    decided = document(shown(tmp_path, "--environment", "prod", "--process", "orders"))
    assert decided["settings"]["namespace"] == "dwh-prod"
    assert decided["steps"]["bundle_verify"]["resources"]["requests"] == {"memory": "256Mi"}
    assert decided["steps"]["load"] == {"timeout_seconds": 7200, "retries": 1}


def test_a_mistake_is_told_in_the_file_that_holds_it(tmp_path: Path) -> None:
    finished = shown(tmp_path, "--environment", "prod", prod="defaults: {namespace: 1, nope: 2}\n")
    assert finished.exit_code == 2
    assert "platform.prod.yaml:1:23: DPONE_MANIFEST_WRONG_TYPE" in finished.stdout
    assert "platform.prod.yaml:1:26: DPONE_MANIFEST_UNKNOWN_FIELD" in finished.stdout


@pytest.mark.parametrize("name", ["test", "../prod", "Prod", ""])
def test_an_environment_without_a_file_is_refused(tmp_path: Path, name: str) -> None:
    finished = shown(tmp_path, "--environment", name)
    assert finished.exit_code == 2 and finished.stdout.startswith(("DPONE_PLATFORM_NOT_FOUND", "DPONE_CONFIGURATION"))
