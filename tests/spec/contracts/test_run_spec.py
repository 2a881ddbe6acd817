"""A run-spec is a closed, literal, chained list of steps without secrets (DAG-16)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from dpone_core.contracts.run_spec import MAX_RUN_SPEC_BYTES, parse_run_spec, render_run_spec
from dpone_core.contracts.seal import add_seal
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.errors import ETLConfigurationError, ExitClass
from dpone_core.version import __version__
from tests.spec.contracts.documents import hook_step, load_step, run_spec_document, verify_step

Change = Callable[[dict[str, Any]], object]


def refusal(document: dict[str, Any] | str | bytes) -> ContractInvalidError:
    text = json.dumps(document) if isinstance(document, dict) else document
    with pytest.raises(ContractInvalidError) as caught:
        parse_run_spec(text)
    assert caught.value.code == "DPONE_RUN_SPEC_INVALID"
    return caught.value


def post_hook(**changes: Any) -> dict[str, Any]:
    return hook_step("announce", "post_hook", **{"depends_on": ["dpone_run_flights"], **changes})


def test_the_example_of_the_design_is_valid() -> None:
    spec = parse_run_spec(json.dumps(run_spec_document()))
    assert [step.step_id for step in spec.steps] == ["bundle_verify", "pre_hook_refresh_mart", "dpone_run_flights"]
    assert spec.load.step_id == "dpone_run_flights"


def test_a_load_without_separate_hooks_stands_behind_the_verification() -> None:
    document = run_spec_document(steps=[verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[])])
    assert len(parse_run_spec(json.dumps(document)).steps) == 2


def test_post_hooks_stand_behind_the_load() -> None:
    document = run_spec_document(steps=[verify_step(), hook_step(), load_step(), post_hook()])
    assert parse_run_spec(json.dumps(document)).steps[-1].step_id == "post_hook_announce"


def test_rendering_and_parsing_give_the_same_run_spec_and_fingerprint() -> None:
    spec = parse_run_spec(json.dumps(run_spec_document()))
    again = parse_run_spec(render_run_spec(spec))
    assert again == spec and again.fingerprint == spec.fingerprint
    assert render_run_spec(again) == render_run_spec(spec)


def fingerprint_with(change: Callable[[dict[str, Any]], object]) -> str:
    document = copy.deepcopy(run_spec_document())
    change(document)
    return parse_run_spec(json.dumps(document)).fingerprint


def test_the_fingerprint_ignores_spelled_out_defaults_and_key_order() -> None:
    document = run_spec_document()
    spelled = copy.deepcopy(document)
    spelled["steps"][0].update({"receipts_from": [], "secret_env": [], "hook": None})
    spelled = dict(reversed(list(spelled.items())))
    first, second = (parse_run_spec(json.dumps(one)).fingerprint for one in (document, spelled))
    assert first == second


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["steps"][2].update(retries=2),
        lambda d: d["steps"][2].update(timeout_seconds=77),
        lambda d: d.update(platform={"pool": "small", "tolerations": [{"key": "spot", "operator": "Exists"}]}),
        lambda d: d.update(platform={"startup_timeout_seconds": 99, "labels": {"team": "dwh"}}),
    ],
    ids=["retries", "timeout", "pool and tolerations", "start-up and labels"],
)
def test_a_limit_or_a_setting_of_the_cluster_leaves_the_fingerprint(change: Callable[[dict[str, Any]], object]) -> None:
    assert fingerprint_with(change) == parse_run_spec(json.dumps(run_spec_document())).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(image=d["image"].replace("sha256:", "sha256:0")[: len(d["image"])]),
        lambda d: d["steps"][2]["argv"].append("--strict"),
        lambda d: d.update(pack_fingerprint="sha256:" + "9" * 64),
        lambda d: d.update(policy_snapshot_id="sha256:" + "9" * 64),
        lambda d: d["steps"][2]["secret_env"][0].update(key="other"),
        lambda d: d.update(platform={"env": {"DPONE_EVIDENCE_DIR": "/elsewhere"}}),
        lambda d: d.update(platform={"bundle_root": "/elsewhere"}),
    ],
    ids=["image", "argv", "pack", "policy", "secret", "variable", "bundle root"],
)
def test_whatever_decides_what_a_step_does_changes_the_fingerprint(change: Callable[[dict[str, Any]], object]) -> None:
    assert fingerprint_with(change) != parse_run_spec(json.dumps(run_spec_document())).fingerprint


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda d: d.update(schema="dpone.run_spec.v2"), "schema"),
        (lambda d: d.update(surprise=1), "surprise"),
        (lambda d: d.pop("pack"), "pack"),
        (lambda d: d.update(image="registry.example/dpone:latest"), "image"),
        (lambda d: d.update(image="registry.example/dpone@sha256:abc"), "image"),
        (lambda d: d.update(pack_fingerprint="b" * 64), "pack_fingerprint"),
        (lambda d: d.update(policy_snapshot_id=None), "policy_snapshot_id"),
        (lambda d: d.update(manifest="/etc/flights.yaml"), "manifest"),
        (lambda d: d.update(steps=[]), "steps"),
        (lambda d: d["steps"][1].update(step_id="Pre-Hook"), "steps.1.step_id"),
        (lambda d: d["steps"][1].update(kind="publish"), "steps.1.kind"),
        (lambda d: d["steps"][1].update(timeout_seconds=0), "steps.1.timeout_seconds"),
        (lambda d: d["steps"][1].update(timeout_seconds=1.5), "steps.1.timeout_seconds"),
        (lambda d: d["steps"][1].update(retries=-1), "steps.1.retries"),
        (lambda d: d["steps"][1].update(retries="0"), "steps.1.retries"),
        (lambda d: d["steps"][1].update(without_receipt="pass"), "steps.1.without_receipt"),
        (lambda d: d["steps"][1].update(argv=[]), "steps.1.argv"),
        (lambda d: d["steps"][1].update(expand={"x": [1]}), "steps.1.expand"),
        (lambda d: d["steps"][1]["hook"].update(kind="unknown"), "steps.1.hook.kind"),
        (lambda d: d["steps"][1]["hook"].update(sql="EXEC x"), "steps.1.hook.sql"),
        (lambda d: d["steps"][1]["secret_env"][0].update(value="s3cret"), "steps.1.secret_env.0.value"),
        (lambda d: d["steps"][1]["secret_env"][0].update(name="PASSWORD"), "steps.1.secret_env.0.name"),
        (lambda d: d["steps"][1]["secret_env"][0].update(secret="Not A Name"), "steps.1.secret_env.0.secret"),
    ],
)
def test_an_unknown_or_malformed_field_is_named(change: Change, path: str) -> None:
    document = run_spec_document()
    change(document)
    assert refusal(document).path == path


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d["steps"][1]["argv"].__setitem__(0, "sh"), "must start with 'dpone'"),
        (lambda d: d["steps"][2]["argv"].__delitem__(slice(-2, None)), "--receipt-path"),
        (lambda d: d["steps"][2]["argv"].__setitem__(-1, "/tmp/receipt.json"), "--receipt-path"),
        (lambda d: d["steps"][2].update(step_id="bundle_verify"), "must be unique"),
        (lambda d: d["steps"][2].update(depends_on=["nobody"]), "unknown step"),
        (lambda d: d["steps"][2].update(depends_on=["bundle_verify", "bundle_verify"]), "twice"),
        (lambda d: d["steps"].reverse(), "must be listed after step"),
        (lambda d: d["steps"][1].update(depends_on=["dpone_run_flights"]), "must be listed after step"),
        (lambda d: d["steps"][1].update(depends_on=["pre_hook_refresh_mart"]), "must be listed after step"),
        (lambda d: d["steps"][1].update(depends_on=[]), "must depend on bundle_verify"),
        (lambda d: d["steps"][2].update(depends_on=["bundle_verify"]), "must name pre-hook steps that run before it"),
        (
            lambda d: d["steps"][2].update(depends_on=["bundle_verify"], receipts_from=[]),
            "must depend on every pre-hook",
        ),
        (lambda d: d["steps"][2].update(receipts_from=[]), "must name every pre-hook step"),
        (
            lambda d: d["steps"][2].update(receipts_from=["bundle_verify"]),
            "must name pre-hook steps that run before it",
        ),
        (lambda d: d["steps"][2]["argv"].__setitem__(4, "inline"), "--separate-hooks receipts"),
        (lambda d: d["steps"].pop(), "exactly one step of kind load"),
        (lambda d: d["steps"].append(load_step(step_id="second")), "exactly one step of kind load"),
        (lambda d: d["steps"].pop(0), "unknown step"),
        (lambda d: d["steps"][0].update(hook=d["steps"][1]["hook"]), "kind hook"),
        (lambda d: d["steps"][1].pop("hook"), "kind hook"),
        (lambda d: d["steps"].append(post_hook(depends_on=["bundle_verify"])), "must depend on the load"),
        (lambda d: d.update(manifest="a/../../b.yaml"), "inside the bundle"),
        (lambda d: d["steps"][1]["secret_env"].append(d["steps"][1]["secret_env"][0]), "a variable twice"),
    ],
)
def test_a_run_spec_that_does_not_hang_together_is_refused(change: Change, sentence: str) -> None:
    document = run_spec_document()
    change(document)
    assert sentence in refusal(document).message


@pytest.mark.parametrize("text", ["{{ ds }}", "{% if x %}", "{# x #}", "$(HOME)", "a{{b"])
@pytest.mark.parametrize(
    "place",
    [
        lambda d, text: d["steps"][2]["argv"].insert(3, text),
        lambda d, text: d["steps"][1]["hook"].update(id=text),
        lambda d, text: d["steps"][1]["hook"]["inputs"].append(text),
    ],
)
def test_a_template_anywhere_is_refused(text: str, place: Callable[[dict[str, Any], str], object]) -> None:
    document = run_spec_document()
    place(document, text)
    assert "template" in refusal(document).message


@pytest.mark.parametrize("url", ["mssql://sa:canary@erp/db", "postgres://:canary@h/db", "--uri=x+y://u:canary@h"])
def test_a_literal_credential_is_refused_and_not_echoed(url: str) -> None:
    document = run_spec_document()
    document["steps"][2]["argv"].insert(3, url)
    error = refusal(document)
    assert "secret_env" in error.message and "canary" not in str(error)


def test_a_hook_without_sql_has_no_sql_hash() -> None:
    document = run_spec_document()
    document["steps"][1]["hook"].update(kind="notification", sql_hash=None)
    assert parse_run_spec(json.dumps(document)).steps[1].hook is not None


def test_at_most_sixteen_receipts_reach_a_load() -> None:
    hooks = [hook_step(f"h{number}") for number in range(17)]
    ids = [hook["step_id"] for hook in hooks]
    steps = [verify_step(), *hooks, load_step(depends_on=ids, receipts_from=ids)]
    assert refusal(run_spec_document(steps=steps)).path == "steps.18.receipts_from"


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"a":NaN}', '{"a":1,"a":1}', b"\xff\xfe", "[" * 100_000])
def test_a_document_that_is_not_one_json_object_is_refused(text: str | bytes) -> None:
    refusal(text)


def test_a_document_over_the_limit_is_refused() -> None:
    assert "larger" in refusal(b" " * MAX_RUN_SPEC_BYTES + b"{}").message


def test_a_broken_contract_is_a_refusal_before_execution() -> None:
    assert issubclass(ContractInvalidError, ETLConfigurationError)
    assert refusal("[]").exit_class is ExitClass.REFUSED


def test_a_compiled_run_spec_that_nobody_changed_is_taken_as_it_was_compiled() -> None:
    spec = parse_run_spec(json.dumps(run_spec_document(platform={"namespace": "etl"})))
    content = render_run_spec(spec)
    assert parse_run_spec(content) == spec and parse_run_spec(content.decode()).fingerprint == spec.fingerprint


def test_every_changed_byte_of_a_compiled_run_spec_is_refused() -> None:
    content = render_run_spec(parse_run_spec(json.dumps(run_spec_document())))
    for place in range(0, len(content), 7):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        refusal(changed)


def test_a_compiled_run_spec_that_was_edited_by_hand_says_so() -> None:
    content = render_run_spec(parse_run_spec(json.dumps(run_spec_document())))
    for edited in (content.replace(b'"retries": 1', b'"retries": 9'), json.dumps(json.loads(content)).encode()):
        assert "changed after it was compiled" in refusal(edited).message


def test_a_run_spec_that_another_version_compiled_is_judged_in_full() -> None:
    document = run_spec_document()
    document["steps"][2]["depends_on"] = ["nobody"]
    body = (json.dumps(document, indent=2) + "\n").encode()
    assert "unknown step" in refusal(add_seal(body, fingerprint="sha256:" + "0" * 64, dpone_version="9.9.9")).message
    valid = (json.dumps(run_spec_document(), indent=2) + "\n").encode()
    spec = parse_run_spec(add_seal(valid, fingerprint="sha256:" + "0" * 64, dpone_version="9.9.9"))
    assert spec.fingerprint == parse_run_spec(json.dumps(run_spec_document())).fingerprint


def test_a_seal_does_not_excuse_a_field_of_the_wrong_type() -> None:
    body = (json.dumps(run_spec_document(image="registry.example/dpone:latest"), indent=2) + "\n").encode()
    forged = add_seal(body, fingerprint="sha256:" + "0" * 64, dpone_version=__version__)
    assert refusal(forged).path == "image"


@pytest.mark.parametrize(
    ("platform", "path"),
    [
        ({"surprise": 1}, "platform.surprise"),
        ({"env": {"DPONE_STEP_ID": "x"}}, "platform.env"),
        ({"pool": "{{ x }}"}, "platform.pool"),
        ({"active_deadline_seconds": 10}, ""),
    ],
)
def test_the_platform_section_is_closed_and_literal(platform: dict[str, Any], path: str) -> None:
    assert refusal(run_spec_document(platform=platform)).path == path


def test_a_seal_is_made_of_the_content_and_not_of_the_seal_before() -> None:
    spec = parse_run_spec(json.dumps(run_spec_document()))
    spec.__dict__["fingerprint"] = "sha256:" + "0" * 64
    assert parse_run_spec(render_run_spec(spec)).fingerprint == spec.compute_fingerprint() != spec.fingerprint
