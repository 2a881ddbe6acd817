"""Wires a run-spec into a DAG: verify -> pre-hooks -> load -> post-hooks -> outcome gate.

Two forms: one visible task per step (`wire_dpone_gitops_task_group`), or one task that runs everything inline
(`wire_dpone_gitops_task_with_gate`). Parsing reads one small file and nothing else: no database, no connection, no
clock. A DAG should keep max_active_runs=1: two runs at once would compete for the lease of one target.
Source: S1 "Airflow GitOps UX"; design 12; kpo.md 6 and 8.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpone_airflow.descriptions import gate_document, group_document, step_document, step_title
from dpone_airflow.outcome import step_contract
from dpone_airflow.pod_args import Platform, PodArguments, inline_step, pod_arguments
from dpone_core.contracts.run_spec import MAX_RUN_SPEC_BYTES, RUN_SPEC_INVALID, RunSpec, RunSpecStep, parse_run_spec
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.errors import ErrorCode
from dpone_core.resources import DocumentTooLargeError, read_file_bounded
from dpone_core.version import __version__

if TYPE_CHECKING:
    from dpone_airflow.gate import DponeOutcomeGateOperator
    from dpone_airflow.operator import DponePodOperator

RUN_SPEC_SUFFIX: Final = ".run_spec.json"
RUN_SPEC_NOT_FOUND: Final = ErrorCode("DPONE_RUN_SPEC_NOT_FOUND")
GATE_TASK_ID: Final = "outcome_gate"

RunSpecSource = RunSpec | str | Path | None
PlatformSource = Platform | Mapping[str, object] | None


def wire_dpone_gitops_task_group(
    *, dag: Any, run_spec: RunSpecSource = None, group_id: str | None = None, platform: PlatformSource = None
) -> tuple[dict[str, DponePodOperator], DponeOutcomeGateOperator]:
    """One task per step inside a task group, and the gate behind all of them.

    `run_spec` is a file (relative to the DAG file), a parsed run-spec, or by default `<dag_id>.run_spec.json` beside
    the DAG file. Returns the tasks by step id in run-spec order. Raises ContractInvalidError naming the file.
    """
    from airflow.providers.common.compat.sdk import TaskGroup

    spec, cluster = _resolved(dag, run_spec), Platform.of(platform)
    group = TaskGroup(
        group_id=group_id or f"dpone_{spec.process}"[:100],
        dag=dag,
        **_supported(
            TaskGroup,
            {
                "group_display_name": f"dpone {spec.process}",
                "tooltip": f"run-spec {spec.fingerprint[:19]}",
                "doc_md": group_document(spec, max_active_runs=dag.max_active_runs),
            },
        ),
    )
    task_ids = {step.step_id: group.child_id(step.step_id) for step in spec.steps}
    tasks: dict[str, DponePodOperator] = {}
    for step in spec.steps:
        tasks[step.step_id] = _step_task(dag, spec, step, cluster, task_ids, task_group=group)
        for dependency in step.depends_on:
            tasks[dependency] >> tasks[step.step_id]
    gate = _gate(dag, spec, spec.steps, task_ids, task_id=GATE_TASK_ID, task_group=group)
    for task in tasks.values():
        task >> gate
    return tasks, gate


def wire_dpone_gitops_task_with_gate(
    *, dag: Any, run_spec: RunSpecSource = None, task_id: str | None = None, platform: PlatformSource = None
) -> tuple[DponePodOperator, DponeOutcomeGateOperator]:
    """One task that verifies the bundle and runs hooks and load inline, and the gate behind it."""
    spec, cluster = _resolved(dag, run_spec), Platform.of(platform)
    step = inline_step(spec)
    task_ids = {step.step_id: task_id or step.step_id}
    task = _step_task(dag, spec, step, cluster, task_ids)
    gate = _gate(dag, spec, (step,), task_ids, task_id=f"{task_ids[step.step_id]}_{GATE_TASK_ID}")
    task >> gate
    return task, gate


def load_run_spec(path: str | Path) -> RunSpec:
    """The run-spec in a file; raises ContractInvalidError naming the file and the rule it breaks."""
    file = Path(path)
    try:
        return parse_run_spec(read_file_bounded(file, MAX_RUN_SPEC_BYTES))
    except ContractInvalidError as error:
        raise ContractInvalidError(f"{file}: {error.message}", code=RUN_SPEC_INVALID, path=error.path) from None
    except DocumentTooLargeError as error:
        raise ContractInvalidError(f"{file}: {error}", code=RUN_SPEC_INVALID) from None
    except OSError as error:
        raise ContractInvalidError(
            f"{file}: the run-spec cannot be read ({type(error).__name__})",
            code=RUN_SPEC_NOT_FOUND,
            fix="compile it with: dpone gitops airflow run-spec MANIFEST",
        ) from None


def load_run_specs(
    directory: str | Path, names: Iterable[str] | None = None
) -> tuple[dict[str, RunSpec], tuple[ContractInvalidError, ...]]:
    """Every `<dag_id>.run_spec.json` of a directory by dag id, in name order, and what is wrong with the others.

    With `names` only those and in their order; an absent one is among what is wrong.
    """
    folder = Path(directory)
    if names is None:
        names = sorted(file.name.removesuffix(RUN_SPEC_SUFFIX) for file in folder.glob(f"*{RUN_SPEC_SUFFIX}"))
    specs: dict[str, RunSpec] = {}
    problems: list[ContractInvalidError] = []
    for name in names:
        try:
            specs[name] = load_run_spec(folder / f"{name}{RUN_SPEC_SUFFIX}")
        except ContractInvalidError as problem:
            problems.append(problem)
    return specs, tuple(problems)


def report_broken_run_specs(problems: Iterable[ContractInvalidError]) -> Any:
    """A DAG that only carries an import error; the other DAGs of the same file load. None without problems."""
    from airflow.providers.common.compat.sdk import DAG

    found = tuple(problems)
    if not found:
        return None

    def refuse() -> None:
        raise ContractInvalidError("; ".join(str(problem) for problem in found), code=RUN_SPEC_INVALID)

    dag = DAG("dpone_broken_run_specs", schedule=None)
    dag.validate = refuse
    return dag


def _resolved(dag: Any, run_spec: RunSpecSource) -> RunSpec:
    if isinstance(run_spec, RunSpec):
        return run_spec
    return load_run_spec(Path(dag.fileloc).parent / (run_spec or f"{dag.dag_id}{RUN_SPEC_SUFFIX}"))


def _step_task(
    dag: Any, spec: RunSpec, step: RunSpecStep, cluster: Platform, task_ids: Mapping[str, str], **placed: Any
) -> DponePodOperator:
    from dpone_airflow.operator import DponePodOperator

    arguments = pod_arguments(
        spec,
        step,
        platform=cluster,
        receipt_task_ids={name: task_ids[name] for name in step.receipts_from},
        dpone_version=__version__,
    )
    return DponePodOperator(
        task_id=step.step_id if placed else task_ids[step.step_id],
        dag=dag,
        step=step_contract(spec, step, __version__),
        task_display_name=step_title(spec, step),
        doc_md=step_document(spec, step),
        **_vendor_arguments(arguments),
        **placed,
    )


def _vendor_arguments(arguments: PodArguments) -> dict[str, Any]:
    """The pure arguments with vendor types put in and what the installed operator does not know left out."""
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.providers.cncf.kubernetes.secret import Secret
    from kubernetes.client.models import V1LocalObjectReference

    return {
        **arguments.operator,
        **_supported(KubernetesPodOperator, arguments.optional),
        "secrets": [Secret("env", one.name, one.secret, one.key) for one in arguments.secret_env],
        "image_pull_secrets": [V1LocalObjectReference(name=name) for name in arguments.image_pull_secrets],
        "execution_timeout": timedelta(seconds=arguments.execution_timeout_seconds),
        "retry_delay": timedelta(seconds=arguments.retry_delay_seconds),
        "dpone_command": arguments.dpone_command,
        "run_spec_ref": arguments.run_spec_ref,
    }


def _gate(
    dag: Any, spec: RunSpec, steps: tuple[RunSpecStep, ...], task_ids: Mapping[str, str], **placed: Any
) -> DponeOutcomeGateOperator:
    from dpone_airflow.gate import DponeOutcomeGateOperator

    return DponeOutcomeGateOperator(
        dag=dag,
        steps={task_ids[step.step_id]: step_contract(spec, step, __version__) for step in steps},
        run_spec_ref={
            "process": spec.process,
            "run_spec_fingerprint": spec.fingerprint,
            "pack_fingerprint": spec.pack_fingerprint,
        },
        task_display_name="outcome gate",
        doc_md=gate_document(spec),
        **placed,
    )


def _supported(callee: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    known = _parameters(callee)
    return {name: value for name, value in arguments.items() if name in known}


@cache
def _parameters(callee: Any) -> frozenset[str]:
    return frozenset(inspect.signature(callee.__init__).parameters)
