"""Faults at port calls: an adapter around any port that announces each call, and one call that goes wrong.

The run is the real one; only the ports it is handed are wrapped, before and after the call they delegate.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, cast

import pyarrow as pa

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.loading.context import LoadSessions
from dpone_core.model.identity import LoadIdentity
from dpone_core.ports.runtime import EvidenceFiles
from dpone_core.ports.session import SourcePorts
from dpone_core.state.cursor import CursorStore
from dpone_core.state.intents import IntentStore
from dpone_core.state.lease import LeaseStore

INJECTED = "injected_failure"
COMMITS = ("staged.finalize", "legacy.load")


class FaultKind(StrEnum):
    """`ERROR` is what a connector raises, `CRASH` an exception nobody foresaw, `SIGSTOP` stops the process until it is
    woken; the others end it."""

    ERROR = "error"
    CRASH = "crash"
    SIGTERM = "sigterm"
    SIGKILL = "sigkill"
    SIGSTOP = "sigstop"


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The `occurrence`-th time `call` is made, before it reaches the port or after the port did its work."""

    call: str
    when: When
    kind: FaultKind
    occurrence: int = 1


@dataclass(slots=True)
class Moments:
    """Counts announced calls and lets the fault happen; `lines` is what a run without fault passed through."""

    fault: Fault | None
    wait_for_signal: Callable[[], object] = lambda: None
    """Returns when a signal that was sent to this process has been noted."""
    lines: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def around(self, call: str, work: Callable[[], Any]) -> Any:
        self.seen[call] += 1
        number = self.seen[call]
        self.lines.append(f"{call}#{number}")
        self._reach(call, number, When.BEFORE)
        answer = work()
        self._reach(call, number, When.AFTER)
        return answer

    def _reach(self, call: str, number: int, when: When) -> None:
        fault = self.fault
        if fault is None or (fault.call, fault.occurrence, fault.when) != (call, number, when):
            return
        match fault.kind:
            case FaultKind.SIGKILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case FaultKind.SIGTERM:
                os.kill(os.getpid(), signal.SIGTERM)
                self.wait_for_signal()
            case FaultKind.SIGSTOP:
                os.kill(os.getpid(), signal.SIGSTOP)
            case FaultKind.CRASH:
                raise RuntimeError("injected")
            case FaultKind.ERROR if when is When.AFTER and call in COMMITS:
                raise CommitOutcomeUnknownError("the answer was lost")
            case FaultKind.ERROR:
                raise ConnectorError("injected", code=INJECTED)


class Watched:
    """Any port; every call of a method is announced as `<name>.<method>`."""

    def __init__(self, port: Any, name: str, moments: Moments) -> None:
        self._port, self._name, self._moments = port, name, moments

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call = getattr(self._port, method)

        def announced(*arguments: Any, **named: Any) -> Any:
            line = self._line(method, arguments)
            return self._moments.around(line, lambda: call(*arguments, **named))

        return announced

    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        return f"{self._name}.{method}"


class WatchedWriter(Watched):
    """A staged or legacy port that gets its rows one at a time; each is announced as `rows`."""

    def stage(self, request: Any, batches: Iterable[pa.RecordBatch]) -> Any:
        return self._moments.around("staged.stage", lambda: self._port.stage(request, self._rows(batches)))

    def load(self, request: Any, batches: Iterable[pa.RecordBatch]) -> Any:
        return self._moments.around("legacy.load", lambda: self._port.load(request, self._rows(batches)))

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                for row in range(batch.num_rows):
                    yield self._moments.around("rows", lambda: batch.slice(row, 1))  # noqa: B023 - called at once
        finally:
            if isinstance(batches, Generator):
                batches.close()


class WatchedControl(Watched):
    """Control tables; a call says which row it writes: a load's status, a step, the cursor, the lease."""

    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        table = str(arguments[0].name).removeprefix("__dpone__")
        if method == "upsert":
            row = arguments[1][0]
            written = " ".join(str(row[name]) for name in ("step_id", "status") if name in row)
            return f"{table} {written}".strip()
        if method == "compare_and_set" and table != "leases" and arguments[3] is not None:
            return table
        if method == "compare_and_set":
            return f"{table} {'released' if arguments[3] is None else 'taken'}"
        return f"{table}.{method}"


class WatchedProbe(Watched):
    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        return f"metrics.{arguments[0].side}"


class WatchedFiles(Watched):
    """Evidence files by their name; of files that appear together, the first one's. The report of a transfer has the
    run id in its name; a line has its suffix only."""

    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        named = arguments[0] if isinstance(arguments[0], str) else next(iter(arguments[0]))
        name, method = named.rpartition("/")[2], method.removesuffix("_together")
        return f"{method} native.{name.rpartition('.')[2]}" if name.startswith("native_") else f"{method} {name}"


class WatchedCheckpoints(Watched):
    """A checkpoint store: a line says the status that is written, or the state of the run."""

    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        match method:
            case "append":
                return f"checkpoint {arguments[2][0].status}" if arguments[2] else "checkpoint nothing"
            case "save_run":
                return f"run {arguments[0].state}"
            case _:
                return f"store.{method}"


def watched_files(files: EvidenceFiles, moments: Moments) -> EvidenceFiles:
    return cast(EvidenceFiles, WatchedFiles(files, "evidence", moments))


def watched_sessions(
    open_sessions: Callable[[LoadIdentity], AbstractContextManager[LoadSessions]],
    moments: Moments,
    *,
    is_server: bool,
) -> Callable[[LoadIdentity], AbstractContextManager[LoadSessions]]:
    """The same sessions, every port of them watched, those of a native transfer included."""

    @contextmanager
    def opened(identity: LoadIdentity) -> Iterator[LoadSessions]:
        with open_sessions(identity) as sessions:
            yield _watched(sessions, moments, is_server)

    return opened


def _watched(sessions: LoadSessions, moments: Moments, is_server: bool) -> LoadSessions:
    source, sink = sessions.source, sessions.sink
    control: Any = WatchedControl(sink.control, "control", moments)

    def watched(port: Any, name: str, kind: type[Watched] = Watched) -> Any:
        return None if port is None else kind(port, name, moments)

    @contextmanager
    def reader() -> Iterator[SourcePorts]:
        assert sessions.open_reader is not None
        with sessions.open_reader() as ports:
            yield replace(ports, ranges=watched(ports.ranges, "read"))

    audit, cursor, lease, intents = sessions.audit, sessions.cursor, sessions.lease, sessions.intents
    assert audit is not None and isinstance(lease, LeaseStore)
    return replace(
        sessions,
        source=replace(
            source,
            source=watched(source.source, "source"),
            metrics=watched(source.metrics, "metrics", WatchedProbe),
            statements=watched(source.statements, "statements"),
            ranges=watched(source.ranges, "ranges"),
        ),
        sink=replace(
            sink,
            staged=watched(sink.staged, "staged", WatchedWriter),
            legacy=watched(sink.legacy, "legacy", WatchedWriter),
            target=watched(sink.target, "target"),
            metrics=watched(sink.metrics, "metrics", WatchedProbe),
            ranges=watched(sink.ranges, "staging"),
            control=control,
        ),
        audit=replace(audit, control=control),
        cursor=replace(cursor, control=control) if isinstance(cursor, CursorStore) else None,
        intents=replace(intents, control=control) if isinstance(intents, IntentStore) else None,
        lease=replace(lease, control=control, exclusive_process=lease.exclusive_process and not is_server),
        open_reader=None if sessions.open_reader is None else reader,
        checkpoints=watched(sessions.checkpoints, "store", WatchedCheckpoints),
    )
