"""Hook type `change_ticket`: a load names the change ticket that allows it, and evidence keeps the name.

A small complete provider: it declares its options and results, acts on one hook, and raises when it cannot vouch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dpone_core.model.hook import HookDefinition, HookOption, HookTraits, ScalarKind
from dpone_core.ports.hooks import HookContext, HookResult

_TICKET: Final = re.compile(r"[A-Z]{2,8}-[0-9]{1,8}")


class NoTicketError(Exception):
    """The ticket is not of the form `CHG-1234`. dpone shows the code `hook_provider_failed` and never this text."""


TRAITS: Final = HookTraits(
    type="change_ticket",
    options=(
        HookOption(name="ticket", kind=ScalarKind.TEXT, required=True),
        HookOption(name="approvals", kind=ScalarKind.INTEGER, minimum=1, maximum=9),
    ),
    results={"ticket": ScalarKind.TEXT, "approvals": ScalarKind.INTEGER},
)


@dataclass(frozen=True, slots=True)
class ChangeTicketProvider:
    """Passes for a well-formed ticket; a real one would ask the ticket system at `context.connection().uri`."""

    traits: HookTraits = TRAITS

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Raises NoTicketError; repeating it changes nothing."""
        ticket = str(hook.options["ticket"])
        if _TICKET.fullmatch(ticket) is None:
            raise NoTicketError(f"{context.process}: no ticket in {ticket!r}")
        return HookResult(values={"ticket": ticket, "approvals": int(hook.options.get("approvals", 1))})
