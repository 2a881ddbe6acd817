"""Computes the typed hashes that the declared gates compare, for one side of one load.

The pump feeds the source side with the batches it hands to the sink; the target side gets the rows of this load as they
are read back. Without a typed-hash gate nothing is hashed. Contract: GATE-13, GATE-14.
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
    """One hash for each mode that a gate asks for, over the Arrow schema that both sides share.

    `close` frees the hashing engines.
    """

    schema: pa.Schema
    unique_key: tuple[str, ...]
    modes: frozenset[HashMode]
    hashes: dict[HashMode, TypedHash]

    @classmethod
    def of(cls, policy: QualityGatePolicy, schema: pa.Schema, unique_key: tuple[str, ...]) -> SideHashes | None:
        """Empty hashes for the gates of `policy`; None when no gate compares hashes.

        Without a unique key the sample hash stays missing, so a gate of mode `sample` does not pass.
        """
        modes = hash_modes(policy)
        return cls._empty(modes, schema, unique_key) if modes else None

    def other_side(self) -> SideHashes:
        """Empty hashes of the same modes and schema, for the other side of the comparison."""
        return self._empty(self.modes, self.schema, self.unique_key)

    def update(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch to every hash. Raises ConnectorError `typed_hash_value_refused`."""
        for typed in self.hashes.values():
            typed.update(batch)

    def snapshot(self, row_count: int) -> QualitySideSnapshot:
        """The hashes of all batches so far together with `row_count`; closes the hashing engines."""
        digests = {mode: typed.digest() for mode, typed in self.hashes.items()}
        self.close()
        return QualitySideSnapshot(
            row_count=row_count, full_hash=digests.get(HashMode.FULL), sample_hash=digests.get(HashMode.SAMPLE)
        )

    def snapshot_of(self, batches: Iterable[pa.RecordBatch], row_count: int) -> QualitySideSnapshot:
        """Hashes all of `batches` and returns the snapshot; closes the hashing engines also after a failure."""
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
    """The hash modes that the typed-hash gates of `policy` compare, whatever their severity."""
    return frozenset(gate.hash_mode for gate in policy.gates if gate.type is GateType.TYPED_HASH_RECONCILIATION)
