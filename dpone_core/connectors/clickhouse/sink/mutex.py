"""A critical section between processes that share a ClickHouse server, which has no row locks and no transactions.

A process creates a claim: a table of a hashed name with a token of its own. Then it lists the claims. If its claim is
the only one, it is inside; otherwise it drops the claim and tries again. Of two processes that enter at the same time,
the later one sees the earlier claim, so never both are inside. Both may drop their claims; random waits resolve that. A
claim older than the expiry belongs to a dead process: it is ignored, and dropped by its own name, which no other
process uses. This is no fence: a process that sleeps inside for longer than the expiry continues next to its successor.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from dpone_core.connectors.clickhouse.ddl import Ddl, qualify
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.model.load_config import TableName
from dpone_core.ports.control import ControlRowBusyError

EXPIRY_SECONDS: Final = 60
WAIT_SECONDS: Final = 75
"""Longer than the expiry: a claim that a dead process left behind is survived, not reported."""
_PAUSE_SECONDS: Final = (0.02, 0.2)


class ServerMutex:
    """Critical sections on one server; ages are by the server's clock."""

    def __init__(
        self, session: Session, *, expiry_seconds: float = EXPIRY_SECONDS, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._session = session
        self._expiry_seconds = expiry_seconds
        self._wait_seconds = wait_seconds

    @contextmanager
    def enter(self, schema: str, subject: str) -> Iterator[None]:
        """Enters the section of `subject`. Raises ControlRowBusyError after the wait."""
        prefix = f"__dpone__mutex_{hashlib.sha256(subject.encode()).hexdigest()[:32]}_"
        claim = TableName(schema=schema, name=prefix + uuid4().hex[:16])
        deadline = time.monotonic() + self._wait_seconds
        while not self._try_enter(claim, prefix):
            if time.monotonic() >= deadline:
                raise ControlRowBusyError(f"other processes were changing it for {self._wait_seconds:g} s")
            time.sleep(random.uniform(*_PAUSE_SECONDS))
        try:
            yield
        finally:
            self._drop(claim)

    def _try_enter(self, claim: TableName, prefix: str) -> bool:
        if any(age < self._expiry_seconds for age in self._claims(claim, prefix).values()):
            return False
        entered = False
        try:
            self._session.command(
                f"CREATE TABLE {qualify(claim)} (taken UInt8) ENGINE = Null",
                code="control_table_refused",
                message="ClickHouse refused to create a table of the control schema",
            )
            claims = self._claims(claim, prefix)
            fresh = {name for name, age in claims.items() if age < self._expiry_seconds}
            entered = fresh == {claim.name}
        finally:
            if not entered:
                self._drop(claim)
        for name in claims.keys() - fresh:
            self._drop(TableName(schema=claim.schema, name=name))
        return entered

    def _claims(self, claim: TableName, prefix: str) -> dict[str, int]:
        """The claims of the section: name and age in seconds."""
        rows = self._session.rows(
            "SELECT name, dateDiff('second', metadata_modification_time, now()) FROM system.tables"
            " WHERE database = {database:String} AND startsWith(name, {prefix:String})",
            {"database": claim.schema or "", "prefix": prefix},
        )
        return {str(name): int(age) for name, age in rows}

    def _drop(self, claim: TableName) -> None:
        """Drops a claim. A failure is ignored: the claim expires, and the work inside is done."""
        self._session.attempt(Ddl(None).drop(claim))
