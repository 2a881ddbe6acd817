"""Finds the success of an earlier try of the same run, so that the run need not be done twice.

Only published evidence counts: run.json of the newest attempt of the run id, for the same plan, policy and invocation.
Fail closed: what is missing, unreadable, malformed or of another identity is no success, and the run is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.outcome import AcceptanceCounts, GateCounts, LoadOutcome
from dpone_core.evidence.publish import RUN_RECORD, PublishedEvidence, attempts_directory
from dpone_core.model.fingerprint import sha256_bytes
from dpone_core.model.identity import LoadId, LoadIdentity, RunId, is_load_id
from dpone_core.model.outcome import LoadResult
from dpone_core.model.vocabulary import CheckpointState, SourceState, StrategyMode, TargetState
from dpone_core.ports.runtime import EvidenceFiles

MAX_RECORD_BYTES: Final = 16 << 20
_TRY: Final = "try_number"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRun:
    """The run whose success is looked for.

    `sections` are the parts of run.json that must be equal, `invocation` among them, of which the number of the try is
    left out. `tries` are the tries of the scheduler whose success counts, None = any: a task that a person cleared is
    to load again, whatever tries before that did. `transfer_plan` is the fingerprint of the ranges that the run
    publishes, None for one that reads.
    """

    process: str
    run_id: RunId
    sections: Mapping[str, object]
    tries: range | None = None
    transfer_plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SucceededRun:
    """A success as run.json tells it: the facts for a receipt, the report as it was published, and where it stands."""

    outcome: LoadOutcome
    report: Mapping[str, object]
    evidence: PublishedEvidence


def outcome_section(outcome: LoadOutcome) -> dict[str, object]:
    """The facts that a receipt needs and the report of a success does not tell, as they stand in run.json."""
    return {
        "target_state": outcome.target_state.value,
        "checkpoint_state": outcome.checkpoint_state.value,
        "source_state": outcome.source_state.value,
        "gates": asdict(outcome.gate_counts),
        "acceptance": asdict(outcome.acceptance),
        "transfer_plan": outcome.transfer_plan,
        "partitions": outcome.partitions,
    }


def find_succeeded_run(files: EvidenceFiles, wanted: WantedRun) -> SucceededRun | None:
    """The success of the newest attempt of that run; None when that attempt did not succeed or cannot be read."""
    directory = attempts_directory(wanted.process, wanted.run_id)
    try:
        attempts = sorted(filter(is_load_id, files.names(directory)))  # beside records of hooks; they sort by time
        path = f"{directory}/{attempts[-1]}/{RUN_RECORD}" if attempts else None
        content = None if path is None else files.read(path, MAX_RECORD_BYTES)
    except ETLExecutionError:
        return None
    if path is None or content is None:
        return None
    try:
        document = json.loads(content)
        if not _is_wanted(document, wanted):
            return None
        evidence = PublishedEvidence(path=path, sha256=sha256_bytes(content))
        return SucceededRun(
            outcome=_outcome_of(document, wanted.run_id),
            report=_repeated(document["report"], evidence),
            evidence=evidence,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_wanted(document: Mapping[str, object], wanted: WantedRun) -> bool:
    """Whether the record is of that run and says, without contradiction, that it succeeded."""
    view = JsonView(document)
    sections = json.loads(json.dumps(wanted.sections))
    same = all(_without_try(document[name]) == _without_try(value) for name, value in sections.items())
    report = view.at("report")
    succeeded = report.at("passed").value is True and report.text("result", "status") == "success"
    number = view.count("invocation", _TRY)
    counts = wanted.tries is None or (number is not None and number in wanted.tries)
    planned = view.text("outcome", "transfer_plan") == wanted.transfer_plan
    return same and succeeded and not report.texts("result", "errors") and counts and planned


def _without_try(section: object) -> object:
    return {name: value for name, value in section.items() if name != _TRY} if isinstance(section, dict) else section


def _outcome_of(document: Mapping[str, object], run_id: RunId) -> LoadOutcome:
    """Raises ValueError or KeyError for a record that lacks a fact."""
    view = JsonView(document)
    facts, result, report = view.at("outcome"), view.at("report", "result"), view.at("report")
    details = result.at("details")
    strategy = details.text("strategy")
    return LoadOutcome(
        identity=LoadIdentity(
            run_id=run_id, load_id=LoadId(_text(view, "load_id")), attempt=_count(report, "attempts")
        ),
        result=LoadResult(
            inserted_rows=result.count("inserted_rows"),
            updated_rows=result.count("updated_rows"),
            final_rows=result.count("final_rows"),
            extracted_rows=result.count("extracted_rows"),
            staged_rows=details.count("reconciliation_metrics", "staged_rows"),
        ),
        target_state=TargetState(_text(facts, "target_state")),
        checkpoint_state=CheckpointState(_text(facts, "checkpoint_state")),
        source_state=SourceState(_text(facts, "source_state")),
        started_at=datetime.fromisoformat(_text(details, "started_at")),
        finished_at=datetime.fromisoformat(_text(details, "finished_at")),
        quality_gates=dict(details.pairs("reconciliation_metrics", "quality_gates")) or None,
        window=dict(details.pairs("window")) or None,
        warnings=details.texts("warnings"),
        gate_counts=GateCounts(
            **{name: _count(facts, "gates", name) for name in ("passed", "failed", "warned", "skipped")}
        ),
        acceptance=AcceptanceCounts(
            required=facts.at("acceptance", "required").value is True,
            sides=_count(facts, "acceptance", "sides"),
            warnings=_count(facts, "acceptance", "warnings"),
        ),
        strategy=None if strategy is None else StrategyMode(strategy),
        transfer_plan=facts.text("transfer_plan"),
        partitions=facts.count("partitions"),
    )


def _repeated(report: Mapping[str, object], evidence: PublishedEvidence) -> dict[str, object]:
    """The report of the success; its details say that it is told again and where the evidence stands."""
    told = json.loads(json.dumps(report))
    told["result"]["details"]["done_before"] = {
        "evidence_path": evidence.path,
        "evidence_sha256": evidence.sha256,
    }
    return dict(told)


def _text(view: JsonView, *keys: str) -> str:
    value = view.text(*keys)
    if value is None:
        raise ValueError(f"the record lacks {'.'.join(keys)}")
    return value


def _count(view: JsonView, *keys: str) -> int:
    value = view.count(*keys)
    if value is None:
        raise ValueError(f"the record lacks {'.'.join(keys)}")
    return value
