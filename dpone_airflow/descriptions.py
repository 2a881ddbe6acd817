"""Titles, Markdown and links that the Airflow UI shows for a process, its steps and its gate. Pure and short.

Contract: DAG-15, AIR-25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

from dpone_core.contracts.run_spec import RunSpec, RunSpecStep
from dpone_core.model.vocabulary import StepKind, WithoutReceipt


def step_title(spec: RunSpec, step: RunSpecStep) -> str:
    """Display name of a task."""
    if step.hook is not None:
        return f"{step.hook.phase.value.replace('_', '-')} {step.hook.id}"
    if step.kind is StepKind.LOAD:
        return f"load {spec.process}" if spec.mapped is None else f"publish {spec.process}"
    return _TITLES[step.kind]


def step_document(spec: RunSpec, step: RunSpecStep) -> str:
    """Markdown of a task: what the step does, its lineage, and what a retry would repeat."""
    hook = step.hook
    lineage = (
        f"- reads: {_names(hook.inputs)}\n- writes: {_names(hook.outputs)}\n"
        f"- SQL: {f'`{hook.sql_hash}`' if hook.sql_hash else 'none'}\n"
        if hook is not None
        else ""
    )
    at_once = f"- partitions at a time: {step.max_parallel}\n" if step.max_parallel is not None else ""
    without = "stops" if step.without_receipt is WithoutReceipt.STOP else "may be retried"
    return (
        f"**{step_title(spec, step)}**\n\n- kind: {_kind(step)}\n- manifest: `{spec.manifest}`\n{lineage}{at_once}"
        f"- run time limit: {step.timeout_seconds} s\n- a retry would repeat: {_REPEATED[step.kind]}\n"
        f"- without a receipt it {without}; retries configured: {step.retries}"
    )


def partitions_document(spec: RunSpec) -> str:
    """Markdown of the task that lists the partitions of a plan."""
    return (
        f"Takes the receipt of the plan of **{spec.process}** and gives Airflow one entry for each planned partition, "
        "the partition of NULL keys first.\n\n"
        "- runs in the worker, starts no pod, reads no rows\n"
        "- fails where the receipt is missing, another run's or longer than Airflow maps (core.max_map_length)"
    )


def group_document(spec: RunSpec, *, max_active_runs: int, ignored: Sequence[str] = ()) -> str:
    """Markdown of the task group; warns where the DAG allows runs in parallel, which compete for one target, and names
    the `default_args` that have no effect because the run-spec decides them.
    """
    lines = [
        f"dpone process **{spec.process}** from `{spec.manifest}`.",
        "",
        f"- run-spec: `{spec.fingerprint}`",
        f"- bundle: `{spec.pack_fingerprint}`",
        f"- image: `{spec.image}`",
    ]
    if max_active_runs != 1:
        lines.append(f"- set max_active_runs=1 (now {max_active_runs}): parallel runs compete for one target")
    if ignored:
        lines.append(f"- default_args without effect, the run-spec decides: {', '.join(ignored)}")
    return "\n".join(lines)


def gate_document(spec: RunSpec) -> str:
    """Markdown of the gate: what it demands, and where to look after a failure."""
    return (
        f"Passes only if every step of **{spec.process}** succeeded in this DAG run "
        f"and left its own verified receipt{_EACH_PARTITION if spec.mapped else ''}.\n\n"
        "After a failure:\n\n"
        "- the log names the first cause, what is true of the target and what to do\n"
        "- the XCom `return_value` is the verdict; the link *dpone evidence* opens the load's report"
    )


def report_url(base_url: str, evidence_path: object) -> str:
    """The page beside the run.json at `evidence_path`, below `base_url`; empty unless both are sound.

    The base is http(s) without user info and the path stays below it.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
        return ""
    if not isinstance(evidence_path, str) or not evidence_path or evidence_path.startswith("/"):
        return ""
    if ".." in evidence_path.split("/"):
        return ""
    directory, _, record = evidence_path.rpartition("/")
    if record != "run.json":
        return ""
    return f"{base_url.rstrip('/')}/{quote(f'{directory}/report.html'.lstrip('/'))}"


def _kind(step: RunSpecStep) -> str:
    return f"{step.kind.value}, {step.hook.kind.value}" if step.hook else step.kind.value


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "not declared"


_EACH_PARTITION: Final = ", of the mapped step one for each partition of the plan"
_TITLES: Final = {
    StepKind.BUNDLE_VERIFY: "verify bundle",
    StepKind.TRANSFER_PLAN: "plan partitions",
    StepKind.TRANSFER_PARTITION: "stage partition",
}
_REPEATED: Final = {
    StepKind.BUNDLE_VERIFY: "reading and hashing the bundle; nothing is changed",
    StepKind.HOOK: "the hook's statements, unless this run has evidence that they succeeded",
    StepKind.TRANSFER_PLAN: "reading the plan that this run has made; the target is not touched",
    StepKind.TRANSFER_PARTITION: "one partition into its staging, unless it is staged; the target is not touched",
    StepKind.LOAD: (
        "the load from its source, only where the receipt says the target is not mutated or can be resumed, or the "
        "source state has advanced, when nothing of the load is repeated"
    ),
}
