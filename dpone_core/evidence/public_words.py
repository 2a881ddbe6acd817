"""The words that every report states in clear, whatever the secrets of a run are: kinds, enumerations, types, codes.

A password that is such a word is a word of the report too. Hiding it would garble the report and give the password away
by what is missing, so the redactor leaves these words alone (EVID-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Final

from dpone_core.error_catalogue import catalogue
from dpone_core.evidence.throughput import THROUGHPUT_SCHEMA
from dpone_core.model import (
    column_rules,
    connector,
    decision,
    file_reading,
    hook,
    load_config,
    partition,
    repetition,
    special_values,
    table_schema,
    vocabulary,
)
from dpone_core.model.load_config import LoadConfig

_MODULES: Final[tuple[ModuleType, ...]] = (
    column_rules,
    connector,
    decision,
    file_reading,
    hook,
    load_config,
    partition,
    repetition,
    special_values,
    table_schema,
    vocabulary,
)
_KINDS: Final = (
    "dpone.acceptance.metric_snapshot.v1",
    "dpone.acceptance.run_metrics.v1",
    "dpone.batch.v1",
    "dpone.cleanup.v1",
    "dpone.contract_gates.v1",
    "dpone.data_quality.gates.v1",
    "dpone.error.v1",
    "dpone.error_catalogue.v1",
    "dpone.files_target.v1",
    "dpone.flow.v1",
    "dpone.gitops.verify.v1",
    "dpone.hook_graph.v1",
    "dpone.hook_notification.v1",
    "dpone.hook_record.v1",
    "dpone.hooks.execute.v1",
    "dpone.load_record.v1",
    "dpone.native_transfer.quality_scope.v1",
    "dpone.native_transfer.run.v1",
    "dpone.native_transfer.runtime_report.v1",
    "dpone.native_transfer.target_commit_guard.v1",
    "dpone.pack.v1",
    "dpone.plan.v1",
    "dpone.plan_set.v1",
    "dpone.platform.v1",
    "dpone.run_evidence.v1",
    "dpone.run_set.v1",
    "dpone.run_spec.v1",
    "dpone.runtime.decision_audit.v1",
    THROUGHPUT_SCHEMA,
    "dpone.state_change.v1",
    "dpone.step_receipt.v1",
    "dpone.transfer_partition.v1",
    "dpone.transfer_plan.v1",
    "dpone.transfer_reconciliation.v1",
    "dpone.transfer_show.v1",
    "dpone.verdict.v1",
)
_OTHERS: Final = (
    # files and folders of evidence
    *("runs/markers", "run.json", "report.md", "report.html", "load.json", "native_transfer", "state_changes"),
    # steps of a load, their phases and kinds
    *("leftovers_found", "source_described", "columns_added", "staged", "lineage_projected", "quality_checked"),
    *("source_metrics_captured", "staged_metrics_captured", "target_metrics_captured", "finalized", "cleanup"),
    *("load_governance_failed", "load_governance", "target_preparation", "data_quality_evidence"),
    *(
        "source_export",
        "source_exported",
        "extract",
        "source_scan",
        "runtime_decision",
        "counter_over_wall_clock",
        "measured",
        "load_step",
    ),
    *decision.NOT_TAKEN,
    *decision.NOT_TAKEN.values(),
    # what became of a load and of its steps
    *("started", "staged", "committed", "failed", "running", "succeeded", "warning", "skipped"),
    # counters that a rate is made of
    *("loaded_rows", "inserted_rows", "staged_rows", "extracted_rows", "written_rows", "staging_rows", "final_rows"),
    *("row_count", "bytes", "byte_count", "extracted_bytes", "written_bytes"),
    # states of transfers, receipts and bundles
    *("checkpoint_committed", "checkpoint_incomplete", "failed_before_target", "cannot_say", "removed"),
    *(
        "issued",
        "payload_accepted",
        "state_accepted",
        "manifest",
        "hook_sql",
        "query_sql",
        "gate_sql",
        "data_contract",
        "flat",
    ),
    # counts of rules about columns and why one did not hold
    *("evaluated_rows", "failed_rows", "distinct_failed_keys", "newest_age_seconds"),
    *("not_executed", "rows_failed", "too_old", "no_rows"),
    # answers of gates, acceptance, transfers and plans
    *("success", "error", "unclear", "available", "unavailable", "native", "degraded_unpartitioned", "deterministic"),
    *("all_columns", "business_columns", "source_and_binary_semantics", "strict", "none", "inline", "receipts"),
)


@cache
def public_words() -> frozenset[str]:
    """All these words. A part of one of them is no secret either."""
    enumerations = (
        member
        for module in _MODULES
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, StrEnum)
    )
    words = {member.value for enumeration in enumerations for member in enumeration}
    return frozenset(words | {entry.code for entry in catalogue().entries} | set(_KINDS) | set(_OTHERS))


def names_in(config: LoadConfig) -> frozenset[str]:
    """The names by which a manifest calls its process, its tables and its connections."""
    source, sink = config.source, config.sink
    tables = tuple(table for table in (source.table, sink.table) if table is not None)
    names = (
        config.process,
        config.manifest,
        *(str(table) for table in tables),
        *(table.name for table in tables),
        *(table.schema for table in tables),
        *(source.connection_ref, sink.connection_ref, sink.staging_schema, sink.governance.state_schema),
        *(name for hook in config.hooks for name in (hook.id, hook.type, hook.connection_ref)),
    )
    return frozenset(name for name in names if name)


def texts_in(document: object) -> Iterator[str]:
    """All texts of a JSON-like document, its keys left out."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for item in document.values():
            yield from texts_in(item)
    elif isinstance(document, (list, tuple)):
        for item in document:
            yield from texts_in(item)
