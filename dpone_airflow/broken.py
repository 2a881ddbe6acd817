"""What stands in a DAG where a process cannot be wired: a task that fails and says why. Never nothing.

Without it a run would be green without that process; an import error would stop every DAG of the same file.
Contract: DAG-20.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator


class DponeBrokenProcessOperator(BaseOperator):
    """Fails with `problem`, one line with code, place and fix; raises AirflowFailException, so that nothing repeats."""

    custom_operator_name = "dpone broken run-spec"

    def __init__(self, *, problem: str, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "retries": 0})
        self.problem = problem

    def execute(self, context: Any) -> None:
        raise AirflowFailException(self.problem)
