"""The typed hashes that declared gates ask for, of one side of one load.

The source side is fed by the pump with the batches that flow to the sink, the target side with the rows of this load
as they are read back. Without a typed hash gate nothing is hashed. Source: design "Quality".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from dpone_core.loading.typed_hash import TypedHash
from dpone_core.model.vocabulary import GateType, HashMode
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.policy import QualityGatePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SideHashes:
    """One hash per asked mode over one Arrow schema, the same for both sides. `close` frees the hashing engines."""

    schema: pa.Schema
    unique_key: tuple[str, ...]
    modes: frozenset[HashMode]
    hashes: dict[HashMode, TypedHash]

    @classmethod
    def of(cls, policy: QualityGatePolicy, schema: pa.Schema, unique_key: tuple[str, ...]) -> SideHashes | None:
        """None when no gate compares hashes. A sample without a key is not taken: its hash stays missing."""
        modes = hash_modes(policy)
        return cls._empty(modes, schema, unique_key) if modes else None

    def other_side(self) -> SideHashes:
        return self._empty(self.modes, self.schema, self.unique_key)

    def update(self, batch: pa.RecordBatch) -> None:
        for typed in self.hashes.values():
            typed.update(batch)

    def snapshot(self, row_count: int) -> QualitySideSnapshot:
        """`row_count` with the hashes of everything seen so far; closes."""
        digests = {mode: typed.digest() for mode, typed in self.hashes.items()}
        self.close()
        return QualitySideSnapshot(
            row_count=row_count, full_hash=digests.get(HashMode.FULL), sample_hash=digests.get(HashMode.SAMPLE)
        )

    def snapshot_of(self, batches: Iterable[pa.RecordBatch], row_count: int) -> QualitySideSnapshot:
        try:
            for batch in batches:
                self.update(batch)
            return self.snapshot(row_count)
        finally:
            self.close()

    def close(self) -> None:
        for typed in self.hashes.values():
            typed.close()

    @classmethod
    def _empty(cls, modes: frozenset[HashMode], schema: pa.Schema, unique_key: tuple[str, ...]) -> SideHashes:
        hashes = {}
        if HashMode.FULL in modes:
            hashes[HashMode.FULL] = TypedHash(schema)
        if HashMode.SAMPLE in modes and unique_key:
            hashes[HashMode.SAMPLE] = TypedHash(schema, sample_key=unique_key)
        return cls(schema=schema, unique_key=unique_key, modes=modes, hashes=hashes)


def hash_modes(policy: QualityGatePolicy) -> frozenset[HashMode]:
    """Modes of the policy's typed hash gates, whatever their severity."""
    return frozenset(gate.hash_mode for gate in policy.gates if gate.type is GateType.TYPED_HASH_RECONCILIATION)
