"""What scripts that run inside Airflow need of its models, whatever name its version has for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models.dagbag import DagBag
try:
    from airflow.models.asset import AssetEvent
    from airflow.models.xcom import XComModel
except ImportError:
    from airflow.models.dataset import DatasetEvent as AssetEvent
    from airflow.models.xcom import XCom as XComModel
try:
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

__all__ = ["AssetEvent", "DagSerialization", "XComModel", "bag_of", "registered", "xcom_value"]


def registered(dag: Any) -> Any:
    """The DAG, with its assets known to the database: a test run of Airflow 2 updates no others."""
    if hasattr(type(dag), "bulk_write_to_db"):
        type(dag).bulk_write_to_db([dag])
    return dag


def xcom_value(row: Any) -> Any:
    """What a task pushed: Airflow 3 keeps JSON in the row, Airflow 2 its text as bytes."""
    return json.loads(row.value) if isinstance(row.value, bytes) else row.value


def bag_of(folder: Path) -> Any:
    """The DAGs of a folder, parsed as the DAG processor does."""
    try:
        return DagBag(str(folder), bundle_path=folder)
    except TypeError:
        return DagBag(str(folder), include_examples=False)
