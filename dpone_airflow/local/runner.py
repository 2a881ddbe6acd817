"""A local pod runner inside this process, with a thread and event loop of its own and blocking methods."""

from __future__ import annotations

import asyncio
import copy
import os
import signal as signals
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from dpone_airflow.local.control import require_signal
from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.sandbox import detect_sandbox
from dpone_airflow.local.server import Server, serve
from dpone_airflow.local.settings import (
    DEFAULT_LOG_LIMIT_BYTES,
    Isolation,
    Settings,
    random_token,
    select_env,
)
from dpone_airflow.local.volumes import Mount
from dpone_airflow.local.wire import JsonObject

_CALL_TIMEOUT_SECONDS = 60.0
_T = TypeVar("_T")


class LocalPodRunner:
    """`with LocalPodRunner(root=directory) as runner:` serves until the block ends; then no pod process is left.

    A process that is to use it needs only `KUBECONFIG=runner.kubeconfig_path`. For tests and laptops. The parameters
    are those of Settings; `pass_env` names what containers inherit from this process besides PATH and HOME.
    """

    def __init__(
        self,
        *,
        root: Path,
        port: int = 0,
        token: str | None = None,
        kubeconfig: Path | None = None,
        fixtures: Fixtures | None = None,
        isolation: Isolation = Isolation.AUTO,
        pending_seconds: float = 0.0,
        pass_env: tuple[str, ...] = (),
        search_path: tuple[Path, ...] = (),
        bundles: tuple[Mount, ...] = (),
        serial: bool = False,
        entrypoint: tuple[str, ...] = (),
        log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES,
    ) -> None:
        self._settings = Settings(
            root=root.resolve(),
            port=port,
            token=token or random_token(),
            kubeconfig=kubeconfig,
            fixtures=fixtures or Fixtures(),
            isolation=isolation,
            pending_seconds=pending_seconds,
            env=select_env(os.environ, pass_env),
            search_path=search_path,
            bundles=bundles,
            serial=serial,
            entrypoint=entrypoint,
            log_limit_bytes=log_limit_bytes,
        )
        self._ready: Future[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="local-pod-runner", daemon=True)

    def __enter__(self) -> LocalPodRunner:
        self._thread.start()
        self._ready.result(_CALL_TIMEOUT_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kills every pod and stops serving; a second call does nothing."""
        _, loop, stopped = self._ready.result()
        if self._thread.is_alive():
            loop.call_soon_threadsafe(stopped.set)
            self._thread.join(_CALL_TIMEOUT_SECONDS)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def kubeconfig_path(self) -> Path:
        return self._server.kubeconfig_path

    @property
    def token(self) -> str:
        return self._settings.token

    @property
    def isolation(self) -> Isolation:
        """The isolation in effect: mount or rewrite."""
        return self._server.sandbox.isolation

    def state(self) -> JsonObject:
        """A copy of the runner's state: `isolation`, `pods`, `finished`, `requests` (see `control`)."""
        return self._call(lambda server: copy.deepcopy(server.control.state()))

    def fail_next(self, method: str, path_regex: str, status: int, times: int = 1) -> None:
        """The next `times` API requests whose path contains the pattern are answered with `status`."""
        self._call(lambda server: server.faults.fail_next(method, path_regex, status, times))

    def clear_faults(self) -> None:
        self._call(lambda server: server.faults.clear())

    def kill(self, namespace: str, name: str, signal: int = signals.SIGKILL) -> None:
        """Sends a signal to the pod's processes; the XCom sidecar stays. Raises ApiError for an unknown pod."""
        number = require_signal(signal)
        self._call(lambda server: server.cluster.find(namespace, name).signal(number))

    def evict(self, namespace: str, name: str) -> None:
        """Fails the pod as the kubelet does under memory pressure; returns when its processes are gone."""
        self._await(lambda server: server.cluster.evict(server.cluster.find(namespace, name)))

    def vanish(self, namespace: str, name: str) -> None:
        """Removes the pod and keeps only its report; returns when its processes are gone."""
        self._await(lambda server: server.cluster.vanish(server.cluster.find(namespace, name)))

    @property
    def _server(self) -> Server:
        return self._ready.result(0)[0]

    def _call(self, action: Callable[[Server], _T]) -> _T:
        async def act(server: Server) -> _T:
            return action(server)

        return self._await(act)

    def _await(self, action: Callable[[Server], Coroutine[Any, Any, _T]]) -> _T:
        server, loop, _ = self._ready.result(0)

        async def act() -> _T:
            return await action(server)

        return asyncio.run_coroutine_threadsafe(act(), loop).result(_CALL_TIMEOUT_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        stopped = asyncio.Event()
        async with serve(self._settings, detect_sandbox(self._settings.isolation)) as server:
            self._ready.set_result((server, asyncio.get_running_loop(), stopped))
            await stopped.wait()
