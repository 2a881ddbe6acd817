"""One directory in which the flights example lives: source, warehouse, lake, evidence, bundle, run-specs, pods.

`make demo` and `make airflow` each have one. Everything below it was made by them and can be deleted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prepare import main as prepare_source

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.volumes import Mount

EXAMPLE = Path(__file__).resolve().parent
ROOT = EXAMPLE.parents[1]
BIN = Path(sys.executable).parent
BUNDLE_ROOT = "/opt/dpone/bundle"
DIMENSIONS = ("main_airlines", "main_airports", "main_planes", "main_weather")
PROCESSES: Mapping[str, tuple[str, ...]] = {"flights": (), "dimensions": DIMENSIONS, "carriers_lake": ()}
ON_A_SERVER: Mapping[str, tuple[str, ...]] = {"flights_ranges": ()}


class CommandFailedError(Exception):
    """A dpone command ended with another exit code than 0; the message is its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The paths below `root`, and what the commands and pods of this place need.

    `server` is the URI of a PostgreSQL database for the processes that need one, None for none of them.
    """

    root: Path
    server: str | None = None

    @property
    def processes(self) -> Mapping[str, tuple[str, ...]]:
        """The manifests of this place, and the selectors of those that hold several processes."""
        return PROCESSES if self.server is None else {**PROCESSES, **ON_A_SERVER}

    @property
    def source(self) -> Path:
        return self.root / "nyc.sqlite"

    @property
    def evidence(self) -> Path:
        return self.root / "evidence"

    @property
    def bundle(self) -> Path:
        return self.root / "bundle"

    @property
    def run_specs(self) -> Path:
        return self.root / "run_specs"

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @property
    def secrets(self) -> dict[str, str]:
        """What the Kubernetes secret `dpone-flights` would hold."""
        return {
            "nyc": f"sqlite:///{self.source}",
            "warehouse": f"chdb:///{self.root / 'warehouse'}",
            "lake": f"file:///{self.root / 'lake'}",
            **({} if self.server is None else {"server": self.server}),
        }

    @property
    def variables(self) -> dict[str, str]:
        connections = {f"DPONE_CONN_{name.upper()}": uri for name, uri in self.secrets.items()}
        return {**connections, "DPONE_EVIDENCE_DIR": str(self.evidence)}

    def fill_source(self) -> dict[str, int]:
        """Rows of the source by table."""
        self.root.mkdir(parents=True, exist_ok=True)
        return prepare_source(self.source)

    def dpone(self, *arguments: str, cwd: Path = EXAMPLE) -> str:
        """Runs the command line as a user would; raises CommandFailedError."""
        done = subprocess.run(
            [str(BIN / "dpone"), *arguments],
            cwd=cwd,
            env={**os.environ, **self.variables},
            text=True,
            capture_output=True,
        )
        if done.returncode != 0:
            output = f"{done.stdout}{done.stderr}"
            raise CommandFailedError(f"{output}\ndpone {' '.join(arguments)} exited with {done.returncode}")
        return done.stdout

    def compile_bundle(self, manifests: Iterable[str], say: Callable[[str], None]) -> None:
        """Bundle (manifests, SQL, packs), run-specs and DAG file, each anew, as CI and an image build make them."""
        for directory in (self.bundle, self.run_specs, self.dags):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        shutil.copytree(EXAMPLE / "sql", self.bundle / "sql")
        shutil.copy(EXAMPLE / "dags" / "nyc.py", self.dags / "nyc.py")
        for name in (*(f"{process}.yaml" for process in self.processes), "dpone.yaml", "platform.yaml"):
            shutil.copy(EXAMPLE / name, self.bundle / name)
        for manifest in manifests:
            self.dpone("gitops", "pack", f"{manifest}.yaml", "--output", f"{manifest}.pack.json", cwd=self.bundle)
            for selector in self.processes[manifest] or (None,):
                say(self._compile_run_spec(manifest, selector))

    def _compile_run_spec(self, manifest: str, selector: str | None) -> str:
        output = self.run_specs / f"{selector or manifest}.run_spec.json"
        chosen = ("--selector", selector) if selector else ()
        compiling = ("gitops", "airflow", "run-spec", f"{manifest}.yaml", *chosen, "--pack", f"{manifest}.pack.json")
        self.dpone(*compiling, "--platform", "platform.yaml", "--output", str(output), cwd=self.bundle)
        steps = [step["step_id"] for step in json.loads(output.read_text(encoding="utf-8"))["steps"]]
        return f"{output.name}: {' -> '.join(steps)} -> outcome_gate"

    def pods(self) -> LocalPodRunner:
        """The runner for this place's DAGs: one pod at a time, for an embedded warehouse has one owner."""
        os.environ["DPONE_EVIDENCE_DIR"] = str(self.evidence)
        return LocalPodRunner(
            root=self.root / "pods",
            fixtures=Fixtures(secrets={"dpone-flights": self.secrets}),
            search_path=(BIN,),
            bundles=(Mount(source=self.bundle, target=BUNDLE_ROOT, read_only=True),),
            pass_env=("DPONE_EVIDENCE_DIR",),
            serial=True,
        )

    def airflow_environment(self, home: Path, kubeconfig: Path, settings: Mapping[str, str]) -> dict[str, str]:
        """Everything an Airflow process of this place has in its environment; `settings` as SECTION__KEY."""
        common = {
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "LOGGING__COLORED_CONSOLE_LOG": "False",
        }
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        loopback = "127.0.0.1,localhost"
        return {
            **kept,
            **{f"AIRFLOW__{name}": value for name, value in {**common, **settings}.items()},
            "AIRFLOW_HOME": str(home),
            "DPONE_RUN_SPECS": str(self.run_specs),
            "KUBECONFIG": str(kubeconfig),
            "NO_PROXY": loopback,
            "no_proxy": loopback,
        }
