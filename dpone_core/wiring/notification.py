"""The document that markers and webhooks send: what happened to a hook's load, without rows, SQL text or secrets."""

from __future__ import annotations

import json
from typing import Final

from dpone_core.evidence.redaction import Redactor
from dpone_core.model.hook import HookDefinition
from dpone_core.ports.hooks import HookContext

NOTIFICATION_SCHEMA: Final = "dpone.hook_notification.v1"


def render_notification(hook: HookDefinition, context: HookContext, redactor: Redactor) -> bytes:
    """Names, ids and counters as redacted JSON; `outcome` is null before the commit and for a hook executed by hand."""
    document = {
        "schema": NOTIFICATION_SCHEMA,
        "process": context.process,
        "run_id": context.run_id,
        "load_id": context.load_id,
        "phase": hook.phase.value,
        "hook_id": hook.id,
        "outcome": None if context.outcome is None else context.outcome.as_json(),
    }
    return (json.dumps(redactor.value(document), ensure_ascii=True, indent=2) + "\n").encode("ascii")
