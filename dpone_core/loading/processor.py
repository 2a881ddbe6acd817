"""ETLProcessor: the steps of one attempt, from the audit row to the post-hooks, in the order of LIFE-01.

It evaluates no gate itself: the coordinator of the load path does. Source state advances only with the receipt that the
QualityGateExecution of this attempt issued.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.evidence.audit import LoadStatus, StepOutcome
from dpone_core.evidence.publish import publish_load_record
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction, prepare_extraction, refuse_misfit_rules
from dpone_core.loading.hooks import HookRunner, hook_outcome
from dpone_core.loading.in_doubt import read_settled_cursor, rearm_commit, revoke_earlier_loads
from dpone_core.loading.native.conflicts import find_own_staging, refuse_open_transfers
from dpone_core.loading.native.service import NativeLoad, NativeTransferService
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.service import ExtractedPayloadLoadService, PayloadLoadService
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.hook import HookDefinition
from dpone_core.model.outcome import LoadResult
from dpone_core.model.special_values import unknown_counts
from dpone_core.model.vocabulary import SourceState, StateType
from dpone_core.planning.planner import VISIBLE_ROWS
from dpone_core.ports.hooks import HookOutcome
from dpone_core.ports.state import CursorStateMovedError, SavedCursor
from dpone_core.quality.execution import QualityGateExecution


@dataclass(frozen=True, slots=True, kw_only=True)
class ETLProcessor:
    """Processes one attempt. Raises the first failure; `context.commit_state` then says what became of the target."""

    context: LoadContext

    def process(self) -> LoadedPayload:
        """Runs all steps of the attempt and returns the committed load, after its post-hooks succeeded."""
        context = self.context
        execution = QualityGateExecution(context.request.snapshot, context.identity)
        self._start_audit()
        revoke_earlier_loads(context, find_own_staging(context))
        self._report_leftovers()
        saved = read_settled_cursor(context)
        if context.plan.source.partitioning is None:
            refuse_open_transfers(context)
        self._run_hooks(context.plan.pre_hooks)
        context.runtime.cancellation.checkpoint()
        extraction = self._extract(saved)
        native: NativeLoad | None = None
        if context.plan.source.partitioning is not None:
            service = NativeTransferService(context=context, partitioning=context.plan.source.partitioning)
            native = service.load(extraction, execution)
            extraction, loaded = native.extraction, native.loaded
        else:
            services = ExtractedPayloadLoadService(context=context, loads=PayloadLoadService(context=context))
            loaded = services.load(extraction, execution)
        self._publish_success(execution, loaded)
        execution.revalidate(context.config)
        execution.accept_state(loaded.receipt)
        self._advance_state(saved, extraction)
        if native is not None:
            native.complete(context)
        context.commit_shield.close()
        context.runtime.cancellation.checkpoint()
        self._run_hooks(context.plan.post_hooks, hook_outcome(context))
        return loaded

    def _start_audit(self) -> None:
        """Writes the `started` audit row before anything is mutated, also before pre-hooks."""
        context, plan = self.context, self.context.plan
        context.step_log.record_start(context.config.source.table)
        if plan.source.visible_rows:
            context.step_log.warnings.append(VISIBLE_ROWS)
        if context.config.sink.governance.persist_decisions:
            for decision in plan.decisions:
                context.step_log.record_decision(decision)

    def _report_leftovers(self) -> None:
        plan, record = self.context.plan, self.context.step_log
        leftovers = self.context.sessions.sink.target.leftovers(plan.target.table, plan.target.staging_schema)
        own = find_own_staging(self.context)
        names = [str(leftover.table) for leftover in leftovers if leftover.table.name not in own]
        if names:
            details: dict[str, object] = {"leftovers": names}
            record.note("leftovers_found", GOVERNANCE_PHASE, GOVERNANCE_KIND, StepOutcome.WARNING, details)
            record.warnings.append(f"leftovers of an earlier load: {', '.join(names)}")

    def _run_hooks(self, hooks: tuple[HookDefinition, ...], outcome: HookOutcome | None = None) -> None:
        if hooks:
            self.context.runtime.progress.phase(hooks[0].phase.value)
        HookRunner(context=self.context, outcome=outcome).run(hooks)

    def _extract(self, saved: SavedCursor | None) -> Extraction:
        context = self.context
        with context.step_log.step("source_described", "extract", "source_scan") as step:
            extraction = prepare_extraction(
                context.config,
                context.plan,
                context.sessions.source,
                context.sessions.sink,
                saved,
                context.request.token_values,
            )
            refuse_misfit_rules(context.request.snapshot.gates, extraction.target.payload)
            step.details |= {
                "columns": len(extraction.schema.columns),
                "target_absent": extraction.target.created,
                "added_columns": list(extraction.target.added.names),
                **({"source_rows": "visible"} if context.plan.source.visible_rows else {}),
            }
        context.commit_state.window = extraction.read_window
        context.commit_state.result = LoadResult(converted_values=unknown_counts(extraction.request.special_values))
        return extraction

    def _publish_success(self, execution: QualityGateExecution, loaded: LoadedPayload) -> None:
        """Makes the committed load durable before source state may advance: the audit row first, then `load.json`."""
        context = self.context
        context.step_log.record_load_status(
            LoadStatus.COMMITTED,
            inserted_rows=loaded.result.inserted_rows,
            updated_rows=loaded.result.updated_rows,
            loaded_rows=loaded.result.loaded_rows,
        )
        publish_load_record(
            context.runtime.evidence, context.plan, context.identity, loaded.result, execution.evidence()
        )

    def _advance_state(self, saved: SavedCursor | None, extraction: Extraction) -> None:
        context = self.context
        cursor = context.sessions.cursor
        if cursor is None or context.config.state is StateType.DISABLED:
            context.commit_state.source_state = SourceState.NOT_APPLICABLE
            return
        context.commit_state.source_state = SourceState.UNKNOWN
        now = context.runtime.clock.utc_now()
        try:
            cursor.advance(context.config, context.identity, saved, extraction.next_cursor, now)
        except CursorStateMovedError:
            context.commit_state.source_state = SourceState.NOT_ADVANCED
            rearm_commit(context, extraction)
            raise
        context.commit_state.source_state = SourceState.ADVANCED
