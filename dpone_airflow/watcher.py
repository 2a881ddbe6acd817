"""A leaf that turns a run red when one of its outcome gates failed, whatever stands behind the gates.

Airflow judges a run by its leaves alone: a task behind a gate that runs in any case makes a failed gate a green run.
Contract: AIR-46.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator


class DponeGateWatcherOperator(BaseOperator):
    """Runs as soon as one of the gates before it failed, and fails with it; else it is skipped."""

    custom_operator_name = "dpone gate watcher"

    def __init__(self, *, gates: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "trigger_rule": "one_failed", "retries": 0})
        self.set_upstream(list(gates))

    def execute(self, context: Any) -> None:
        raise AirflowFailException("an outcome gate of this run failed; its log names the first cause")
