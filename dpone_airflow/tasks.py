"""Wires a run-spec into a DAG: verify -> pre-hooks -> load -> post-hooks -> outcome gate; before the load of a process
whose key ranges have tasks of their own: plan -> partitions -> one mapped task per partition.

Two forms: one visible task per step (`wire_dpone_gitops_task_group`), or one task that runs everything inline
(`wire_dpone_gitops_task_with_gate`). Parsing reads one small file and nothing else: no database, no connection, no
clock. A DAG should keep max_active_runs=1: two runs at once would compete for the lease of one target. What is wrong
with one process never stops the DAG file: a task that fails stands in its place.
Contract: DAG-01, DAG-03, DAG-05, DAG-12.
"""

from __future__ import annotations

import re
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
    BrokenRunSpec,
    load_mapped_run_spec,
    load_run_spec,
    load_run_specs,
    one_line,
    run_spec_or_problem,
)
from dpone_airflow.vendor import PodOperatorArguments, select_supported
from dpone_core.contracts.platform import OWN_KEYWORDS
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep
from dpone_core.errors import ErrorCode, ETLConfigurationError
from dpone_core.version import __version__

if TYPE_CHECKING:
    from dpone_airflow.gate import DponeOutcomeGateOperator
    from dpone_airflow.operator import DponePodOperator

GATE_TASK_ID: Final = "outcome_gate"
LISTING_RETRIES: Final = 2
"""Retries of the task that lists partitions. It only reads a receipt; a refusal is final and is not retried."""

BROKEN_TASK_ID: Final = "broken_run_spec"
BROKEN_TAG: Final = "dpone-broken"
RUN_SPEC_NOT_WIRED: Final = ErrorCode("DPONE_RUN_SPEC_NOT_WIRED")
_MAX_PROBLEM_CHARACTERS: Final = 500
_NO_GROUP_ID: Final = re.compile(r"[^A-Za-z0-9_-]")

RunSpecSource = RunSpec | BrokenRunSpec | str | Path | None
PlatformSource = Platform | Mapping[str, object] | None
Outlets = bool | Sequence[Any]

__all__ = [
    "load_mapped_run_spec",
    "load_run_spec",
    "load_run_specs",
    "watch_outcome_gates",
    "wire_dpone_gitops_task_group",
    "wire_dpone_gitops_task_with_gate",
]


class WiredGroup(tuple[dict[str, Any], Any]):
    """`tasks` by step id in run-spec order and `gate`, as a pair; `group` is the task group that holds them, so that
    `before >> wired.group >> behind` puts the whole process between two tasks.
    """

    group: Any

    @classmethod
    def of(cls, tasks: dict[str, Any], gate: Any, group: Any) -> WiredGroup:
        wired = cls((tasks, gate))
        wired.group = group
        return wired

    @property
    def tasks(self) -> dict[str, Any]:
        return self[0]

    @property
    def gate(self) -> Any:
        return self[1]


def wire_dpone_gitops_task_group(
    *,
    dag: Any,
    run_spec: RunSpecSource = None,
    group_id: str | None = None,
    platform: PlatformSource = None,
    outlets: Outlets = False,
) -> WiredGroup:
    """One task per step inside a task group, and the gate behind all of them.

    A mapped step is one mapped task, and has a task `partitions` before it that lists what is mapped.
    `run_spec` is a file (relative to the DAG file), a parsed run-spec, or by default `<dag_id>.run_spec.json` beside
    the DAG file. `platform` overrides the run-spec's own section. `outlets` are assets that the gate updates when it
    passes, True for the asset of the run-spec. Returns the pair of the tasks by step id, in run-spec order, and the
    gate; its `group` is the task group.

    A run-spec that cannot be used gives a group of the same name with a task that fails and says why, and a gate that
    fails: the other processes of the DAG file load, and no run is green without this one.
    """
    from airflow.providers.common.compat.sdk import TaskGroup

    spec = _found(dag, run_spec)
    name = spec.name if isinstance(spec, BrokenRunSpec) else spec.process
    described = {} if isinstance(spec, BrokenRunSpec) else _group_texts(dag, spec)
    group = TaskGroup(
        group_id=group_id or _NO_GROUP_ID.sub("_", f"dpone_{name}")[:100],
        dag=dag,
        **select_supported(TaskGroup, {"group_display_name": f"dpone {name}", **described}),
    )
    gate_id = GATE_TASK_ID
    if isinstance(spec, BrokenRunSpec):
        return _broken(dag, spec.problem, BROKEN_TASK_ID, gate_id, group)
    known = frozenset(dag.task_dict)
    try:
        tasks, gate = _wire_steps(_Process(dag, spec, platform), group, outlets)
    except Exception as error:  # noqa: BLE001  one process never stops the other DAGs of the file
        _forget(dag, group, known)
        return _broken(dag, _problem_of(error, name), BROKEN_TASK_ID, gate_id, group)
    return WiredGroup.of(tasks, gate, group)


def wire_dpone_gitops_task_with_gate(
    *,
    dag: Any,
    run_spec: RunSpecSource = None,
    task_id: str | None = None,
    platform: PlatformSource = None,
    outlets: Outlets = False,
) -> tuple[DponePodOperator, DponeOutcomeGateOperator]:
    """One task that verifies the bundle and runs hooks and load inline, and the gate behind it.

    A run-spec that cannot be used gives a task and a gate of the same names that fail and say why.
    """
    spec = _found(dag, run_spec)
    if isinstance(spec, BrokenRunSpec):
        name, problem = task_id or _NO_GROUP_ID.sub("_", f"dpone_run_{spec.name}"), spec.problem
    else:
        name = task_id or spec.load.step_id
        known = frozenset(dag.task_dict)
        try:
            process, step = _Process(dag, spec, platform), inline_step(spec)
            contract = step_contract(spec, step, __version__)
            task = process.step_task(step, contract, name, {step.step_id: name})
            gate = process.gate({name: contract}, f"{name}_{GATE_TASK_ID}", outlets)
        except Exception as error:  # noqa: BLE001  one process never stops the other DAGs of the file
            _forget(dag, dag.task_group, known)
            problem = _problem_of(error, spec.process)
        else:
            task >> gate
            return task, gate
    failing = _broken(dag, problem, name, f"{name}_{GATE_TASK_ID}", None)
    return failing.tasks[name], failing.gate


def watch_outcome_gates(*gates: Any, dag: Any, task_id: str = "outcome_watcher") -> Any:
    """A leaf that fails the run when one of these gates failed: for a DAG whose tasks behind them run in any case."""
    from dpone_airflow.watcher import DponeGateWatcherOperator

    return DponeGateWatcherOperator(task_id=task_id, dag=dag, gates=gates)


def _found(dag: Any, run_spec: RunSpecSource) -> RunSpec | BrokenRunSpec:
    if isinstance(run_spec, RunSpec | BrokenRunSpec):
        return run_spec
    return run_spec_or_problem(Path(dag.fileloc).parent / (run_spec or f"{dag.dag_id}{RUN_SPEC_SUFFIX}"))


def _group_texts(dag: Any, spec: RunSpec) -> dict[str, str]:
    ignored = sorted(OWN_KEYWORDS & set(dag.default_args or {}))
    return {
        "tooltip": f"run-spec {spec.fingerprint[:19]}",
        "doc_md": group_document(spec, max_active_runs=dag.max_active_runs, ignored=ignored),
    }


def _wire_steps(process: _Process, group: Any, outlets: Outlets) -> tuple[dict[str, Any], Any]:
    """The tasks by step id, and the gate behind them."""
    spec = process.spec
    tasks: dict[str, Any] = {}
    task_ids = {step.step_id: group.child_id(step.step_id) for step in spec.steps}
    contracts = {step.step_id: step_contract(spec, step, __version__) for step in spec.steps}
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


def _problem_of(error: Exception, name: str) -> str:
    """One line with code, place and fix; of an error that is not dpone's, its class and what it says."""
    if isinstance(error, ETLConfigurationError):
        return one_line(error)
    said = " ".join(str(error).split())[:_MAX_PROBLEM_CHARACTERS]
    return f"{RUN_SPEC_NOT_WIRED}: {name}: Airflow refuses a task of this run-spec ({type(error).__name__}: {said})"


def _forget(dag: Any, group: Any, known: frozenset[str]) -> None:
    """Takes the tasks of a process that was wired in part out of its DAG; Airflow adds one before it is complete."""
    for task_id in set(dag.task_dict) - known:
        del dag.task_dict[task_id]
        group.children.pop(task_id, None)
        group.used_group_ids.discard(task_id)


def _broken(dag: Any, problem: str, task_id: str, gate_id: str, group: Any) -> WiredGroup:
    """A task that fails with `problem`, and a gate that fails whatever comes before it."""
    from dpone_airflow.broken import DponeBrokenProcessOperator

    placed = {"dag": dag, "problem": problem, "doc_md": problem, **({} if group is None else {"task_group": group})}
    task = DponeBrokenProcessOperator(task_id=task_id, trigger_rule="all_success", **placed)
    gate = DponeBrokenProcessOperator(task_id=gate_id, trigger_rule="all_done", **placed)
    gate.set_upstream(task)
    if isinstance(dag.tags, list):  # Airflow 2 keeps the list that the DAG file gave, maybe to other DAGs as well
        dag.tags = [*dag.tags, BROKEN_TAG]
    else:
        dag.tags.add(BROKEN_TAG)
    return WiredGroup.of({task_id: task}, gate, group)


class _Process:
    """Builds the tasks of one run-spec in one DAG."""

    def __init__(self, dag: Any, spec: RunSpec, platform: PlatformSource) -> None:
        self.dag = dag
        self.spec = spec
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
        return DponeOutcomeGateOperator.of(
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
