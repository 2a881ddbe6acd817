"""One pod: the document clients see and the containers behind it.

Lifecycle: Pending, init containers in order, all containers at once, Succeeded or Failed. Not modelled: restarts
(every pod is restartPolicy Never), probes, quotas, images (their names are echoed, nothing is pulled), resource
limits.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from dpone_airflow.local.containers import XCOM_SIDECAR, AnyContainer, Container, PodContext, XComSidecar
from dpone_airflow.local.faults import PodFaults
from dpone_airflow.local.sandbox import Sandbox
from dpone_airflow.local.settings import Settings
from dpone_airflow.local.status import (
    ContainerView,
    Phase,
    PodFailure,
    PodView,
    Terminated,
    Waiting,
    pod_phase,
    status_document,
)
from dpone_airflow.local.volumes import VolumeSet, remove_home
from dpone_airflow.local.wire import JsonObject, timestamp

DEFAULT_GRACE_SECONDS = 30.0
REPORTED_LOG_BYTES = 64 << 10
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The machine that pods run on.

    `pods_directory` lives as long as the runner. `slot` admits one pod at a time when the runner is serial, else it
    is None.
    """

    settings: Settings
    sandbox: Sandbox
    pods_directory: Path
    slot: asyncio.Lock | None


class Pod:
    """A pod that runs once `start` has been called and until `stop` or its own end.

    `changed(pod)` is called after every change of the document; `record(pod, reason, message)` for every event.
    """

    def __init__(
        self,
        document: JsonObject,
        node: Node,
        *,
        home: Path,
        changed: Callable[[Pod], None],
        record: Callable[[Pod, str, str], None],
    ) -> None:
        self.document = document
        self.name: str = document["metadata"]["name"]
        self.namespace: str = document["metadata"]["namespace"]
        self.faults = PodFaults.from_annotations(document["metadata"].get("annotations") or {})
        self._node = node
        self._home = home
        self._changed = changed
        self._record = record
        self._failure: PodFailure | None = None
        self._scheduled = False
        self._started_at: str | None = None
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._container_tasks: set[asyncio.Task[None]] = set()
        context = self._context()
        spec = document["spec"]
        self._init_containers = [Container(item, context) for item in spec.get("initContainers") or []]
        self._containers: list[AnyContainer] = [_container(item, context) for item in spec["containers"]]
        self.refresh()

    def start(self) -> None:
        """Starts the pod's lifecycle in a task of its own."""
        self._spawn(self._run_lifecycle())

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])

    @property
    def grace_seconds(self) -> float:
        declared = self.document["spec"].get("terminationGracePeriodSeconds")
        return DEFAULT_GRACE_SECONDS if declared is None else float(declared)

    def container(self, name: str) -> AnyContainer | None:
        return next((item for item in self._all_containers() if item.name == name), None)

    def container_names(self) -> list[str]:
        return [item.name for item in self._containers]

    def refresh(self) -> None:
        """Renders the status again and reports the change to the cluster."""
        view = self._view()
        status = status_document(view)
        self.document["status"] = {key: status[key] for key in status if key not in self.faults.stripped_status}
        self._changed(self)

    def signal(self, number: int) -> None:
        """Sends a signal to the processes of every container except the XCom sidecar."""
        for item in self._all_containers():
            if item.name != XCOM_SIDECAR:
                item.signal(number)

    async def stop(self, grace_seconds: float, failure: PodFailure | None = None) -> None:
        """SIGTERM, the grace period, SIGKILL; returns when no process is left.

        With `failure` the pod ends as Failed, unless it has ended before.
        """
        if not self._is_final():
            self._failure = failure or self._failure
        self._stopping.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        if grace_seconds > 0:
            self._signal_all(signal.SIGTERM)
        while any(not task.done() for task in self._container_tasks):
            if loop.time() >= deadline:
                self._signal_all(signal.SIGKILL)
            await asyncio.sleep(_POLL_SECONDS)
        self.refresh()

    def discard(self) -> None:
        """Ends followers of its logs and deletes its files; the pod must have stopped."""
        for item in self._all_containers():
            item.logs.close()
        remove_home(self._home)

    def final_report(self) -> JsonObject:
        """The report of a removed pod: exit codes and the end of the log by container, and the last document."""
        states = {item.name: item.state for item in self._all_containers()}
        return {
            "pod": self.document,
            "exit_codes": {name: state.exit_code for name, state in states.items() if isinstance(state, Terminated)},
            "logs": {item.name: item.logs.texts(REPORTED_LOG_BYTES) for item in self._all_containers()},
        }

    async def _run_lifecycle(self) -> None:
        if self.faults.unschedulable:
            self._record(self, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.")
            return
        slot = self._node.slot
        if slot is None:
            await self._start_containers()
            return
        async with slot:  # a pod that was stopped in the queue falls through
            await self._start_containers()

    async def _start_containers(self) -> None:
        """Returns when every container but the XCom sidecar has ended or cannot start."""
        if self._stopping.is_set():
            return
        self._schedule()
        if self.faults.waiting is not None:
            self._record(self, "Failed", self.faults.waiting.message)
            return
        pending = self.faults.pending_seconds
        if await self._stops_within(self._node.settings.pending_seconds if pending is None else pending):
            return
        for item in self._init_containers:
            await asyncio.wait({self._run(item)})
            succeeded = isinstance(item.state, Terminated) and item.state.exit_code == 0
            if not succeeded or self._stopping.is_set():
                return
        running = {self._run(item): item for item in self._containers}
        await asyncio.wait({task for task, item in running.items() if item.name != XCOM_SIDECAR})

    def _schedule(self) -> None:
        self._scheduled = True
        self._started_at = timestamp()
        self._record(self, "Scheduled", f"Successfully assigned {self.namespace}/{self.name} to local")
        self.refresh()
        deadline = self.document["spec"].get("activeDeadlineSeconds")
        if deadline is not None:
            self._spawn(self._expire(float(deadline)))

    async def _expire(self, seconds: float) -> None:
        if not await self._stops_within(seconds) and not self._is_final():
            message = "Pod was active on the node longer than the specified deadline"
            await self.stop(self.grace_seconds, PodFailure(reason="DeadlineExceeded", message=message))

    def _is_final(self) -> bool:
        return pod_phase(self._view()) in (Phase.SUCCEEDED, Phase.FAILED)

    async def _stops_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _run(self, item: AnyContainer) -> asyncio.Task[None]:
        task = self._spawn(item.run())
        self._container_tasks.add(task)
        return task

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _signal_all(self, number: int) -> None:
        for item in self._all_containers():
            item.signal(number)

    def _all_containers(self) -> list[AnyContainer]:
        return [*self._init_containers, *self._containers]

    def _context(self) -> PodContext:
        settings = self._node.settings
        volumes = VolumeSet(
            self.document["spec"],
            home=self._home,
            claims=settings.root / "claims" / self.namespace,
            fixtures=settings.fixtures,
        )
        return PodContext(
            document=self.document,
            home=self._home,
            volumes=volumes,
            settings=settings,
            sandbox=self._node.sandbox,
            oom=self.faults.oom,
            changed=self.refresh,
            record=lambda reason, message: self._record(self, reason, message),
        )

    def _view(self) -> PodView:
        return PodView(
            pod_name=self.name,
            containers=[self._container_view(item) for item in self._containers],
            init_containers=[self._container_view(item) for item in self._init_containers],
            scheduled=self._scheduled,
            failure=self._failure,
            started_at=self._started_at,
            changed_at=timestamp(),
        )

    def _container_view(self, item: AnyContainer) -> ContainerView:
        stuck = self.faults.waiting if self._scheduled else None
        state = Waiting(reason=stuck.reason, message=stuck.message) if stuck else item.state
        return ContainerView(name=item.name, image=item.spec.get("image") or "none", state=state)


def _container(spec: JsonObject, context: PodContext) -> AnyContainer:
    return XComSidecar(spec, context) if spec["name"] == XCOM_SIDECAR else Container(spec, context)
