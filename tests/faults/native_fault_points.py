"""Faults in a native transfer: its own ports watched besides the shared ones, and its checkpoints by what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, cast

from dpone_core.loading.context import LoadSessions
from dpone_core.model.identity import LoadIdentity
from dpone_core.ports.runtime import EvidenceFiles
from dpone_core.ports.session import SourcePorts
from dpone_core.state.cursor import CursorStore
from dpone_core.state.lease import LeaseStore
from tests.faults.fault_points import Moments, Watched, WatchedControl, WatchedFiles, WatchedProbe, WatchedWriter


class WatchedStore(Watched):
    """A checkpoint store: a line says the status that is written, or the state of the run."""

    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        match method:
            case "append":
                return f"checkpoint {arguments[2][0].status}" if arguments[2] else "checkpoint nothing"
            case "save_run":
                return f"run {arguments[0].state}"
            case _:
                return f"store.{method}"


class WatchedNativeFiles(WatchedFiles):
    """The transfer's report has the run id in its name; a line has its suffix only."""

    def _line(self, method: str, arguments: tuple[Any, ...]) -> str:
        name = str(arguments[0]).rpartition("/")[2]
        return (
            f"{method} native.{name.rpartition('.')[2]}"
            if name.startswith("native_")
            else super()._line(method, arguments)
        )


def watched_native_files(files: EvidenceFiles, moments: Moments) -> EvidenceFiles:
    return cast(EvidenceFiles, WatchedNativeFiles(files, "evidence", moments))


def watched_native_sessions(
    open_sessions: Callable[[LoadIdentity], AbstractContextManager[LoadSessions]], moments: Moments
) -> Callable[[LoadIdentity], AbstractContextManager[LoadSessions]]:
    @contextmanager
    def opened(identity: LoadIdentity) -> Iterator[LoadSessions]:
        with open_sessions(identity) as sessions:
            yield _watched(sessions, moments)

    return opened


def _watched(sessions: LoadSessions, moments: Moments) -> LoadSessions:
    source, sink = sessions.source, sessions.sink
    control: Any = WatchedControl(sink.control, "control", moments)

    def watched(port: Any, name: str, kind: type[Watched] = Watched) -> Any:
        return None if port is None else kind(port, name, moments)

    @contextmanager
    def reader() -> Iterator[SourcePorts]:
        assert sessions.open_reader is not None
        with sessions.open_reader() as ports:
            yield replace(ports, ranges=watched(ports.ranges, "read"))

    assert sessions.audit is not None and isinstance(sessions.lease, LeaseStore)
    cursor = sessions.cursor
    return replace(
        sessions,
        source=replace(
            source,
            source=watched(source.source, "source"),
            metrics=watched(source.metrics, "metrics", WatchedProbe),
            ranges=watched(source.ranges, "ranges"),
        ),
        sink=replace(
            sink,
            staged=watched(sink.staged, "staged", WatchedWriter),
            legacy=watched(sink.legacy, "legacy", WatchedWriter),
            target=watched(sink.target, "target"),
            metrics=watched(sink.metrics, "metrics", WatchedProbe),
            ranges=watched(sink.ranges, "staging"),
        ),
        audit=replace(sessions.audit, control=control),
        cursor=replace(cursor, control=control) if isinstance(cursor, CursorStore) else None,
        lease=replace(sessions.lease, control=control),
        open_reader=reader,
        checkpoints=watched(sessions.checkpoints, "store", WatchedStore),
    )
