"""Renders two sections of report.html: the identity of the run, and how to check the page against run.json."""

from __future__ import annotations

from dpone_core.evidence.html_parts import Markup
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.window import describe_window


def identity_section(markup: Markup, run: JsonView, report: JsonView) -> str:
    """Process, run, load, route and policy of the run; facts the JSON does not have are left out."""
    route, target = run.at("plan", "route"), next(iter(run.items("plan", "targets")), JsonView(None))
    entries: list[tuple[str, str | None]] = [
        ("Process", report.text("process")),
        ("Manifest", report.text("manifest")),
        ("Selector", report.text("selector")),
        ("Run id", report.text("run_id")),
        ("Load id", run.text("load_id") or report.text("result", "details", "load_id")),
        ("DAG", run.text("invocation", "dag_id")),
        ("DAG run", run.text("invocation", "dag_run_id")),
        ("Try, map index", _try(run.at("invocation"))),
        ("Logical date", run.text("invocation", "logical_date")),
        ("Interval", _join(run.text("invocation", "interval_start"), run.text("invocation", "interval_end"))),
        ("Window", describe_window(report.at("result", "details", "window").value)),
        ("Repair authority", run.text("invocation", "repair_authority_ref")),
        ("Route", _join(route.text("source"), route.text("sink"))),
        ("Dataset", route.text("dataset")),
        ("Load path", route.text("load_path")),
        ("Strategy", run.text("plan", "strategy", "mode")),
        ("Published by", target.text("finaliser", "name")),
        ("Atomic for", target.text("finaliser", "atomic_for")),
        ("Delivery", run.text("plan", "delivery", "semantics")),
        ("Policy snapshot", run.text("policy_snapshot_id")),
        ("Gate policy", run.text("plan", "quality", "policy_fingerprint")),
        ("dpone", run.text("dpone_version")),
    ]
    coded = {"Run id", "Load id", "DAG run", "Policy snapshot", "Gate policy"}
    known = [(name, markup.code(value) if name in coded else markup.text(value)) for name, value in entries if value]
    return markup.facts(known, "list") if known else ""


def evidence_section(markup: Markup, details: JsonView, evidence_sha256: str | None) -> str:
    """The warnings of the run, the digest of run.json, and the command that computes it."""
    parts = []
    warnings = details.texts("warnings")
    if warnings:
        parts.append("<p>Warnings of this run:</p>\n<ul>")
        parts += [f"<li>{markup.text(warning)}</li>" for warning in warnings]
        parts.append("</ul>")
    if evidence_sha256 is None:
        return "\n".join([*parts, "<p>This report was not published as evidence.</p>"])
    parts.append(
        f"<p>This page shows {markup.code('run.json')} with the digest below. The step receipt states the same "
        "digest; believe the file, not this page, where they differ.</p>"
    )
    entries = [("Digest", markup.code(evidence_sha256)), ("Check", markup.code("sha256sum run.json"))]
    parts.append(markup.facts(entries, "list"))
    return "\n".join(parts)


def _try(invocation: JsonView) -> str | None:
    number, index = invocation.count("try_number"), invocation.count("map_index")
    if invocation.text("dag_id") is None or number is None:
        return None
    return f"try {number}" if index is None else f"try {number}, map index {index}"


def _join(first: str | None, second: str | None) -> str | None:
    return f"{first} to {second}" if first and second else None
