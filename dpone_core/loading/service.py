"""Opens the source stream, runs the coordinator of the planned load path, and accepts its gate receipt."""

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
    """Loads a payload along one path. It must return the very receipt that the execution issued, not a copy."""

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLoadService:
    """Runs the coordinator of the planned path and accepts its receipt before any evidence of success is written."""

    context: LoadContext

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload:
        """Loads the payload along the planned path. Raises the first failure, also a policy that has changed."""
        execution.select_path(self.context.plan.load_path)
        loaded = self._choose_coordinator().load(payload, execution)
        execution.accept_payload(loaded.receipt)
        execution.revalidate(self.context.config)
        return loaded

    def _choose_coordinator(self) -> PayloadCoordinator:
        sink = self.context.sessions.sink
        match self.context.plan.load_path:
            case LoadPath.STAGED if sink.staged is not None:
                return LoadGovernanceFinalizationCoordinator(context=self.context, staged=sink.staged)
            case LoadPath.LEGACY if sink.legacy is not None:
                return LegacyLoadGovernanceCoordinator(context=self.context, legacy=sink.legacy)
        raise ETLConfigurationError(
            f"the plan uses load path '{self.context.plan.load_path}', which this sink does not implement",
            code="DPONE_ROUTE_REFUSED",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPayloadLoadService:
    """Opens the stream of an extraction, loads it, and closes the stream also after a failure."""

    context: LoadContext
    loads: PayloadLoadService

    def load(self, extraction: Extraction, execution: QualityGateExecution) -> LoadedPayload:
        """Reads and loads the extraction. Raises the first failure, of the source, the sink or a gate."""
        self.context.runtime.progress.phase("extract")
        opened_at = self.context.runtime.clock.utc_now()
        stream = self.context.sessions.source.source.open_stream(extraction.request, extraction.schema)
        hashes = self._start_source_hashes(extraction, execution)
        try:
            pump = Pump(
                stream=stream,
                payload=extraction.target.payload,
                progress=self.context.runtime.progress,
                cancellation=self.context.runtime.cancellation,
                observe=hashes.update if hashes is not None else None,
                special_values=extraction.request.special_values,
                now=self.context.runtime.clock.utc_now,
            )
            payload = ExtractedPayload(extraction=extraction, pump=pump, hashes=hashes, opened_at=opened_at)
            return self.loads.load(payload, execution)
        finally:
            stream.close()
            if hashes is not None:
                hashes.close()

    def _start_source_hashes(self, extraction: Extraction, execution: QualityGateExecution) -> SideHashes | None:
        """Hashes over the types in which the sink reads rows back.

        None when no gate compares hashes, and for a sink that cannot read rows back: its typed-hash gates then have
        no hash and fail.
        """
        sink = self.context.sessions.sink
        rows = sink.staged_rows or sink.legacy
        if rows is None:
            return None
        schema = rows.arrow_schema(extraction.target.payload)
        return SideHashes.of(execution.snapshot.gates, schema, self.context.plan.target.unique_key)
