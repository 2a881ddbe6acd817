"""Airflow discovers the provider: its entries are valid, import-free and belong to the distribution."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

import jsonschema
import pytest

from dpone_airflow.provider_info import get_provider_info
from tests.airflow.airflow_environment import CHECKOUT, AirflowEnvironment

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_is_valid_against_airflow_s_schema() -> None:
    owner = "apache-airflow-core" if int(version("apache-airflow").partition(".")[0]) > 2 else "apache-airflow"
    schema = Path(str(distribution(owner).locate_file("airflow/provider_info.schema.json")))
    jsonschema.validate(get_provider_info(), json.loads(schema.read_text(encoding="utf-8")))


def test_the_package_name_is_the_distribution() -> None:
    assert get_provider_info()["package-name"] == PROJECT["name"]


def test_the_entry_point_is_this_function() -> None:
    declared = PROJECT["entry-points"]["apache_airflow_provider"]["provider_info"]
    assert declared == f"{get_provider_info.__module__}:{get_provider_info.__name__}"


def test_reading_it_imports_nothing() -> None:
    program = (
        "import sys; before = set(sys.modules); import dpone_airflow.provider_info as one; one.get_provider_info();"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['dpone_airflow', 'dpone_airflow.provider_info']"


@pytest.mark.airflow
def test_airflow_lists_the_provider_and_its_settings(airflow_environment: AirflowEnvironment, tmp_path: Path) -> None:
    metadata = tmp_path / f"dpone-{PROJECT['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: dpone\nVersion: {PROJECT['version']}\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        "[apache_airflow_provider]\nprovider_info = dpone_airflow.provider_info:get_provider_info\n", encoding="utf-8"
    )
    path = f"{tmp_path}:{CHECKOUT}"
    shown = airflow_environment.run(
        *(sys.executable, "-m", "airflow", "providers", "get", "dpone", "--full", "--output", "json"),
        variables={"PYTHONPATH": path},
    )
    assert "dpone_airflow.operator" in shown and "evidence_base_url" in shown
