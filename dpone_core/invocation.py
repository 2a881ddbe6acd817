"""Arguments plus one environment snapshot -> RunInvocation. CLI and Python API resolve through this alone.

Precedence: a non-empty explicit value, then the environment; "", none and null (any case) count as absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.identity import MAX_RUN_ID_CHARACTERS, RunId, safe_run_id

_ABSENT: Final = frozenset({"", "none", "null"})
_DIMENSION: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,126}[A-Za-z0-9])?")
_MAPPING_ITEM_LIMIT_BYTES: Final = 8 << 10
_MAPPING_ITEM_SCHEMA: Final = "dpone.airflow-mapping-item.v1"
_MAPPING_ITEM_FIELDS: Final = frozenset(
    {
        "schema",
        "mode",
        "mapping_plan_fingerprint",
        "backfill_plan_hash",
        "item_index",
        "first_chunk_index",
        "last_chunk_index",
        "chunks_count",
    }
)


class InvocationInvalidError(ETLConfigurationError):
    """An argument or environment value has no meaning; `code` names which."""

    code = "DPONE_INVOCATION_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """What a caller says explicitly; None and absent words fall back to the environment."""

    run_id: str | None = None
    dag_id: str | None = None
    execution_date: str | None = None
    interval_start: str | None = None
    interval_end: str | None = None
    repair_authority_ref: str | None = None
    transfer_plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContext:
    """`mode` is native or degraded_unpartitioned; key and dimension only under native."""

    mode: str
    dimension: str | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInvocation:
    """One identity for both entry points. Times are aware UTC. `generated_run_id` says the run id is ours.

    `transfer_plan` is the fingerprint of the plan whose ranges this process stages or publishes; others ignore it.
    `first_try` is the number of the first try since a person last cleared the task; None outside of a scheduler, and 0
    when the scheduler does not know it.
    """

    run_id: RunId
    generated_run_id: bool
    dag_id: str | None
    dag_run_id: str | None
    try_number: int
    map_index: int
    logical_date: datetime | None
    interval_start: datetime | None
    interval_end: datetime | None
    partition: PartitionContext | None
    mapping_item: Mapping[str, object] | None
    repair_authority_ref: str | None
    run_spec_fingerprint: str | None
    step_id: str | None
    token_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    transfer_plan: str | None = None
    first_try: int | None = None

    @property
    def earlier_tries(self) -> range | None:
        """The tries of the scheduler that this one repeats by itself; None outside of a scheduler."""
        if self.first_try is None:
            return None
        return range(self.first_try, self.try_number) if self.first_try > 0 else range(0)

    @property
    def names(self) -> tuple[str, ...]:
        """The ids by which evidence and receipts name this run; they are never secret."""
        ids = (self.run_id, self.dag_id, self.dag_run_id, self.step_id, safe_run_id(self.run_id))
        return tuple(name for name in ids if name is not None)

    def as_identity(self) -> dict[str, object]:
        """The comparable projection of the identity matrix test; safe to print."""
        return {
            "run_id": None if self.generated_run_id else self.run_id,
            "dag_id": self.dag_id,
            "dag_run_id": self.dag_run_id,
            "try_number": self.try_number,
            "map_index": self.map_index,
            "logical_date": _text(self.logical_date),
            "interval_start": _text(self.interval_start),
            "interval_end": _text(self.interval_end),
            "partition": None
            if self.partition is None
            else {"mode": self.partition.mode, "dimension": self.partition.dimension, "key": self.partition.key},
            "mapping_item": None if self.mapping_item is None else dict(self.mapping_item),
            "repair_authority_ref": self.repair_authority_ref,
        }


def resolve_invocation(arguments: RunArguments, env: Mapping[str, str], fresh_run_id: str) -> RunInvocation:
    """`fresh_run_id` is the last resort. Raises InvocationInvalidError; reads nothing but its arguments."""
    start = _instant(_first(arguments.interval_start, env, "DPONE_INTERVAL_START"), "DPONE_INTERVAL_START_INVALID")
    end = _instant(_first(arguments.interval_end, env, "DPONE_INTERVAL_END"), "DPONE_INTERVAL_END_INVALID")
    if start is not None and end is not None and end <= start:
        raise InvocationInvalidError(
            "the interval's end is not after its start", code="DPONE_INTERVAL_END_INVALID", fix="swap or widen it"
        )
    logical = _instant(_first(arguments.execution_date, env, "DPONE_LOGICAL_DATE"), "DPONE_LOGICAL_DATE_INVALID")
    dag_run_id = _present(env.get("DPONE_DAG_RUN_ID"))
    given_run_id = _present(arguments.run_id) or dag_run_id
    if given_run_id is not None and (len(given_run_id) > MAX_RUN_ID_CHARACTERS or not given_run_id.isprintable()):
        raise InvocationInvalidError(
            "a run id has at most 256 characters and no control characters", code="DPONE_RUN_ID_INVALID"
        )
    partition = _partition(env)
    return RunInvocation(
        run_id=RunId(given_run_id or fresh_run_id),
        generated_run_id=given_run_id is None,
        dag_id=_first(arguments.dag_id, env, "DPONE_DAG_ID"),
        dag_run_id=dag_run_id,
        try_number=_integer(env, "DPONE_TRY_NUMBER", default=1, least=0),
        map_index=_integer(env, "DPONE_MAP_INDEX", default=-1, least=-1),
        logical_date=logical or start,
        interval_start=start,
        interval_end=end,
        partition=partition,
        mapping_item=_mapping_item(env),
        repair_authority_ref=_authority(_first(arguments.repair_authority_ref, env, "DPONE_REPAIR_AUTHORITY_REF")),
        run_spec_fingerprint=_present(env.get("DPONE_RUN_SPEC_FINGERPRINT")),
        step_id=_present(env.get("DPONE_STEP_ID")),
        token_values=_tokens(given_run_id or fresh_run_id, logical or start, start, end, partition),
        transfer_plan=_transfer_plan(_first(arguments.transfer_plan, env, "DPONE_TRANSFER_PLAN")),
        first_try=_first_try(env),
    )


def _first_try(env: Mapping[str, str]) -> int | None:
    """A number below 1 comes of a task whose `retries` were changed between two tries: the first try is not known."""
    if _present(env.get("DPONE_FIRST_TRY")) is None:
        return None
    try:
        return max(0, int(env["DPONE_FIRST_TRY"]))
    except ValueError:
        raise InvocationInvalidError("DPONE_FIRST_TRY is not an integer", code="DPONE_FIRST_TRY_INVALID") from None


def _tokens(
    run_id: str,
    logical: datetime | None,
    start: datetime | None,
    end: datetime | None,
    partition: PartitionContext | None,
) -> dict[str, str]:
    values = {
        "run_id": run_id,
        "logical_date": _text(logical),
        "ds": logical.date().isoformat() if logical is not None else None,
        "data_interval_start": _text(start),
        "data_interval_end": _text(end),
        "partition_key": partition.key if partition is not None else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _present(value: str | None) -> str | None:
    return None if value is None or value.strip().lower() in _ABSENT else value.strip()


def _first(explicit: str | None, env: Mapping[str, str], name: str) -> str | None:
    return _present(explicit) or _present(env.get(name))


def _instant(text: str | None, code: str) -> datetime | None:
    """ISO 8601 date or date-time; a value without offset is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvocationInvalidError(
            "not an ISO 8601 date or time", code=code, fix="write 2026-01-31 or 2026-01-31T00:00:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _integer(env: Mapping[str, str], name: str, *, default: int, least: int) -> int:
    text = _present(env.get(name))
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise InvocationInvalidError(f"{name} is not an integer of at least {least}", code=f"{name}_INVALID")
    return number


def _authority(reference: str | None) -> str | None:
    if reference is not None and _AUTHORITY.fullmatch(reference) is None:
        raise InvocationInvalidError(
            "the repair authority reference has characters outside [A-Za-z0-9_.:-]",
            code="DPONE_REPAIR_AUTHORITY_REF_INVALID",
        )
    return reference


def _transfer_plan(fingerprint: str | None) -> str | None:
    if fingerprint is not None and not is_fingerprint(fingerprint):
        raise InvocationInvalidError(
            "a transfer plan is named by its fingerprint, sha256: and 64 digits", code="DPONE_TRANSFER_PLAN_INVALID"
        )
    return fingerprint


def _partition(env: Mapping[str, str]) -> PartitionContext | None:
    mode = _present(env.get("DPONE_PARTITION_MODE"))
    key = _present(env.get("DPONE_PARTITION_KEY"))
    dimension = _present(env.get("DPONE_PARTITION_DIMENSION"))
    if mode is None:
        if key is not None or dimension is not None:
            raise _partition_error("MODE_MISSING", "a partition key or dimension needs DPONE_PARTITION_MODE")
        return None
    if mode not in ("native", "degraded_unpartitioned"):
        raise _partition_error("MODE_INVALID", "DPONE_PARTITION_MODE is neither native nor degraded_unpartitioned")
    if mode == "degraded_unpartitioned":
        return PartitionContext(mode=mode, dimension=dimension, key=key)
    if dimension is None:
        raise _partition_error("DIMENSION_MISSING", "native partitions need DPONE_PARTITION_DIMENSION")
    if _DIMENSION.fullmatch(dimension) is None:
        raise _partition_error("DIMENSION_INVALID", "DPONE_PARTITION_DIMENSION is not an identifier")
    if key is None:
        raise _partition_error("KEY_MISSING", "native partitions need DPONE_PARTITION_KEY")
    if len(key) > 256:
        raise _partition_error("KEY_INVALID", "DPONE_PARTITION_KEY is longer than 256 characters")
    return PartitionContext(mode=mode, dimension=dimension, key=key)


def _partition_error(suffix: str, sentence: str) -> InvocationInvalidError:
    return InvocationInvalidError(sentence, code=f"DPONE_AIRFLOW_PARTITION_{suffix}")


def _mapping_item(env: Mapping[str, str]) -> Mapping[str, object] | None:
    text = _present(env.get("DPONE_AIRFLOW_MAPPING_ITEM"))
    if text is None:
        return None
    item: object = None
    if len(text.encode("utf-8")) <= _MAPPING_ITEM_LIMIT_BYTES:
        try:
            item = json.loads(text)
        except (ValueError, RecursionError):
            item = None
    known = isinstance(item, dict) and item.get("schema") == _MAPPING_ITEM_SCHEMA and set(item) <= _MAPPING_ITEM_FIELDS
    if not known or not isinstance(item, dict):
        raise InvocationInvalidError(
            f"DPONE_AIRFLOW_MAPPING_ITEM is not a {_MAPPING_ITEM_SCHEMA} object of at most 8 KiB",
            code="DPONE_AIRFLOW_MAPPING_ITEM_INVALID",
        )
    return item
