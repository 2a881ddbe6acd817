"""Wires a run-spec into a DAG: verify -> pre-hooks -> load -> post-hooks -> outcome gate; before the load of a process
whose key ranges have tasks of their own: plan -> partitions -> one mapped task per partition.

Two forms: one visible task per step (`wire_dpone_gitops_task_group`), or one task that runs everything inline
(`wire_dpone_gitops_task_with_gate`). Parsing reads one small file and nothing else: no database, no connection, no
clock. A DAG should keep max_active_runs=1: two runs at once would compete for the lease of one target.
Contract: DAG-01, DAG-03, DAG-05, DAG-12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpone_airflow.descriptions import (
    gate_document,
    group_document,
    partitions_document,
    step_document,
    step_title,
)
from dpone_airflow.mapping import PARTITIONS_TASK_ID
from dpone_airflow.outcome import StepContract, step_contract
from dpone_airflow.pod_args import PARTITION_TITLE, Platform, ProcessPods, inline_step
from dpone_airflow.run_spec_files import (
    RUN_SPEC_SUFFIX,
    load_mapped_run_spec,
    load_run_spec,
    load_run_specs,
    report_broken_run_specs,
)
from dpone_airflow.vendor import PodOperatorArguments, select_supported
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep
from dpone_core.errors import ETLConfigurationError
from dpone_core.version import __version__

if TYPE_CHECKING:
    from dpone_airflow.gate import DponeOutcomeGateOperator
    from dpone_airflow.operator import DponePodOperator

GATE_TASK_ID: Final = "outcome_gate"
LISTING_RETRIES: Final = 2
"""Retries of the task that lists partitions. It only reads a receipt; a refusal is final and is not retried."""

RunSpecSource = RunSpec | str | Path | None
PlatformSource = Platform | Mapping[str, object] | None
Outlets = bool | Sequence[Any]

__all__ = [
    "load_mapped_run_spec",
    "load_run_spec",
    "load_run_specs",
    "report_broken_run_specs",
    "wire_dpone_gitops_task_group",
    "wire_dpone_gitops_task_with_gate",
]


def wire_dpone_gitops_task_group(
    *,
    dag: Any,
    run_spec: RunSpecSource = None,
    group_id: str | None = None,
    platform: PlatformSource = None,
    outlets: Outlets = False,
) -> tuple[dict[str, DponePodOperator], DponeOutcomeGateOperator]:
    """One task per step inside a task group, and the gate behind all of them.

    A mapped step is one mapped task, and has a task `partitions` before it that lists what is mapped.
    `run_spec` is a file (relative to the DAG file), a parsed run-spec, or by default `<dag_id>.run_spec.json` beside
    the DAG file. `platform` overrides the run-spec's own section. `outlets` are assets that the gate updates when it
    passes, True for the asset of the run-spec. Returns the tasks by step id in run-spec order. Raises
    ContractInvalidError naming the file.
    """
    process = _Process(dag, run_spec, platform)
    from airflow.providers.common.compat.sdk import TaskGroup

    spec = process.spec
    group = TaskGroup(
        group_id=group_id or f"dpone_{spec.process}"[:100],
        dag=dag,
        **select_supported(
            TaskGroup,
            {
                "group_display_name": f"dpone {spec.process}",
                "tooltip": f"run-spec {spec.fingerprint[:19]}",
                "doc_md": group_document(spec, max_active_runs=dag.max_active_runs),
            },
        ),
    )
    task_ids = {step.step_id: group.child_id(step.step_id) for step in spec.steps}
    contracts = {step.step_id: step_contract(spec, step, __version__) for step in spec.steps}
    tasks: dict[str, Any] = {}
    workers: dict[str, Any] = {}
    for step in spec.steps:
        contract = contracts[step.step_id]
        if step.mapped_over is None:
            task = process.step_task(step, contract, step.step_id, task_ids, task_group=group)
        else:
            partitions = process.partitions_task(contracts[step.mapped_over], task_ids, task_group=group)
            partitions.set_upstream(tasks[step.mapped_over])
            workers[step.mapped_over] = partitions
            task = process.mapped_task(step, contract, task_ids, partitions, task_group=group)
        if step.depends_on:
            task.set_upstream([tasks[needed] for needed in step.depends_on])
        tasks[step.step_id] = task
    judged = {task_ids[step_id]: contract for step_id, contract in contracts.items()}
    gate = process.gate(judged, GATE_TASK_ID, outlets, workers, task_group=group)
    gate.set_upstream([*tasks.values(), *workers.values()])
    return tasks, gate


def wire_dpone_gitops_task_with_gate(
    *,
    dag: Any,
    run_spec: RunSpecSource = None,
    task_id: str | None = None,
    platform: PlatformSource = None,
    outlets: Outlets = False,
) -> tuple[DponePodOperator, DponeOutcomeGateOperator]:
    """One task that verifies the bundle and runs hooks and load inline, and the gate behind it."""
    process = _Process(dag, run_spec, platform)
    step = inline_step(process.spec)
    name = task_id or step.step_id
    contract = step_contract(process.spec, step, __version__)
    task = process.step_task(step, contract, name, {step.step_id: name})
    gate = process.gate({name: contract}, f"{name}_{GATE_TASK_ID}", outlets)
    task >> gate
    return task, gate


class _Process:
    """Builds the tasks of one run-spec in one DAG."""

    def __init__(self, dag: Any, run_spec: RunSpecSource, platform: PlatformSource) -> None:
        self.dag = dag
        self.spec = _load(dag, run_spec)
        settings = self.spec.platform if platform is None else self.spec.platform.merge_overrides(Platform.of(platform))
        self._settings = settings
        self._arguments = PodOperatorArguments(ProcessPods(self.spec, settings, dpone_version=__version__))

    def step_task(
        self, step: RunSpecStep, contract: StepContract, task_id: str, task_ids: Mapping[str, str], **placed: Any
    ) -> DponePodOperator:
        from dpone_airflow.operator import DponePodOperator

        return DponePodOperator.of(
            task_id=task_id,
            dag=self.dag,
            step=contract,
            task_display_name=step_title(self.spec, step),
            doc_md=step_document(self.spec, step),
            **self._arguments.of(step, task_ids),
            **placed,
        )

    def mapped_task(
        self, step: RunSpecStep, contract: StepContract, task_ids: Mapping[str, str], partitions: Any, **placed: Any
    ) -> Any:
        from dpone_airflow.mapped_operator import DponeMappedPodOperator

        parallel = {} if step.max_parallel is None else {"max_active_tis_per_dagrun": step.max_parallel}
        return DponeMappedPodOperator.partial(
            task_id=step.step_id,
            map_index_template=PARTITION_TITLE,
            dag=self.dag,
            step=contract,
            task_display_name=step_title(self.spec, step),
            doc_md=step_document(self.spec, step),
            **self._arguments.of(step, task_ids),
            **parallel,
            **placed,
        ).expand(mapping_item=partitions.output)

    def partitions_task(self, plan: StepContract, task_ids: Mapping[str, str], **placed: Any) -> Any:
        from dpone_airflow.partitions import DponePartitionsOperator

        return DponePartitionsOperator(
            task_id=PARTITIONS_TASK_ID,
            dag=self.dag,
            plan=plan,
            plan_task_id=task_ids[plan.step_id],
            run_spec_ref=self._reference(),
            task_display_name="list partitions",
            doc_md=partitions_document(self.spec),
            retries=LISTING_RETRIES,
            retry_delay=timedelta(seconds=self._settings.retry_delay_seconds),
            **placed,
        )

    def gate(
        self,
        steps: Mapping[str, StepContract],
        task_id: str,
        outlets: Outlets,
        workers: Mapping[str, Any] | None = None,
        **placed: Any,
    ) -> DponeOutcomeGateOperator:
        from dpone_airflow.gate import DponeOutcomeGateOperator

        spec = self.spec
        assets = _assets(spec, outlets)
        return DponeOutcomeGateOperator(
            task_id=task_id,
            dag=self.dag,
            steps=steps,
            workers={step_id: worker.task_id for step_id, worker in (workers or {}).items()},
            run_spec_ref=self._reference(),
            task_display_name="outcome gate",
            doc_md=gate_document(spec),
            **({"outlets": assets} if assets else {}),
            **placed,
        )

    def _reference(self) -> dict[str, str]:
        return {
            "process": self.spec.process,
            "run_spec_fingerprint": self.spec.fingerprint,
            "pack_fingerprint": self.spec.pack_fingerprint,
        }


def _assets(spec: RunSpec, outlets: Outlets) -> list[Any]:
    """The assets that the gate updates: it is the only task whose success proves a load."""
    if not isinstance(outlets, bool):
        return list(outlets)
    if not outlets:
        return []
    if spec.asset is None:
        raise ETLConfigurationError(
            f"run-spec of process '{spec.process}' names no asset",
            code="DPONE_RUN_SPEC_INVALID",
            fix="compile it again, or pass outlets=[...]",
        )
    from airflow.providers.common.compat.sdk import Asset

    return [Asset(spec.asset)]


def _load(dag: Any, run_spec: RunSpecSource) -> RunSpec:
    if isinstance(run_spec, RunSpec):
        return run_spec
    return load_run_spec(Path(dag.fileloc).parent / (run_spec or f"{dag.dag_id}{RUN_SPEC_SUFFIX}"))
