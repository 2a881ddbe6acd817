"""A private AIRFLOW_HOME with a migrated database, and a folder of stand-in commands; Airflow runs in subprocesses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
EVIDENCE_BASE_URL = "https://evidence.example/dpone"
TIMEOUT_SECONDS = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Laboratory:
    """One Airflow installation of its own below `root`."""

    root: Path

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @property
    def commands(self) -> Path:
        """Goes before every container's PATH; holds the stand-in for dpone."""
        return self.root / "commands"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": str(REPOSITORY),
            "AIRFLOW_HOME": str(self.root / "home"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.root}/home/airflow.db",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__DPONE__EVIDENCE_BASE_URL": EVIDENCE_BASE_URL,
            "NO_PROXY": "127.0.0.1,localhost",
            **more,
        }

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A finished command with its output; a non-zero exit is an assertion failure that shows the end of it."""
        done = subprocess.run(
            command,
            env=self.environment(**more),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    def script(self, name: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """One of the scripts beside this module, in a fresh interpreter."""
        return self.run(sys.executable, str(HERE / name), *arguments, **more)

    def write_run_spec(self, file_name: str, document: Mapping[str, Any]) -> None:
        (self.dags / file_name).write_text(json.dumps(document), encoding="utf-8")


def prepare(root: Path) -> Laboratory:
    """Makes the folders, the stand-in command and the database."""
    laboratory = Laboratory(root=root)
    for directory in (laboratory.dags, laboratory.commands, root / "home"):
        directory.mkdir(parents=True)
    stand_in = laboratory.commands / "dpone"
    stand_in.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} {HERE / "stand_in_dpone.py"} "$@"\n',
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    laboratory.run(sys.executable, "-m", "airflow", "db", "migrate")
    return laboratory
