"""report.html tells a person what became of the target and what to do, from run.json alone, and can do nothing else.

Contract: EVID-20. `DPONE_WRITE_GOLDENS=1` rewrites goldens.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_core.evidence.html import run_html
from dpone_core.evidence.html_style import STYLE, STYLE_HASH
from dpone_core.evidence.redaction import TOKEN, Redactor
from dpone_core.model.fingerprint import sha256_bytes
from tests.browser import look_at
from tests.spec.builders import Project, append_flow, flow, hook, hooks
from tests.spec.evidence.strict_html import NotStrictError, Page

GOLDEN = Path(__file__).parents[2] / "golden" / "report_html"
RUNS = {path.name.removesuffix(".run.json"): path for path in sorted(GOLDEN.glob("*.run.json"))}
VERDICTS = {
    "success": "The target raw.orders holds this load of 3 rows. Nothing needs to be repeated.",
    "gate_failure_pre_commit": (
        "The target raw.orders was not changed by this run. A retry is safe: it repeats nothing in the target."
    ),
    "gate_failure_post_commit": (
        "The target raw.orders holds this load, although the run failed. A retry writes this load again in its place; "
        "no row is doubled."
    ),
    "pre_hook_failure": ("The target raw.orders was not changed by this run. Do not retry before a person has looked."),
    "post_hook_failure": (
        "The target raw.orders holds this load, although the run failed. Do not retry before a person has looked."
    ),
}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "</title></head><body onload=alert(1)>",
    "<!--",
    "]]>",
    "&lt;b&gt;&amp;&#60;script&#62;",
    "javascript:alert(1)",
    "\u202egnp.exe\u2066",
    "\x00\x1b[31m\r\n\ud800",
    "{{ 7*7 }}${7*7}",
)


def loaded(name: str) -> Any:
    return json.loads(RUNS[name].read_bytes())


def rendered(name: str, document: Any = None) -> str:
    content = RUNS[name].read_bytes()
    return run_html(document or json.loads(content), Redactor(), evidence_sha256=sha256_bytes(content))


def body_of(page: str) -> str:
    return page[page.index("<body>") :]


def shown(page: str) -> str:
    """The page's text on one line."""
    return re.sub(r"\s+", " ", " ".join(Page(source=page).texts))


@pytest.mark.parametrize("name", RUNS)
def test_the_page_is_the_reviewed_one(name: str) -> None:
    golden, page = GOLDEN / f"{name}.html", body_of(rendered(name))
    if os.environ.get("DPONE_WRITE_GOLDENS"):
        golden.write_text(page, encoding="utf-8")
    assert page == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RUNS)
def test_the_first_sentence_says_what_became_of_the_target_and_whether_a_retry_repeats_it(name: str) -> None:
    assert VERDICTS[name] in shown(rendered(name))


@pytest.mark.parametrize("name", RUNS)
def test_the_page_is_strict_html_that_refers_to_nothing_outside(name: str) -> None:
    page = rendered(name)
    Page(source=page)
    assert not re.search(r"https?:|//|@import|url\(", page.replace("<!DOCTYPE html>", ""))


def test_the_strict_reader_refuses_what_a_browser_repairs() -> None:
    page = rendered("success")
    for broken in (
        page.replace("</main>", "", 1),
        page.replace("</h1>", "</h2>", 1),
        page.replace("<h1>", '<h1 onclick="x">', 1),
        page.replace("<h1>", "<h1>&", 1),
        page.replace('href="#rows"', 'href="https:x"', 1),
        page.replace('id="rows"', 'id="gates"', 1),
        page.replace("<main>", "<main><script></script>", 1),
        page.replace("<main>", "<main><!-- x -->", 1),
    ):
        assert broken != page
        with pytest.raises(NotStrictError):
            Page(source=broken)


def test_the_policy_forbids_everything_but_the_one_style_sheet() -> None:
    page = rendered("success")
    assert f"content=\"default-src 'none'; style-src '{STYLE_HASH}'; base-uri 'none'; form-action 'none'\"" in page
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert page.count(STYLE) == 1 and not re.search(r"@import|url\(|expression", STYLE)


def test_a_reader_without_eyes_finds_landmarks_headings_and_table_headers() -> None:
    page = Page(source=rendered("success"))
    tags = [tag for tag, _ in page.elements]
    assert [tags.count(tag) for tag in ("header", "main", "nav", "footer", "h1", "title")] == [1] * 6
    assert ("html", ("lang",)) in page.elements and tags.count("section") == tags.count("h2")
    headers = [names for tag, names in page.elements if tag == "th"]
    assert headers and all("scope" in names for names in headers)
    assert tags.count("caption") == tags.count("table")
    assert all("aria-hidden" in names for tag, names in page.elements if tag == "svg")


PALETTES = dict(zip(("light", "dark"), re.findall(r":root\{(.*?)\}", STYLE, re.DOTALL), strict=False))
PAIRS = [
    *((front, back) for front in ("ink", "quiet") for back in ("page", "card", "faint")),
    *((tone, f"{tone}-bg") for tone in ("ok", "bad", "warn", "open")),
]


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize(("front", "back"), PAIRS)
def test_text_stands_out_from_its_ground(palette: str, front: str, back: str) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 to 1."""
    colours = dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{3,6})", PALETTES[palette]))
    brighter, darker = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
    assert (brighter + 0.05) / (darker + 0.05) >= 4.5


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every text and every key of a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key, None)
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:3]):  # entries of a list are alike
            yield from places(item, (*path, index))
    elif isinstance(value, str):
        yield path


def changed(document: Any, path: tuple[Any, ...], text: str) -> Any:
    """The document with `text` at a place: as the value, or as the key where the path ends in None."""
    whole = copy.deepcopy(document)
    node = whole
    *parents, last = path[:-1] if path[-1] is None else path
    for step in parents:
        node = node[step]
    if path[-1] is None:
        node[text] = node.pop(last)
    else:
        node[last] = text
    return whole


@pytest.mark.parametrize("name", ["post_hook_failure", pytest.param("success", marks=pytest.mark.slow)])
def test_no_text_of_a_run_becomes_markup(name: str) -> None:
    """Whatever stands at any place of run.json, the elements are those that harmless text has there."""
    document = loaded(name)
    for path in places(document):
        harmless = Page(source=rendered(name, changed(document, path, "harmless"))).elements
        page = Page(source=rendered(name, changed(document, path, "".join(HOSTILE))))
        assert page.elements == harmless, path


@pytest.mark.parametrize("text", HOSTILE)
def test_no_hostile_text_becomes_markup_alone(text: str) -> None:
    document = loaded("success")
    harmless = Page(source=rendered("success", document)).elements
    for path in (("report", "process"), ("report", "run_id"), ("plan", "targets", 0, "table"), ("dpone_version",)):
        assert Page(source=rendered("success", changed(document, path, text))).elements == harmless


def test_hostile_names_are_shown_as_they_are_written() -> None:
    document = loaded("success")
    document["report"]["process"] = "<script>alert('x')</script>"
    document["plan"]["targets"][0]["table"] = "raw.\u202eevil"
    page = rendered("success", document)
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page and "<script" not in page
    assert "raw.\\u202eevil" in page and "\u202e" not in page


def test_a_secret_is_hidden_wherever_it_stands_and_however_it_would_be_escaped() -> None:
    secret = "c&nary<93b1>'\""
    document = loaded("success")
    for path in places(document):
        page = run_html(changed(document, path, f"x {secret}"), Redactor([secret]), evidence_sha256=None)
        assert "nary" not in page, path
    document["report"]["process"] = f"x {secret}"
    assert TOKEN in run_html(document, Redactor([secret]), evidence_sha256=None)


def test_the_bytes_depend_on_the_record_alone() -> None:
    assert len({rendered("success") for _ in range(3)}) == 1
    assert rendered("success", json.loads(json.dumps(loaded("success")))) == rendered("success")


def test_the_report_alone_is_enough() -> None:
    page = run_html(loaded("gate_failure_pre_commit")["report"], Redactor(), evidence_sha256=None)
    assert "The target of this process was not changed by this run." in shown(page)
    assert "This report was not published as evidence." in shown(page)


@pytest.mark.parametrize(
    "change",
    [
        {"passed": None},
        {"passed": "true"},
        {"passed": False},
        {"result": None},
        {"result": {}},
        {"result": {"status": "error"}},
        {"result": {"status": "success", "errors": ["DPONE_X: y"]}},
        {"result": {"status": "success", "failure_context": {"target_state": "unknown"}}},
    ],
)
def test_a_report_that_does_not_say_success_clearly_is_not_one(change: dict[str, Any]) -> None:
    document = loaded("success")
    document["report"] |= change
    page = rendered("success", document)
    assert "does not say whether the target raw.orders holds the load" in shown(page)
    assert "Do not retry before a person has looked." in shown(page) and "✓ succeeded" not in body_of(page)


def test_facts_that_do_not_belong_together_are_an_unknown_outcome() -> None:
    document = loaded("gate_failure_pre_commit")
    document["report"]["result"]["failure_context"]["failure_boundary"] = "post_commit"
    assert "It is not known whether the target raw.orders holds this load." in shown(rendered("success", document))


def test_a_refused_run_touched_nothing() -> None:
    report = {
        "process": "orders",
        "passed": False,
        "attempts": 0,
        "result": {"status": "error", "errors": ["DPONE_X: y"]},
    }
    assert "refused before anything executed" in shown(run_html(report, Redactor(), evidence_sha256=None))


def test_a_missing_count_is_unknown_and_never_zero() -> None:
    document = loaded("success")
    document["report"]["result"] |= {"final_rows": None, "inserted_rows": -1, "updated_rows": True}
    page = shown(rendered("success", document))
    assert "Inserted unknown" in page and "Updated unknown" in page and "In the target afterwards unknown" in page


def test_sides_that_differ_say_so_in_words() -> None:
    page = shown(rendered("success"))
    assert re.search(r"Rows 3 3 5 ! differs", page)
    assert re.search(r"id distinct values 3 \? not measured 3", page)


def test_gates_show_what_was_observed_against_what_was_expected() -> None:
    page = shown(rendered("gate_failure_pre_commit"))
    assert "enough min_rows ✕ failed error 3 rows side target at least 10 rows" in page
    assert "row_count_reconciliation row_count_reconciliation ✓ passed error source 3, target 3" in page


def test_gates_of_a_load_that_failed_behind_them_are_still_shown() -> None:
    document = loaded("post_hook_failure")
    step = next(s for s in document["report"]["result"]["details"]["load_steps"] if s["step_id"] == "quality_checked")
    gates = loaded("success")["report"]["result"]["details"]["reconciliation_metrics"]["quality_gates"]
    step["details_json"]["quality_gates"] = gates
    assert "enough min_rows ✓ passed" in shown(rendered("post_hook_failure", document))


def test_a_failed_hook_is_shown_with_lineage_hash_reason_and_the_command_that_runs_it_alone() -> None:
    page = shown(rendered("post_hook_failure"))
    assert "close_log custom post-hook ✕ failed statement_failed" in page
    assert "dpone hooks execute m.yaml --run-id posthook-2026-11-29 --phase post_hook --hook-id close_log" in page
    assert "main.orders" in shown(rendered("success")) and "sha256:489d63cd" in shown(rendered("success"))


def test_the_line_of_the_commit_stands_before_publishing_and_only_where_there_was_one() -> None:
    page = shown(rendered("success"))
    assert page.index("Measure staging") < page.index("Commit: from here on") < page.index("Publish to the target")
    assert "Commit: from here on" not in shown(rendered("gate_failure_pre_commit"))


def test_a_run_of_airflow_gets_advice_for_its_interface() -> None:
    assert "In Airflow: clear the failed task" in shown(rendered("gate_failure_pre_commit"))
    document = loaded("gate_failure_post_commit")
    assert "In Airflow" not in shown(rendered("gate_failure_post_commit", document))
    document["invocation"]["dag_id"] = "orders"
    assert "In Airflow: clear the failed task" in shown(rendered("gate_failure_post_commit", document))
    document["plan"]["strategy"]["mode"] = "incremental_append"
    assert "do not clear the load's task" in shown(rendered("gate_failure_post_commit", document))
    assert "A retry may write this load a second time." in shown(rendered("gate_failure_post_commit", document))


SECTIONS = [
    *("report", "result", "plan", "targets", "invocation", "details", "load_steps", "reconciliation_metrics"),
    *("quality_gates", "results", "metrics", "acceptance_metrics", "snapshots", "source", "null_counts"),
    *("details_json", "throughput"),
]


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(SECTIONS) | st.text(max_size=4),
                inner,
                max_size=6,
            )
        ),
        max_leaves=30,
    )
)
def test_no_document_breaks_the_page(document: object) -> None:
    page = run_html(document, Redactor(), evidence_sha256=None)
    Page(source=page.encode().decode())
    assert "holds this load of" not in page


def test_the_published_page_is_the_one_the_command_makes_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(flow(quality={"gates": [{"type": "min_rows", "threshold": 9}]}))
    assert project.run("--run-id", "r1").exit_code == 1
    (published,) = project.root.rglob("report.html")
    made = tmp_path / "made.html"
    finished = project.dpone("report", "--run-id", "r1", "--format", "html", "--output", str(made))
    assert finished.exit_code == 0 and made.read_bytes() == published.read_bytes()
    assert sha256_bytes(published.with_name("run.json").read_bytes()) in published.read_text()
    by_path = project.dpone("report", "/".join(published.parts[-5:-1]), "--format", "html")
    assert by_path.stdout == published.read_text()


def test_a_report_is_found_by_its_path_or_not_at_all(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(append_flow())
    assert project.run("--run-id", "r1").exit_code == 0
    (record,) = project.root.rglob("run.json")
    assert project.dpone("report", str(record), "--format", "json").document["report"]["passed"] is True
    record.with_name("report.md").unlink()
    assert project.dpone("report", str(record)).exit_code == 2
    assert project.dpone("report", str(record), "--format", "html").exit_code == 0
    assert project.dpone("report", str(record), "--process", "orders").exit_code == 2
    assert project.dpone("report", "absent/run.json").exit_code == 2
    record.write_text("[]")
    assert "is not the evidence of a run" in project.dpone("report", str(record), "--format", "html").stdout


def test_a_column_named_like_markup_reaches_the_page_of_a_real_run_as_text(tmp_path: Path) -> None:
    project = Project(tmp_path)
    column = "<b onclick=alert(1)>"
    project.source(f'CREATE TABLE orders (id INTEGER NOT NULL, "{column}" TEXT)', "INSERT INTO orders VALUES (1, 'a')")
    acceptance = {"enabled": True, "mode": "required", "checks": {"null_counts": "all_columns"}}
    noted = hook("note", "CREATE TABLE IF NOT EXISTS log (n INTEGER)", kind="source_refresh")
    project.written(flow(quality={"acceptance": acceptance}, source__options=hooks(pre=[noted])))
    assert project.run().exit_code == 0
    (published,) = project.root.rglob("report.html")
    assert column in Page(source=published.read_text()).texts


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_browser_shows_the_page_without_complaint(name: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(rendered(name), encoding="utf-8")
    seen = look_at(page)
    assert VERDICTS[name] in re.sub(r"\s+", " ", seen.dom) and seen.console == ()


@pytest.mark.slow
def test_a_browser_runs_nothing_that_got_into_the_page(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    script = "<script>document.title = 'taken over'</script>"
    page.write_text(rendered("success").replace("</main>", f"{script}</main>"), encoding="utf-8")
    seen = look_at(page)
    assert "<title>taken over" not in seen.dom and any("Content Security Policy" in line for line in seen.console)
