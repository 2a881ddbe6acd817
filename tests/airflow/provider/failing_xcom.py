"""An XCom backend that cannot be reached by what a step of the DAGs `push_lost_*` leaves for the gate."""

from __future__ import annotations

from typing import Any

try:
    from airflow.sdk.bases.xcom import BaseXCom
except ImportError:
    from airflow.models.xcom import BaseXCom


class UnreachableForReports(BaseXCom):
    @staticmethod
    def serialize_value(
        value: Any,
        *,
        key: str | None = None,
        task_id: str | None = None,
        dag_id: str | None = None,
        run_id: str | None = None,
        map_index: int | None = None,
    ) -> Any:
        """Airflow 2 asks for these very parameters."""
        is_of_the_load = str(task_id).endswith("dpone_run_flights")
        if is_of_the_load and str(dag_id).startswith("push_lost_") and key in ("return_value", "dpone_step_end"):
            raise ConnectionError("the API server is gone")
        names = {"key": key, "task_id": task_id, "dag_id": dag_id, "run_id": run_id, "map_index": map_index}
        return BaseXCom.serialize_value(value, **names)
