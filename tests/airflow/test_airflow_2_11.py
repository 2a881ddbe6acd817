"""The provider works on Airflow 2.11 beside the newest Kubernetes provider: DAG files, pods, runs, one end-to-end run.

Airflow 2.11 stands in an environment of its own, `.venv-airflow-2.11`, which `make test-full` makes. The same test
modules run there; the pods of the end-to-end run are those of this environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.airflow_environment import CHECKOUT

PYTHON = CHECKOUT / ".venv-airflow-2.11" / "bin" / "python"
PROVIDER = CHECKOUT / "tests" / "airflow" / "provider"
END_TO_END = CHECKOUT / "tests" / "airflow" / "end_to_end"
LIMIT_SECONDS = 1500
MODULES = {
    "contracts": (PROVIDER / "test_pod_args.py", PROVIDER / "test_outcome.py", PROVIDER / "test_provider_info.py"),
    "DAG files": (PROVIDER / "test_dag_files.py", PROVIDER / "test_platform_pods.py"),
    "floor": (PROVIDER / "test_provider_floor.py",),
    "runs": (PROVIDER / "test_real_runs.py",),
    "mapped": (PROVIDER / "test_fan_out.py", PROVIDER / "test_observing.py", PROVIDER / "test_mapped_runs.py"),
    "end to end": (END_TO_END / "test_visible_tasks.py",),
}

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.timeout(LIMIT_SECONDS),
    pytest.mark.skipif(not PYTHON.exists(), reason="UNVERIFIED: no .venv-airflow-2.11; make test-full makes it"),
]


def test_it_is_the_version_that_the_manual_names() -> None:
    names = ("apache-airflow", "apache-airflow-providers-cncf-kubernetes")
    program = f"from importlib.metadata import version; print(*map(version, {names}))"
    installed = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    manual = (CHECKOUT / "docs" / "how-to" / "airflow.md").read_text(encoding="utf-8")
    assert f"| {installed[0]} | {installed[1]} |" in manual


@pytest.mark.parametrize("what", MODULES)
def test_the_provider_s_own_tests_pass_there(what: str) -> None:
    done = subprocess.run(
        [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, MODULES[what])],
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
