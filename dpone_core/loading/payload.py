"""The values passed between extraction and loading: an extracted payload in, a loaded payload out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dpone_core.loading.extraction import Extraction
from dpone_core.loading.pump import Pump
from dpone_core.loading.typed_rows import SideHashes
from dpone_core.model.outcome import LoadResult
from dpone_core.quality.receipt import QualityGateReceipt


class LoadInput(Protocol):
    """Anything that carries an Extraction: one stream of rows, or the partitions of a native transfer."""

    @property
    def extraction(self) -> Extraction: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPayload:
    """An open source stream and the pump that reads it; rows are read while the sink writes them.

    The pump feeds `hashes`, which is complete once the pump has ended; None when no gate compares hashes. `opened_at`
    is when the source was asked.
    """

    extraction: Extraction
    pump: Pump
    hashes: SideHashes | None
    opened_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPayload:
    """A committed load: its counters and the gate receipt that was issued for it."""

    result: LoadResult
    receipt: QualityGateReceipt
