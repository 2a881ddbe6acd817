"""The changes of one kind of object in order, for watches. Old changes are dropped; a watch that needs them gets
ApiError 410."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from dpone_airflow.local.pulse import Pulse
from dpone_airflow.local.wire import ApiError, JsonObject

HISTORY_LENGTH = 2000


class ChangeType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Revisions:
    """The counter behind every `resourceVersion`; one for all kinds, as etcd has one."""

    def __init__(self) -> None:
        self.current = 1

    def next(self) -> int:
        self.current += 1
        return self.current


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a document: a snapshot and its revision."""

    revision: int
    type: ChangeType
    document: JsonObject

    def render(self) -> JsonObject:
        """A watch event."""
        return {"type": str(self.type), "object": self.document}


class Journal:
    """Records snapshots of changed documents and replays them from a revision on."""

    def __init__(self, revisions: Revisions) -> None:
        self._revisions = revisions
        self._changes: deque[Change] = deque(maxlen=HISTORY_LENGTH)
        self._forgotten_revision = 0
        self._pulse = Pulse()

    def record(self, change_type: ChangeType, document: JsonObject) -> None:
        """Gives the document a new `resourceVersion` and wakes the watchers."""
        revision = self._revisions.next()
        document["metadata"]["resourceVersion"] = str(revision)
        if len(self._changes) == HISTORY_LENGTH:
            self._forgotten_revision = self._changes[0].revision
        self._changes.append(Change(revision, change_type, copy.deepcopy(document)))
        self._pulse.fire()

    async def watch(
        self, since: int, wanted: Callable[[JsonObject], bool], timeout_seconds: float
    ) -> AsyncIterator[Change]:
        """Yields changes after `since` until the timeout; ApiError 410 once they are no longer held."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        while (remaining := deadline - asyncio.get_running_loop().time()) > 0:
            beat = self._pulse.beat()
            if since < self._forgotten_revision:
                raise ApiError(410, "Expired", f"too old resource version: {since} ({self._forgotten_revision})")
            for change in [change for change in self._changes if change.revision > since]:
                since = change.revision
                if wanted(change.document):
                    yield change
            if not beat.is_set():
                try:
                    await asyncio.wait_for(beat.wait(), remaining)
                except TimeoutError:
                    return
