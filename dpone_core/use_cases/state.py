"""`state show` and `state set`: the saved cursor of a process, and its replacement with a reason on record."""

from __future__ import annotations

from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.loading.extraction import build_source_request
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.vocabulary import StateType
from dpone_core.planning.cursor_value import is_cursor_value
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.state import SavedCursor
from dpone_core.state.cursor import CursorStore, state_key
from dpone_core.state.intents import IntentStore
from dpone_core.use_cases.operation import Operation, require_reason
from dpone_core.wiring.connectors import open_source

STATE_CHANGE_KIND: Final = "dpone.state_change.v1"
RECORDS: Final = "state_changes"


def show_state(operation: Operation) -> dict[str, object]:
    """Returns the saved cursor, null where none was ever saved, and what a load of unknown outcome would have saved."""
    identity = operation.make_identity()
    with operation.lease_sink(identity) as sink:
        return _state_document(operation, sink, "show")


def set_state(operation: Operation, value: str, reason: str) -> dict[str, object]:
    """Replaces the cursor value. The evidence record is durable before the value changes, and says so after."""
    require_reason(reason)
    operation.require_record(RECORDS)
    _require_cursor_value(operation, value)
    identity = operation.make_identity()
    with operation.lease_sink(identity, lambda _: frozenset()) as sink:
        cursors = _cursor_store(operation, sink)
        before = cursors.read(operation.config)
        _record_change(operation, identity, before, value, reason, "requested")
        cursors.advance(operation.config, identity, before, value, operation.runtime.clock.utc_now())
        _record_change(operation, identity, before, value, reason, "applied")
        return _state_document(operation, sink, "set")


def _require_cursor_value(operation: Operation, value: str) -> None:
    """Asks the source what its cursor column is; a value that can never be compared with it is refused."""
    config = operation.config
    incremental = config.source.incremental
    if incremental is None:
        raise ETLConfigurationError("this process has no cursor", code="DPONE_STATE_NOT_KEPT")
    with open_source(config.source.type, operation.resolver.source_of(config)) as source:
        schema = source.source.describe(build_source_request(config, operation.invocation.token_values))
    column = schema.find(incremental.cursor_column)
    if column is None or not is_cursor_value(value, column.type.kind):
        expected = column.type if column is not None else "a column of the source"
        raise ETLConfigurationError(
            f"the value does not fit cursor column '{incremental.cursor_column}', which is {expected}",
            code="DPONE_STATE_VALUE_INVALID",
            fix="write integers as digits, dates and times in ISO 8601",
        )


def _cursor_store(operation: Operation, sink: SinkPorts) -> CursorStore:
    if operation.config.state is not StateType.SINK or sink.control is None:
        raise ETLConfigurationError(
            "this process keeps no cursor in its sink", code="DPONE_STATE_NOT_KEPT", fix="set state: {type: sink}"
        )
    return CursorStore(control=sink.control, schema=operation.config.sink.governance.state_schema)


def _state_document(operation: Operation, sink: SinkPorts, done: str) -> dict[str, object]:
    cursors = _cursor_store(operation, sink)
    saved = cursors.read(operation.config)
    pending = IntentStore(control=cursors.control, schema=cursors.schema).read(operation.config)
    if pending is not None and pending.is_settled_by(saved):
        pending = None
    return {
        "operation": done,
        "backend": operation.plan.target.type.value,
        "state_type": operation.config.state.value,
        "identity": state_key(operation.config),
        "process": operation.plan.process,
        "status": "absent" if saved is None else "present",
        "cursor_column": None if saved is None else saved.column,
        "cursor_value": None if saved is None else saved.value,
        "load_id": None if saved is None else saved.load_id,
        "pending_run_id": None if pending is None else pending.identity.run_id,
        "pending_load_id": None if pending is None else pending.identity.load_id,
        "pending_cursor_value": None if pending is None else pending.cursor_value,
    }


def _record_change(
    operation: Operation, identity: LoadIdentity, before: SavedCursor | None, value: str, reason: str, status: str
) -> None:
    document = {
        "kind": STATE_CHANGE_KIND,
        "process": operation.plan.process,
        "state_key": state_key(operation.config),
        "run_id": identity.run_id,
        "change_id": identity.load_id,
        "before": None if before is None else before.value,
        "after": value,
        "reason": operation.resolver.redactor.text(reason),
        "status": status,
    }
    operation.publish_record(RECORDS, identity, document)
