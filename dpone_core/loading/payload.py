"""What extraction hands to loading, and what loading hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpone_core.loading.extraction import Extraction
from dpone_core.loading.pump import Pump
from dpone_core.loading.typed_rows import SideHashes
from dpone_core.model.outcome import LoadResult
from dpone_core.quality.receipt import QualityGateReceipt


class LoadInput(Protocol):
    """Whatever was extracted, in one stream or in many."""

    @property
    def extraction(self) -> Extraction: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPayload:
    """A live stream behind its pump; rows are read while the sink stages them.

    `hashes` is fed by the pump and complete once it ended; None when no gate compares hashes.
    """

    extraction: Extraction
    pump: Pump
    hashes: SideHashes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPayload:
    """A committed load and the receipt its coordinator owns."""

    result: LoadResult
    receipt: QualityGateReceipt
