"""One distribution, built from this checkout, carries everything its users need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from dpone_core.version import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    output = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(output), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = output.glob("dpone-*.whl")
    return zipfile.ZipFile(built)


def text_of(wheel: zipfile.ZipFile, suffix: str) -> str:
    (name,) = (name for name in wheel.namelist() if name.endswith(suffix))
    return wheel.read(name).decode("utf-8")


def test_the_version_is_stated_alike_in_the_package_and_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


def test_the_wheel_bundles_schemas_and_dag_factories(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    bundled = "dpone_core/_bundled"
    for directory in ("schemas", "dag_factories"):
        shipped = {file.name for file in (ROOT / directory).iterdir() if file.suffix in (".json", ".py")}
        assert shipped
        assert {f"{bundled}/{directory}/{name}" for name in shipped} <= names


def test_the_wheel_holds_the_error_catalogue_beside_its_reader(wheel: zipfile.ZipFile) -> None:
    shipped = wheel.read("dpone_core/error_catalogue.json")
    assert shipped == (ROOT / "dpone_core" / "error_catalogue.json").read_bytes()


def test_the_wheel_holds_the_three_packages_and_no_tests(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"dpone", "dpone_core", "dpone_airflow", f"dpone-{__version__}.dist-info"}


def test_the_wheel_declares_the_command_and_the_airflow_provider(wheel: zipfile.ZipFile) -> None:
    entry_points = text_of(wheel, "entry_points.txt")
    assert "dpone = dpone_core.cli.main:entry_point" in entry_points
    assert "[apache_airflow_provider]" in entry_points
    assert "provider_info = dpone_airflow.provider_info:get_provider_info" in entry_points


def test_the_wheel_asks_for_no_driver_unless_an_extra_is_named(wheel: zipfile.ZipFile) -> None:
    requirements = [line for line in text_of(wheel, "METADATA").splitlines() if line.startswith("Requires-Dist:")]
    base = {line.split()[1].split(">")[0] for line in requirements if "extra ==" not in line}
    assert base == {"pydantic", "jsonschema", "pyyaml"}


def test_importing_the_public_face_loads_no_vendor_library() -> None:
    heavy = ("pyarrow", "duckdb", "chdb", "clickhouse_connect", "sqlglot", "airflow", "kubernetes", "pydantic")
    script = f"import sys, dpone, dpone_airflow; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
