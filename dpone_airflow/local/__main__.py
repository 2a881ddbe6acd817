"""`python -m dpone_airflow.local`: the local pod runner as a program."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from dpone_airflow.local.fixtures import FixtureError, Fixtures
from dpone_airflow.local.kubeconfig import LOOPBACK
from dpone_airflow.local.sandbox import IsolationUnavailableError, detect_sandbox
from dpone_airflow.local.server import serve
from dpone_airflow.local.settings import Isolation, Settings, random_token, select_env
from dpone_airflow.local.volumes import Mount

_DESCRIPTION = """
The part of the Kubernetes API that Airflow's KubernetesPodOperator needs; pods run as processes of this machine,
whatever their image says. For laptops and tests, never a cluster: there is no scheduler, no image, no resource limit
and no security boundary. It listens on 127.0.0.1 only and asks for the token in the kubeconfig it writes.
"""


def parse_settings(arguments: Sequence[str]) -> Settings:
    """Reads the command line; exits with 2 on a wrong one, as argparse does."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return Settings(
            root=options.root.resolve(),
            port=options.port,
            token=options.token or random_token(),
            kubeconfig=options.kubeconfig,
            fixtures=Fixtures.from_file(options.fixtures) if options.fixtures else Fixtures(),
            isolation=Isolation(options.isolation),
            pending_seconds=options.pending,
            env=select_env(os.environ, tuple(options.pass_env)),
            search_path=tuple(path.absolute() for path in options.path),
            bundles=tuple(options.bundle),
            serial=options.serial,
            entrypoint=tuple(options.entrypoint),
        )
    except (FixtureError, OSError, ValueError) as error:
        parser.error(str(error))


async def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; prints one line once requests are accepted."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    sandbox = detect_sandbox(settings.isolation)
    async with serve(settings, sandbox) as server:
        print(
            f"local pod runner: http://{LOOPBACK}:{server.port} "
            f"kubeconfig={server.kubeconfig_path} isolation={sandbox.isolation}",
            flush=True,
        )
        await stopped.wait()


def main() -> int:
    try:
        asyncio.run(run(parse_settings(sys.argv[1:])))
    except (IsolationUnavailableError, OSError) as error:
        print(f"local pod runner: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpone_airflow.local", description=_DESCRIPTION)
    add = parser.add_argument
    add("--root", type=Path, required=True, help="directory for the pods' files")
    add("--port", type=int, default=0, help="default: a free one")
    add("--kubeconfig", type=Path, help="where to write the kubeconfig (default: ROOT/kubeconfig)")
    add("--token", help="default: random; a token on the command line can be read by other users of this machine")
    add("--fixtures", type=Path, help='JSON file {"secrets": {NAME: {KEY: VALUE}}, "config_maps": {...}}')
    add("--isolation", choices=[str(item) for item in Isolation], default=str(Isolation.AUTO))
    add("--pending", type=float, default=0.0, metavar="SECONDS", help="how long every pod stays Pending")
    add("--pass-env", action="append", default=[], metavar="NAME", help="variable that containers inherit")
    add("--path", action="append", default=[], type=Path, metavar="DIR", help="put before every container's PATH")
    add(
        "--bundle", action="append", default=[], type=_bundle, metavar="SRC:DST[:ro]", help="mounted in every container"
    )
    add("--serial", action="store_true", help="one pod at a time; the others wait as Pending")
    add("--entrypoint", action="append", default=[], metavar="WORD", help="for containers that declare no command")
    return parser


def _bundle(text: str) -> Mount:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target.startswith("/") or mode not in ("", "ro"):
        raise argparse.ArgumentTypeError(f"expected SRC:DST or SRC:DST:ro with an absolute DST, got {text!r}")
    return Mount(source=Path(source).absolute(), target=target, read_only=mode == "ro")


if __name__ == "__main__":
    sys.exit(main())
