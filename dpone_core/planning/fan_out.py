"""Decides whether several processes can transfer the key ranges of one manifest: one plans, others stage, one
publishes.

It is asked when a manifest requests a mapped Airflow task per range, and when somebody transfers ranges by hand. Pure.
"""

from __future__ import annotations

from dpone_core.model.connector import ConnectorDescriptor
from dpone_core.model.load_config import CheckpointsType, LoadConfig
from dpone_core.model.vocabulary import AirflowExecution, HookPhase
from dpone_core.planning.route import FieldPath, RouteRefusedError

_PARTITIONING: FieldPath = ("source", "options", "partitioning")


def refuse_fan_out(config: LoadConfig, sink: ConnectorDescriptor) -> None:
    """Raises RouteRefusedError naming the authored field that prevents it."""
    partitioning = config.source.partitioning
    if partitioning is None:
        raise RouteRefusedError(
            "the process declares no key ranges to transfer one by one",
            path=_PARTITIONING,
            fix="add it, or use dpone run",
        )
    if partitioning.checkpoints is CheckpointsType.FILE:
        raise RouteRefusedError(
            "checkpoints in files cannot be shared by the processes that stage the ranges",
            path=(*_PARTITIONING, "checkpoints"),
            fix="write sink, or airflow: inline",
        )
    if sink.is_always_embedded:
        raise RouteRefusedError(
            f"sink '{sink.type}' can be opened by one process at a time only, and several would stage ranges",
            path=(*_PARTITIONING, "airflow"),
            fix="write inline",
        )
    inline = [hook for hook in config.hooks if hook.phase is HookPhase.PRE and hook.airflow is AirflowExecution.INLINE]
    if inline:
        raise RouteRefusedError(
            f"pre_hook '{inline[0].id}' would run inside the load, after other tasks have read the source",
            path=("source", "options", "hooks", "pre_hook"),
            fix=f"give '{inline[0].id}' execution.airflow: separate_task, or write partitioning.airflow: inline",
        )
