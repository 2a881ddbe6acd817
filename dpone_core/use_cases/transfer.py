"""`transfer plan` and `transfer load`: one process plans the key ranges of a run, and others stage one range each.

`run` publishes what is staged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpone_core.invocation import RunArguments
from dpone_core.loading.native.fan_out import PartitionItem
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.call import Call, RunProcessPorts, begin_step, require_one_process
from dpone_core.use_cases.fan_out import (
    FanOutProcess,
    TransferExecution,
    choose_range,
    require_fan_out,
    require_shared_sink,
)
from dpone_core.use_cases.step_receipt import RefusedStep
from dpone_core.use_cases.verify import PackReference

__all__ = ["RefusedStep", "TransferExecution", "TransferOptions", "execute_partition", "execute_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """One process whose key ranges are planned, staged and loaded by processes of their own; identity as for a run."""

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)
    separate_hooks: str = "inline"
    pack: PackReference | None = None


def execute_plan(
    path: Path,
    options: TransferOptions,
    *,
    env: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution | RefusedStep:
    """Plans the key ranges of one run id, or returns the plan stored before. Reads no rows, mutates no target.

    Raises no DponeError: refusals and failures are in the result.
    """

    def prepare(call: Call) -> FanOutProcess:
        return _prepare_process(call, path, options, options.separate_hooks)

    prepared = begin_step(StepKind.TRANSFER_PLAN, options.arguments, env, project_dir, ports, prepare)
    return prepared if isinstance(prepared, RefusedStep) else prepared.plan()


def execute_partition(
    path: Path,
    options: TransferOptions,
    *,
    partition: int | None = None,
    env: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution | RefusedStep:
    """Stages one range of a stored plan, unless it is staged or committed already. Mutates no target.

    `partition` and the transfer plan of `options.arguments`, or DPONE_AIRFLOW_MAPPING_ITEM, say which. Raises no
    DponeError: refusals and failures are in the result.
    """

    def prepare(call: Call) -> tuple[FanOutProcess, PartitionItem]:
        process = _prepare_process(call, path, options, None)
        return process, choose_range(call.invocation, partition)

    prepared = begin_step(StepKind.TRANSFER_PARTITION, options.arguments, env, project_dir, ports, prepare)
    if isinstance(prepared, RefusedStep):
        return prepared
    process, item = prepared
    return process.load(item)


def _prepare_process(call: Call, path: Path, options: TransferOptions, separate_hooks: str | None) -> FanOutProcess:
    """`separate_hooks` None: who stages a range leaves the hooks to the process that planned it."""
    manifest = call.read_manifest(path)
    config = require_one_process(manifest, options.selector)
    (prepared,) = call.prepare(manifest, [config], pack=options.pack, separate_hooks=separate_hooks)
    require_fan_out(prepared.planned, separate_hooks or "receipts")
    require_shared_sink(prepared)
    call.require_evidence((config,))
    return FanOutProcess(prepared=prepared, invocation=call.invocation, runtime=call.make_runtime())
