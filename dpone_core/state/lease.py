"""Stores the lease of a target in the sink's control table `__dpone__leases`: at most one load at a time.

The row is the fence of a commit where the sink has transactions: the one that publishes locks and compares it. In other
sinks a load that takes over a lease takes from earlier loads what they publish from (RevocationPort). A lease is short
and renewed while its load runs (`loading.lease_renewal`), so that a dead load does not hold its target for long. Expiry
is compared with the clock of the machine that reads it: clocks that differ cost a refused load, no second publication.
Columns: lease_key (sha256 of sink type and table), owner (load id), run_id, expires_at, updated_at.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dpone_core.errors import LoadInProgressError
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.control import (
    ControlColumn,
    ControlColumnKind,
    ControlRow,
    ControlRowBusyError,
    ControlTable,
    ControlTables,
    HeldRow,
)
from dpone_core.ports.state import Lease
from dpone_core.state.control_reads import read_control_rows

LEASE_DURATION: Final = timedelta(minutes=5)
_VERSION: Final = "updated_at"


def lease_key(config: LoadConfig) -> str:
    """Fingerprint of sink type and target table."""
    return fingerprint({"sink": config.sink.type, "table": str(config.sink.table)})


def lease_table(schema: str) -> ControlTable:
    """One row per leased target, in `schema`."""
    text = ControlColumnKind.TEXT
    time = ControlColumnKind.TIMESTAMP
    return ControlTable(
        schema=schema,
        name="__dpone__leases",
        columns=(
            ControlColumn(name="lease_key", kind=text, nullable=False),
            ControlColumn(name="owner", kind=text, nullable=False),
            ControlColumn(name="run_id", kind=text, nullable=False),
            ControlColumn(name="expires_at", kind=time, nullable=False),
            ControlColumn(name=_VERSION, kind=time, nullable=False),
        ),
        key=("lease_key",),
        version_column=_VERSION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStore:
    """TargetLease over the control tables of one sink.

    `exclusive_process`: an embedded engine lets in one process only, so a lease of another owner is that of a dead one.
    """

    control: ControlTables
    schema: str
    exclusive_process: bool

    def acquire(self, config: LoadConfig, identity: LoadIdentity, now: datetime) -> Lease:
        """Takes the lease for five minutes from `now`.

        Raises LoadInProgressError with the holder's load id and expiry.
        """
        table = lease_table(self.schema)
        self.control.ensure(table)
        key = lease_key(config)
        stored = self._read(key)
        if stored is not None and self._is_live(stored, now):
            raise LoadInProgressError(
                f"load {stored['owner']} holds the lease of this target until {stored['expires_at']}",
                fix="wait until that load has ended or its lease has expired, then run again",
            )
        row: dict[str, str | int | datetime | None] = {
            "lease_key": key,
            "owner": identity.load_id,
            "run_id": identity.run_id,
            "expires_at": now + LEASE_DURATION,
            _VERSION: now,
        }
        expected = None if stored is None else {"owner": stored["owner"], "expires_at": stored["expires_at"]}
        if not self._replace(table, {"lease_key": key}, expected, row):
            raise LoadInProgressError(
                "another load acquired the lease of this target at the same time, or is publishing under it",
                fix="wait for it, then run again",
            )
        held = HeldRow(table=table, key={"lease_key": key}, values={"owner": identity.load_id})
        return Lease(key=key, owner=identity.load_id, row=held, taken_over=stored is not None)

    def renew(self, lease: Lease, now: datetime) -> bool:
        """Extends the lease to five minutes from `now`. Returns False, and writes nothing, when another load has it."""
        return self._prolong(lease, now, LEASE_DURATION)

    def release(self, lease: Lease) -> None:
        """Gives the lease up; does nothing when another load has it."""
        self.control.compare_and_set(lease_table(self.schema), {"lease_key": lease.key}, {"owner": lease.owner}, None)

    def abandon(self, lease: Lease, now: datetime) -> None:
        """Lets the lease expire at `now`, so that its next owner takes it over; nothing when another load has it."""
        self._prolong(lease, now, timedelta(0))

    def _prolong(self, lease: Lease, now: datetime, duration: timedelta) -> bool:
        stored = self._read(lease.key)
        if stored is None:
            return False
        row: ControlRow = {**stored, "expires_at": now + duration, _VERSION: now}
        return self.control.compare_and_set(
            lease_table(self.schema), {"lease_key": lease.key}, {"owner": lease.owner}, row
        )

    def _replace(self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow) -> bool:
        """False also while the transaction that publishes under the lease holds its row."""
        try:
            return self.control.compare_and_set(table, key, expected, new)
        except ControlRowBusyError:
            return False

    def _read(self, key: str) -> ControlRow | None:
        rows = read_control_rows(self.control, lease_table(self.schema), {"lease_key": key})
        return rows[0] if rows else None

    def _is_live(self, row: ControlRow, now: datetime) -> bool:
        expires_at = row["expires_at"]
        return not self.exclusive_process and isinstance(expires_at, datetime) and expires_at > now
