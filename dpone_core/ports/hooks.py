"""HookProvider: executes one hook of one type (HOOK-26).

A provider gets the hook's definition and a small frozen context, acts, and answers with a few scalars. It has no access
to the load: neither to its sessions nor to its rows. Third-party providers are untrusted. Any exception they raise
becomes the code `hook_provider_failed`, and only results that their traits declare reach evidence.
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
    """A hook failed. `values` are declared results that explain it; the exception of another library is its
    `__cause__`."""

    code = "hook_provider_failed"

    def __init__(
        self, message: str, *, code: str | None = None, values: Mapping[str, HookScalar] | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.values: Mapping[str, HookScalar] = values or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome:
    """What a post-hook may report about the committed load: names and counters, never a row, URL or message. Rows are
    rows of the attempt; `final_rows` are the rows of the target after it; None means not known."""

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
    """The run and load that the hook belongs to. `load_id` is None outside a load, `outcome` None before the commit and
    outside a load. `connection()` returns the connection of the hook's `connection_ref`, resolved before the run began;
    its URI is secret. It raises HookActionError when the hook has none."""

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
        """The provider's constant traits; called by `check` without any connection."""
        ...

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Executes the hook once and returns when it is done. Raises unless it succeeded. Any process may call it.
        `hook.options` holds declared names of declared types only."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HookActions:
    """The providers of every hook type except sql, by type, and the connections that hooks name; both are resolved
    before the run begins."""

    providers: Mapping[str, HookProvider] = field(default_factory=dict)
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)

    def provider_of(self, hook: HookDefinition) -> HookProvider:
        """The provider of the hook's type. Raises HookActionError `hook_provider_missing` when no provider is installed
        for it."""
        provider = self.providers.get(hook.type)
        if provider is None:
            raise HookActionError(f"nobody provides hooks of type '{hook.type}'", code="hook_provider_missing")
        return provider

    def connection_of(self, hook: HookDefinition) -> Callable[[], Connection]:
        """A function that returns the hook's connection. A hook without one fails only when its provider calls it."""

        def connection() -> Connection:
            found = self.connections.get(hook.connection_ref or "")
            if found is None:
                raise HookActionError("the hook has no connection", code="hook_connection_missing")
            return found

        return connection


def select_declared_results(result: HookResult, traits: HookTraits) -> dict[str, HookScalar]:
    """The results that the traits declare, with the declared types and within bounds: short identifiers, integers up to
    2**53, booleans. Everything else is dropped; so is a text with a space, slash or colon, which may be SQL, a path or
    a URL."""
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
