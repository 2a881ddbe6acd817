"""The provider works on older Airflow beside the newest Kubernetes provider: DAG files, pods, runs, end-to-end runs.

Each version stands in an environment of its own, `.venv-airflow-2.11` and `.venv-airflow-3.1`, which `make test-full`
makes. The same test modules run there; the pods of an end-to-end run are those of this environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.airflow_environment import CHECKOUT

PROVIDER = CHECKOUT / "tests" / "airflow" / "provider"
END_TO_END = CHECKOUT / "tests" / "airflow" / "end_to_end"
WORKERS = CHECKOUT / "tests" / "airflow" / "workers"
LIMIT_SECONDS = 1500
MODULES = {
    "contracts": (PROVIDER / "test_pod_args.py", PROVIDER / "test_outcome.py", PROVIDER / "test_provider_info.py"),
    "DAG files": (PROVIDER / "test_dag_files.py", PROVIDER / "test_platform_pods.py"),
    "floor": (PROVIDER / "test_provider_floor.py",),
    "runs": (PROVIDER / "test_real_runs.py",),
    "mapped": (PROVIDER / "test_fan_out.py", PROVIDER / "test_observing.py", PROVIDER / "test_mapped_runs.py"),
    "end to end": (END_TO_END / "test_visible_tasks.py",),
    "scheduler": (WORKERS / "test_scheduled_runs.py", WORKERS / "test_worker_faults.py"),
    "scheduler of Airflow 2": (WORKERS / "test_scheduler_of_airflow_2.py",),
}
NOT_THERE = {"2.11": "scheduler", "3.1": "scheduler of Airflow 2"}

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(LIMIT_SECONDS)]


def python(version: str) -> Path:
    """UNVERIFIED without its environment."""
    found = CHECKOUT / f".venv-airflow-{version}" / "bin" / "python"
    if not found.exists():
        pytest.skip(f"UNVERIFIED: no .venv-airflow-{version}; make test-full makes it")
    return found


@pytest.mark.parametrize("version", NOT_THERE)
def test_it_is_the_version_that_the_manual_names(version: str) -> None:
    names = ("apache-airflow", "apache-airflow-providers-cncf-kubernetes")
    program = f"from importlib.metadata import version; print(*map(version, {names}))"
    done = subprocess.run([python(version), "-c", program], capture_output=True, text=True, check=True)
    installed = done.stdout.split()
    manual = (CHECKOUT / "docs" / "how-to" / "airflow.md").read_text(encoding="utf-8")
    assert f"| {installed[0]} | {installed[1]} |" in manual


def cells() -> Iterator[Any]:
    for version, absent in NOT_THERE.items():
        for what in MODULES:
            if what != absent:
                yield pytest.param(version, what, id=f"{version}-{what}")


@pytest.mark.parametrize(("version", "what"), cells())
def test_the_provider_s_own_tests_pass_there(version: str, what: str) -> None:
    done = subprocess.run(
        [str(python(version)), "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, MODULES[what])],
        cwd=CHECKOUT,
        env={**os.environ, "DPONE_TEST_POD_BIN": str(Path(sys.executable).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None and int(counted[1]) > 0
