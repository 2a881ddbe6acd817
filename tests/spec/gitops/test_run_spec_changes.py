"""A reviewer sees what a new run-spec changes, and what its deployment does to a run (DAG-27)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from dpone_core.contracts.run_spec import RunSpec, parse_run_spec
from dpone_core.gitops.changes import run_spec_changes
from tests.spec.contracts.documents import run_spec_document

GOES_ON = "a run during the deployment goes on: its receipts stay valid"
FAILS = "a run during the deployment fails at its gate (DPONE_RUN_SPEC_CHANGED): deploy between runs"
Change = Callable[[dict[str, Any]], object]


def spec(change: Change = lambda document: None) -> RunSpec:
    document = copy.deepcopy(run_spec_document())
    change(document)
    return parse_run_spec(json.dumps(document))


def test_equal_run_specs_have_no_changes() -> None:
    assert run_spec_changes(spec(), spec()) == ()


@pytest.mark.parametrize(
    ("change", "line", "last"),
    [
        (lambda d: d.update(pack_fingerprint="sha256:" + "9" * 64), "pack_fingerprint: ", FAILS),
        (lambda d: d.update(policy_snapshot_id="sha256:" + "9" * 64), "policy_snapshot_id: ", FAILS),
        (lambda d: d["steps"][2]["argv"].append("--strict"), "step dpone_run_flights: argv: ", FAILS),
        (
            lambda d: d["steps"][2]["secret_env"][0].update(key="other"),
            "step dpone_run_flights: secret.DPONE_CONN_DWH: dpone-dwh/uri -> dpone-dwh/other",
            FAILS,
        ),
        (lambda d: d["steps"][2].update(retries=7), "step dpone_run_flights: retries: 1 -> 7", GOES_ON),
        (lambda d: d["steps"][2].update(pool="small"), "step dpone_run_flights: pool: - -> small", GOES_ON),
        (lambda d: d.update(platform={"pool": "small"}), "platform.pool: - -> small", GOES_ON),
        (lambda d: d.update(platform={"env": {"TZ": "UTC"}}), "platform.env.TZ: - -> UTC", FAILS),
    ],
    ids=["bundle", "policy", "argv", "secret", "retries", "pool of a step", "platform", "variable"],
)
def test_a_change_is_one_line_and_the_last_one_says_what_it_does_to_a_run(change: Change, line: str, last: str) -> None:
    first, *rest = run_spec_changes(spec(), spec(change))
    assert first.startswith(line) and rest == [last]


def test_a_step_that_comes_or_goes_is_told() -> None:
    def without_hook(document: dict[str, Any]) -> None:
        verify, _, load = document["steps"]
        load.update(depends_on=[verify["step_id"]], receipts_from=[])
        document["steps"] = [verify, load]

    removed = run_spec_changes(spec(), spec(without_hook))
    added = run_spec_changes(spec(without_hook), spec())
    assert "step pre_hook_refresh_mart: removed" in removed
    assert "step pre_hook_refresh_mart: added, hook, behind bundle_verify" in added
