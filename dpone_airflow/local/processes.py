"""One process group per container, its output read as it comes.

When the first process ends the rest of its group is killed, as a container ends with its first process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from dpone_airflow.local.sandbox import Launch

_CHUNK_BYTES = 1 << 16
_DRAIN_TIMEOUT_SECONDS = 2.0  # a process that left its group may hold the pipe open for ever


class ContainerProcess:
    """A started program; create it with `start`, then await `wait` exactly once."""

    def __init__(self, process: asyncio.subprocess.Process, pumps: list[asyncio.Task[None]]) -> None:
        self._process = process
        self._pumps = pumps

    @classmethod
    async def start(
        cls, launch: Launch, output: Callable[[bytes], None], errors: Callable[[bytes], None] | None = None
    ) -> ContainerProcess:
        """Starts the program in a session of its own; without `errors` both streams go to `output`. Raises OSError."""
        sinks = [output] if errors is None else [output, errors]
        pipes = [os.pipe() for _ in sinks]
        try:
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                env=dict(launch.env),
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=asyncio.subprocess.STDOUT if errors is None else pipes[1][1],
                start_new_session=True,
            )
        except BaseException:
            for read_end, _ in pipes:
                os.close(read_end)
            raise
        finally:
            for _, write_end in pipes:
                os.close(write_end)
        pumps = [asyncio.create_task(_pump(pipe[0], sink)) for pipe, sink in zip(pipes, sinks, strict=True)]
        return cls(process, pumps)

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def signal_group(self, number: int) -> None:
        """Sends a signal to every process of the container; nothing happens once it has ended."""
        if self.is_running:
            self._signal(number)

    async def wait(self) -> int:
        """The exit code once the program has ended and its output has been read: 128 + signal when killed."""
        code = await self._process.wait()
        self._signal(signal.SIGKILL)
        _, unfinished = await asyncio.wait(self._pumps, timeout=_DRAIN_TIMEOUT_SECONDS)
        for pump in unfinished:
            pump.cancel()
        return 128 - code if code < 0 else code

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


async def _pump(descriptor: int, sink: Callable[[bytes], None]) -> None:
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            sink(chunk)
    finally:
        transport.close()
