"""One container, from waiting through running to terminated, and a substitute for Airflow's XCom sidecar."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpone_airflow.local.environment import (
    ContainerConfigError,
    expand,
    image_env,
    resolve_env,
    with_search_path,
)
from dpone_airflow.local.logs import LogBuffer
from dpone_airflow.local.processes import ContainerProcess
from dpone_airflow.local.rootfs import START_ERROR_EXIT_CODE
from dpone_airflow.local.sandbox import Program, Sandbox
from dpone_airflow.local.settings import Settings
from dpone_airflow.local.status import ContainerState, Running, Terminated, Waiting
from dpone_airflow.local.volumes import Mount, VolumeError, VolumeSet
from dpone_airflow.local.wire import JsonObject, timestamp

XCOM_SIDECAR = "airflow-xcom-sidecar"

_KILLED_EXIT_CODE = 137
_OUT_OF_MEMORY_EXIT_CODE = 137
_TERMINATION_MESSAGE_PATH = "/dev/termination-log"
_TERMINATION_MESSAGE_LIMIT_BYTES = 4096
_FALLBACK_MESSAGE_LIMIT_BYTES, _FALLBACK_MESSAGE_LIMIT_LINES = 2048, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """What the containers of one pod share. `record(reason, message)` reports an event, warnings included."""

    document: JsonObject
    home: Path
    volumes: VolumeSet
    settings: Settings
    sandbox: Sandbox
    oom: bool
    changed: Callable[[], None]
    record: Callable[[str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command in a container ended, and what it wrote."""

    exit_code: int
    output: bytes
    errors: bytes


class AnyContainer(Protocol):
    """What a pod needs of its containers."""

    name: str
    spec: JsonObject
    state: ContainerState
    logs: LogBuffer

    async def run(self) -> None:
        """Lives until terminated; returns early, still waiting, when the container cannot be created."""
        ...

    def signal(self, number: int) -> None:
        """Sends a signal to every process of the container."""
        ...

    async def exec(self, command: tuple[str, ...]) -> ExecResult:
        """Runs a command inside the container."""
        ...


class XComSidecar:
    """A sidecar that looks alive until it is told to stop. Its shell never runs, because its kill command would search
    the processes of the host."""

    def __init__(self, spec: JsonObject, context: PodContext) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.state: ContainerState = _creating_state(context)
        self.logs = LogBuffer(context.settings.log_limit_bytes)
        self._context = context
        self._files = Container(spec, context)
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        started_at = timestamp()
        self.state = Running(started_at=started_at)
        self._context.changed()
        exit_code = await self._exit_code
        self.state = Terminated(
            exit_code=exit_code,
            reason="Error" if exit_code else "Completed",
            started_at=started_at,
            finished_at=timestamp(),
        )
        self.logs.close()
        self._context.changed()

    def signal(self, number: int) -> None:
        """Ends the sidecar as SIGKILL after the grace period would: its shell ignores other signals until then."""
        self._files.signal(number)
        self._stop(_KILLED_EXIT_CODE)

    async def exec(self, command: tuple[str, ...]) -> ExecResult:
        return await self._files.exec(command)

    def interrupt(self) -> None:
        """Ends the sidecar with exit code 0, as `kill -2` does."""
        self._stop(0)

    def _stop(self, exit_code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(exit_code)


class Container:
    """A container that runs as a local process group."""

    def __init__(self, spec: JsonObject, context: PodContext) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.state: ContainerState = _creating_state(context)
        self.logs = LogBuffer(context.settings.log_limit_bytes)
        self._context = context
        self._home = context.home / "containers" / self.name
        self._home.mkdir(parents=True)
        self._termination_log = self._home / "termination-log"
        self._termination_log.touch()
        self._starts = itertools.count()
        self._processes: set[ContainerProcess] = set()
        self._mounts: tuple[Mount, ...] | None = None
        self._undelivered: int | None = None

    async def run(self) -> None:
        try:
            program = self._main_program()
        except ContainerConfigError as error:
            self._wait("CreateContainerConfigError", str(error), event_reason="Failed")
            return
        except (VolumeError, OSError) as error:
            self._wait("ContainerCreating", "", event_reason="FailedMount", event_message=str(error))
            return
        except KeyError as error:
            self._wait("CreateContainerConfigError", f"the pod spec lacks the field {error}", event_reason="Failed")
            return
        if not program.argv:
            self._wait("CreateContainerError", "no command specified", event_reason="Failed")
            return
        await self._run_to_end(program)

    def signal(self, number: int) -> None:
        if isinstance(self.state, Waiting):
            self._undelivered = number  # it may be starting right now
        for process in self._processes:
            process.signal_group(number)

    async def exec(self, command: tuple[str, ...]) -> ExecResult:
        """Runs a command with this container's environment and files; it is killed with the container."""
        output, errors = bytearray(), bytearray()
        launch = self._context.sandbox.enter(self._program(command, self._resolve_env()[1]))
        process = await ContainerProcess.start(launch, output.extend, errors.extend)
        self._processes.add(process)
        try:
            exit_code = await process.wait()
        finally:
            process.signal_group(signal.SIGKILL)
            self._processes.discard(process)
        if exit_code == START_ERROR_EXIT_CODE:
            errors.extend(_read(launch.start_error).encode())
        return ExecResult(exit_code=exit_code, output=bytes(output), errors=bytes(errors))

    async def _run_to_end(self, program: Program) -> None:
        started_at = timestamp()
        launch = self._context.sandbox.enter(program)
        try:
            process = await ContainerProcess.start(launch, self.logs.feed)
        except (OSError, ValueError) as error:  # an argument list that is too long, a zero byte in a word
            self._end(START_ERROR_EXIT_CODE, started_at, start_error=str(error))
            return
        self._processes.add(process)
        if self._undelivered is not None:
            process.signal_group(self._undelivered)
        self.state = Running(started_at=started_at)
        self._context.record("Started", f"Started container {self.name}")
        self._context.changed()
        exit_code = await process.wait()
        self._processes.discard(process)
        self.signal(signal.SIGKILL)  # an exec ends with its container
        start_error = _read(launch.start_error) if exit_code == START_ERROR_EXIT_CODE else ""
        self._end(exit_code, started_at, start_error=start_error)

    def _end(self, exit_code: int, started_at: str, *, start_error: str) -> None:
        self.logs.close()
        self.state = Terminated(
            exit_code=exit_code,
            reason="StartError" if start_error else self._end_reason(exit_code),
            started_at=started_at,
            finished_at=timestamp(),
            message=start_error or self._termination_message(exit_code),
        )
        self._context.changed()

    def _main_program(self) -> Program:
        declared, env = self._resolve_env()
        words = [*(self.spec.get("command") or self._context.settings.entrypoint), *(self.spec.get("args") or [])]
        return self._program(tuple(expand(word, declared) for word in words), env)

    def _resolve_env(self) -> tuple[dict[str, str], dict[str, str]]:
        """(declared by the pod, complete)."""
        settings, document = self._context.settings, self._context.document
        declared = resolve_env(self.spec, document, settings.fixtures)
        image = image_env(settings.env, hostname=document["metadata"]["name"])
        return declared, with_search_path(image | declared, settings.search_path)

    def _program(self, argv: tuple[str, ...], env: dict[str, str]) -> Program:
        return Program(
            argv=argv,
            env=env,
            mounts=self._all_mounts(),
            working_directory=self.spec.get("workingDir") or "/",
            scratch=self._home / f"start-{next(self._starts)}",
        )

    def _all_mounts(self) -> tuple[Mount, ...]:
        if self._mounts is None:
            path = self.spec.get("terminationMessagePath") or _TERMINATION_MESSAGE_PATH
            own = (*self._context.volumes.mounts(self.spec), Mount(source=self._termination_log, target=path))
            taken = {mount.target.rstrip("/") for mount in own}
            bundles = (bundle for bundle in self._context.settings.bundles if bundle.target.rstrip("/") not in taken)
            self._mounts = (*bundles, *own)
        return self._mounts

    def _wait(self, reason: str, message: str, *, event_reason: str, event_message: str | None = None) -> None:
        self.state = Waiting(reason=reason, message=message)
        self._context.record(event_reason, event_message or f"Error: {message}")
        self._context.changed()

    def _end_reason(self, exit_code: int) -> str:
        if self._context.oom and exit_code == _OUT_OF_MEMORY_EXIT_CODE:
            return "OOMKilled"
        return "Error" if exit_code else "Completed"

    def _termination_message(self, exit_code: int) -> str:
        message = _read(self._termination_log, _TERMINATION_MESSAGE_LIMIT_BYTES)
        if message or not exit_code or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return message
        tail = self.logs.tail(_FALLBACK_MESSAGE_LIMIT_LINES)
        return tail[-_FALLBACK_MESSAGE_LIMIT_BYTES:].decode(errors="replace")


def _creating_state(context: PodContext) -> Waiting:
    has_init_containers = bool(context.document["spec"].get("initContainers"))
    return Waiting(reason="PodInitializing" if has_init_containers else "ContainerCreating")


def _read(path: Path, limit_bytes: int = _TERMINATION_MESSAGE_LIMIT_BYTES) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit_bytes).decode(errors="replace")
    except FileNotFoundError:
        return ""
