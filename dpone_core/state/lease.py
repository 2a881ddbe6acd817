"""The lease of a target: at most one load at a time, by owner and expiry. Not a fence (S0 non-goal).

Short and renewed while its owner lives (`loading.lease_renewal`), so that a dead owner does not hold a target for long.
Expiry is compared with the clock of the machine that looks: clocks must agree better than a lease lasts.
Record of `__dpone__leases`: lease_key (sha256 of sink type and table), owner (load id), run_id, expires_at.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dpone_core.errors import LoadInProgressError
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlTables
from dpone_core.ports.state import Lease

LEASE_DURATION: Final = timedelta(minutes=5)
_VERSION: Final = "updated_at"


def lease_key(config: LoadConfig) -> str:
    return fingerprint({"sink": config.sink.type, "table": str(config.sink.table)})


def lease_table(schema: str) -> ControlTable:
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
    """`exclusive_process` says that the engine lock already proves every other holder dead (embedded engines)."""

    control: ControlTables
    schema: str
    exclusive_process: bool

    def acquire(self, config: LoadConfig, identity: LoadIdentity, now: datetime) -> Lease:
        """Raises LoadInProgressError naming the holder's load id and expiry; nothing was mutated then."""
        table = lease_table(self.schema)
        self.control.ensure(table)
        key = lease_key(config)
        held = self._held(key)
        if held is not None and self._is_live(held, now):
            raise LoadInProgressError(
                f"load {held['owner']} holds the lease of this target until {held['expires_at']}",
                fix="wait for it, or for its expiry",
            )
        row: dict[str, str | int | datetime | None] = {
            "lease_key": key,
            "owner": identity.load_id,
            "run_id": identity.run_id,
            "expires_at": now + LEASE_DURATION,
            _VERSION: now,
        }
        expected = None if held is None else {"owner": held["owner"], "expires_at": held["expires_at"]}
        if not self.control.compare_and_set(table, {"lease_key": key}, expected, row):
            raise LoadInProgressError("another load took the lease of this target first", fix="retry later")
        return Lease(key=key, owner=identity.load_id)

    def renew(self, lease: Lease, now: datetime) -> bool:
        """Counts the lease's time from `now` on; False, nothing written, when it no longer is this owner's."""
        held = self._held(lease.key)
        if held is None:
            return False
        row: ControlRow = {**held, "expires_at": now + LEASE_DURATION, _VERSION: now}
        return self.control.compare_and_set(
            lease_table(self.schema), {"lease_key": lease.key}, {"owner": lease.owner}, row
        )

    def release(self, lease: Lease) -> None:
        self.control.compare_and_set(lease_table(self.schema), {"lease_key": lease.key}, {"owner": lease.owner}, None)

    def _held(self, key: str) -> ControlRow | None:
        rows = self.control.read(lease_table(self.schema), {"lease_key": key})
        return rows[0] if rows else None

    def _is_live(self, row: ControlRow, now: datetime) -> bool:
        expires_at = row["expires_at"]
        return not self.exclusive_process and isinstance(expires_at, datetime) and expires_at > now
