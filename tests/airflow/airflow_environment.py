"""A real Airflow for tests: its own home, a migrated SQLite database, and scripts that run in processes of their own.

Airflow is never imported into the test process: it reads its environment at import, and it takes seconds. A script that
calls `dag.test()` needs its DAG file below `dags_folder`, in a file that contains the words `dag` and `airflow`; keep
that folder small, `dag.test()` walks all of it.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

_LOOPBACK = "127.0.0.1"
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
_MIGRATION_TIMEOUT_SECONDS = 240.0


class AirflowScriptError(AssertionError):
    """A script ended with another exit code than 0; the message is the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowEnvironment:
    """Everything that an Airflow process of this home needs in its environment."""

    home: Path
    dags_folder: Path
    variables: Mapping[str, str]

    def run_script(
        self, script: Path, *arguments: str, variables: Mapping[str, str] | None = None, timeout_seconds: float = 240.0
    ) -> str:
        """Runs a Python file and returns its output, stderr included; raises AirflowScriptError."""
        return self.run(sys.executable, str(script), *arguments, variables=variables, timeout_seconds=timeout_seconds)

    def run_airflow(self, *arguments: str, timeout_seconds: float = 240.0) -> str:
        """Runs the `airflow` command; returns its output, stderr included; raises AirflowScriptError."""
        return self.run(sys.executable, "-m", "airflow", *arguments, timeout_seconds=timeout_seconds)

    def run(self, *command: str, variables: Mapping[str, str] | None = None, timeout_seconds: float = 240.0) -> str:
        """Runs any command with this environment and, on top of it, the given variables."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env={**self.variables, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        if done.returncode:
            raise AirflowScriptError(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout[-8000:]}")
        return done.stdout


def build_environment(home: Path, dags_folder: Path, *, api_port: int = 8080) -> AirflowEnvironment:
    """The environment of an Airflow at home in `home`; nothing is created. `api_port` matters to an API server only."""
    settings = {
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "CORE__DAGS_FOLDER": str(dags_folder),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"http://{_LOOPBACK}:{api_port}/execution/",
        "API__HOST": _LOOPBACK,
        "API__PORT": str(api_port),
        "API__WORKERS": "1",
        "API__BASE_URL": f"http://{_LOOPBACK}:{api_port}",
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "LOGGING__COLORED_CONSOLE_LOG": "False",
    }
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    variables |= {f"AIRFLOW__{name}": value for name, value in settings.items()}
    variables |= {
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": str(CHECKOUT),
        "NO_PROXY": f"{_LOOPBACK},localhost",
        "no_proxy": f"{_LOOPBACK},localhost",
    }
    return AirflowEnvironment(home=home, dags_folder=dags_folder, variables=variables)


def migrate(environment: AirflowEnvironment) -> None:
    """Creates home, DAGs folder and database; raises AirflowScriptError."""
    environment.home.mkdir(parents=True, exist_ok=True)
    environment.dags_folder.mkdir(parents=True, exist_ok=True)
    environment.run_airflow("db", "migrate", timeout_seconds=_MIGRATION_TIMEOUT_SECONDS)


@contextmanager
def migrated_environment(directory: Path, *, dag_files: tuple[Path, ...] = ()) -> Iterator[AirflowEnvironment]:
    """A migrated Airflow in `directory` with copies of the DAG files; its bulky parts are deleted at the end."""
    environment = build_environment(directory / "airflow", directory / "dags")
    migrate(environment)
    for file in dag_files:
        shutil.copy(file, environment.dags_folder)
    try:
        yield environment
    finally:
        shutil.rmtree(environment.home / "logs", ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowEnvironment]:
    """One migrated Airflow per session with an empty DAGs folder; a test adds the files it needs.

    Imported by the `conftest.py` of the test folders that need it.
    """
    with migrated_environment(tmp_path_factory.mktemp("airflow")) as environment:
        yield environment
