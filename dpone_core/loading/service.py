"""Extraction to load: opens the stream, picks the coordinator of the planned path, takes its receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpone_core.errors import ETLConfigurationError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.legacy import LegacyLoadGovernanceCoordinator
from dpone_core.loading.payload import ExtractedPayload, LoadedPayload
from dpone_core.loading.pump import Pump
from dpone_core.loading.staged import LoadGovernanceFinalizationCoordinator
from dpone_core.loading.typed_rows import SideHashes
from dpone_core.model.vocabulary import LoadPath
from dpone_core.quality.execution import QualityGateExecution


class PayloadCoordinator(Protocol):
    """One load path. Its output is accepted by identity of the receipt it was issued."""

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLoadService:
    """Selects the coordinator and validates what it returns before any success evidence exists."""

    context: LoadContext

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload:
        execution.select_path(self.context.plan.load_path)
        loaded = self._coordinator().load(payload, execution)
        execution.accept_payload(loaded.receipt)
        execution.revalidate(self.context.config)
        return loaded

    def _coordinator(self) -> PayloadCoordinator:
        sink = self.context.sessions.sink
        match self.context.plan.load_path:
            case LoadPath.STAGED if sink.staged is not None:
                return LoadGovernanceFinalizationCoordinator(context=self.context, staged=sink.staged)
            case LoadPath.LEGACY if sink.legacy is not None:
                return LegacyLoadGovernanceCoordinator(context=self.context, legacy=sink.legacy)
        raise ETLConfigurationError(
            f"load path '{self.context.plan.load_path}' is not available", code="DPONE_ROUTE_REFUSED"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPayloadLoadService:
    """Starts reading and guarantees that the stream is closed whatever happens."""

    context: LoadContext
    loads: PayloadLoadService

    def load(self, extraction: Extraction, execution: QualityGateExecution) -> LoadedPayload:
        self.context.runtime.progress.phase("extract")
        stream = self.context.sessions.source.source.open_stream(extraction.request, extraction.schema)
        hashes = self._source_hashes(extraction, execution)
        try:
            pump = Pump(
                stream=stream,
                payload=extraction.target.payload,
                progress=self.context.runtime.progress,
                cancellation=self.context.runtime.cancellation,
                observe=hashes.update if hashes is not None else None,
                special_values=extraction.request.special_values,
            )
            return self.loads.load(ExtractedPayload(extraction=extraction, pump=pump, hashes=hashes), execution)
        finally:
            stream.close()
            if hashes is not None:
                hashes.close()

    def _source_hashes(self, extraction: Extraction, execution: QualityGateExecution) -> SideHashes | None:
        """In the types in which the sink reads rows back; None also for a sink that cannot, whose gates then fail."""
        sink = self.context.sessions.sink
        rows = sink.staged_rows or sink.legacy
        if rows is None:
            return None
        schema = rows.arrow_schema(extraction.target.payload)
        return SideHashes.of(execution.snapshot.gates, schema, self.context.plan.target.unique_key)
