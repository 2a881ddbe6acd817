"""HookProvider: how one hook of one type is executed (HOOK-26).

A provider gets the definition and a small frozen context, acts, and answers with a few scalars. It never sees the load
itself: neither its sessions nor its rows. Third-party providers are untrusted: whatever they raise becomes the code
`hook_provider_failed`, and of their answer only what their traits declare reaches evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from dpone_core.errors import ETLExecutionError
from dpone_core.model.connection import Connection
from dpone_core.model.hook import HookDefinition, HookScalar, HookTraits, ScalarKind
from dpone_core.model.vocabulary import HookPhase, SourceState, TargetState

MAX_RESULTS: Final = 16
_RESULT_TEXT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_RESULT_INTEGER: Final = 1 << 53


class HookActionError(ETLExecutionError):
    """A hook did not do what it should; `values` are declared results that say more, a foreign error is `__cause__`."""

    code = "hook_provider_failed"

    def __init__(
        self, message: str, *, code: str | None = None, values: Mapping[str, HookScalar] | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.values: Mapping[str, HookScalar] = values or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome:
    """What a post-hook may tell others about the committed load: names and counters, no row, URL or message.

    Rows are rows of the attempt, `final_rows` those of the target after it; None = not known.
    """

    target: str
    strategy: str
    target_state: TargetState
    source_state: SourceState
    extracted_rows: int | None
    staged_rows: int | None
    inserted_rows: int | None
    updated_rows: int | None
    final_rows: int | None

    def as_json(self) -> dict[str, object]:
        return {
            "target": self.target,
            "strategy": self.strategy,
            "target_state": self.target_state.value,
            "source_state": self.source_state.value,
            "extracted_rows": self.extracted_rows,
            "staged_rows": self.staged_rows,
            "inserted_rows": self.inserted_rows,
            "updated_rows": self.updated_rows,
            "final_rows": self.final_rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """Whose hook it is. `load_id` is None outside a load, `outcome` None before the commit and outside a load.

    `connection` answers with the connection of the hook's `connection_ref`, resolved before the run began; its URI is
    secret. It raises HookActionError where the hook has none.
    """

    run_id: str
    load_id: str | None
    process: str
    phase: HookPhase
    token_values: Mapping[str, str] = field(repr=False)
    outcome: HookOutcome | None
    connection: Callable[[], Connection] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    """Scalars by the names that the provider's traits declare."""

    values: Mapping[str, HookScalar] = field(default_factory=dict)


class HookProvider(Protocol):
    @property
    def traits(self) -> HookTraits:
        """Constant: asked at check, without any connection."""
        ...

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Acts once and returns when it is done. Raises for anything but success; may be called from any process.

        `hook.options` hold declared names of declared types only.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HookActions:
    """Providers of types other than sql, by type, and the connections their hooks name; found before the run began."""

    providers: Mapping[str, HookProvider] = field(default_factory=dict)
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)

    def provider_of(self, hook: HookDefinition) -> HookProvider:
        """Raises HookActionError for a type that nobody provides here."""
        provider = self.providers.get(hook.type)
        if provider is None:
            raise HookActionError(f"nobody provides hooks of type '{hook.type}'", code="hook_provider_missing")
        return provider

    def connection_of(self, hook: HookDefinition) -> Callable[[], Connection]:
        """Answers when asked, so that a hook without connection fails only if its provider wants one."""

        def connection() -> Connection:
            found = self.connections.get(hook.connection_ref or "")
            if found is None:
                raise HookActionError("the hook has no connection", code="hook_connection_missing")
            return found

        return connection


def select_declared_results(result: HookResult, traits: HookTraits) -> dict[str, HookScalar]:
    """Declared names of declared types, bounded: short identifiers, integers up to 2**53, booleans. The rest is lost.

    A text with a space, a slash or a colon is not kept: it may be SQL, a path or a URL.
    """
    kept: dict[str, HookScalar] = {}
    for name, kind in list(traits.results.items())[:MAX_RESULTS]:
        value = result.values.get(name)
        if value is not None and kind.holds(value) and _is_bounded(value, kind):
            kept[name] = value
    return kept


def _is_bounded(value: HookScalar, kind: ScalarKind) -> bool:
    if kind is ScalarKind.TEXT:
        return _RESULT_TEXT.fullmatch(str(value)) is not None
    return kind is ScalarKind.BOOLEAN or abs(int(value)) <= _RESULT_INTEGER
