"""Extraction to load: opens the stream, picks the coordinator of the planned path, takes its receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpone_core.errors import ETLConfigurationError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.payload import ExtractedPayload, PayloadLoad
from dpone_core.loading.pump import Pump
from dpone_core.loading.staged import LoadGovernanceFinalizationCoordinator
from dpone_core.model.vocabulary import LoadPath
from dpone_core.quality.execution import QualityGateExecution


class PayloadCoordinator(Protocol):
    """One load path. Its output is accepted by identity of the receipt it was issued."""

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> PayloadLoad: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLoadService:
    """Selects the coordinator and validates what it returns before any success evidence exists."""

    context: LoadContext

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> PayloadLoad:
        execution.select_path(self.context.plan.load_path)
        loaded = self._coordinator().load(payload, execution)
        execution.accept_payload(loaded.receipt)
        execution.revalidate(self.context.config)
        return loaded

    def _coordinator(self) -> PayloadCoordinator:
        if self.context.plan.load_path is LoadPath.STAGED:
            return LoadGovernanceFinalizationCoordinator(context=self.context)
        raise ETLConfigurationError(
            f"load path '{self.context.plan.load_path}' is not available", code="DPONE_ROUTE_REFUSED"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPayloadLoadService:
    """Starts reading and guarantees that the stream is closed whatever happens."""

    context: LoadContext
    loads: PayloadLoadService

    def load(self, extraction: Extraction, execution: QualityGateExecution) -> PayloadLoad:
        self.context.environment.progress.phase("extract")
        stream = self.context.sessions.source.source.open_stream(extraction.request, extraction.schema)
        try:
            pump = Pump(
                stream=stream,
                payload=extraction.target.payload,
                progress=self.context.environment.progress,
                cancellation=self.context.environment.cancellation,
            )
            return self.loads.load(ExtractedPayload(extraction=extraction, pump=pump), execution)
        finally:
            stream.close()
