"""An older provider is refused where its operators are imported, naming what is installed and what is needed.

Contract: POD-02, AIR-45.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpone_airflow.provider_floor import OLDEST, require_names
from dpone_core.errors import ETLConfigurationError
from tests.airflow.airflow_environment import CHECKOUT

KUBERNETES = "apache-airflow-providers-cncf-kubernetes"
MANUAL = CHECKOUT / "docs" / "how-to" / "airflow.md"


def imported(module: str, *shadows: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(one) for one in (*shadows, CHECKOUT))
    return subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def installed_as(directory: Path, name: str, version: str) -> Path:
    """A directory in which the distribution stands with another version, found before the real one."""
    info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return directory


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("name", "version"),
    [
        (KUBERNETES, "10.24.1"),
        (KUBERNETES, "9.99.0"),
        ("apache-airflow", "2.10.5"),
        ("apache-airflow-providers-common-compat", "1.9.0"),
    ],
)
def test_an_older_version_is_refused_by_name(tmp_path: Path, name: str, version: str) -> None:
    done = imported("dpone_airflow.operator", installed_as(tmp_path, name, version))
    assert done.returncode != 0
    assert f"DPONE_PROVIDER_UNSUPPORTED: {name} {version} installed, dpone needs {OLDEST[name]}" in done.stderr


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.parametrize("version", ["10.25.0", "10.25.1rc1", "11.0.0"])
def test_the_floor_itself_and_what_is_newer_are_accepted(tmp_path: Path, version: str) -> None:
    done = imported("dpone_airflow.operator", installed_as(tmp_path, KUBERNETES, version))
    assert done.returncode == 0, done.stderr


class Complete:
    """The methods that dpone overrides or calls, as the stock operator has them."""

    def execute(self, context: object) -> None: ...
    def trigger_reentry(self, context: object, event: object) -> None: ...
    def extract_xcom(self, pod: object, *, ignore_kill_failure: bool = True) -> None: ...
    def cleanup(self, pod: object, remote_pod: object, xcom_result: object = None, context: object = None) -> None: ...
    def process_pod_deletion(self, pod: object, *, reraise: bool = True) -> None: ...
    def on_kill(self) -> None: ...
    def build_pod_request_obj(self, context: object = None, *, dry_run: bool = False) -> None: ...
    def render_template_fields(self, context: object, jinja_env: object = None) -> None: ...
    def _render(self, template: object, context: object, dag: object = None) -> None: ...
    def _do_render_template_fields(
        self, parent: object, template_fields: object, context: object, jinja_env: object, seen_oids: object
    ) -> None: ...


def test_an_operator_with_every_method_that_dpone_overrides_is_accepted() -> None:
    require_names(Complete)


@pytest.mark.parametrize("name", [name for name in vars(Complete) if not name.startswith("__")])
def test_an_operator_without_a_method_that_dpone_overrides_is_refused_by_its_name(name: str) -> None:
    renamed = type("Renamed", (Complete,), {name: None})
    with pytest.raises(ETLConfigurationError, match=rf"has no {name}\(") as raised:
        require_names(renamed)
    assert raised.value.code == "DPONE_PROVIDER_UNSUPPORTED"


def test_a_parameter_that_is_gone_is_refused_like_the_method() -> None:
    class Fewer(Complete):
        def cleanup(self, pod: object, remote_pod: object) -> None: ...  # type: ignore[override]

    with pytest.raises(ETLConfigurationError, match=r"cleanup\(pod, remote_pod, xcom_result, context\)"):
        require_names(Fewer)


def test_the_floor_is_that_of_the_package() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = dict(one.split(">=") for one in project["optional-dependencies"]["airflow"])
    assert {name: re.sub(r"^(\d+\.\d+)$", r"\1.0", version) for name, version in stated.items()} == OLDEST


def test_the_manual_states_the_floor() -> None:
    manual = MANUAL.read_text(encoding="utf-8")
    for name, version in OLDEST.items():
        assert f"| `{name}` | {version} |" in manual
