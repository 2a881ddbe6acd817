"""Providers of hook types: the built-in marker and webhook, and third-party ones from entry points.

Entry points of group `dpone.hook_providers` are read only when a manifest asks for a type that is not built in; the
name of an entry point is the hook type, its value a class or function that makes a HookProvider without arguments.
The `sql` provider is `loading.hooks.SqlHookProvider`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dpone_core.authoring.hooks import NOTIFIERS, HookType
from dpone_core.authoring.rules import hook_findings, hook_path
from dpone_core.authoring.validate import closest, path_text
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.redaction import Redactor
from dpone_core.model.connection import Connection
from dpone_core.model.hook import HookDefinition, HookTraits
from dpone_core.model.identity import safe_run_id
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import HookKind, HookPhase
from dpone_core.planning.route import FieldPath, RouteRefusedError
from dpone_core.ports.hooks import HookActionError, HookActions, HookContext, HookProvider, HookResult
from dpone_core.ports.runtime import EvidenceFiles
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.notification import render_notification

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "dpone.hook_providers"
_BUILT_IN: Final = frozenset(HookType)
_MARKER_TRAITS = NOTIFIERS[0]


class HookTypeRefusedError(RouteRefusedError):
    """A hook's type, options or connection are not what any provider declares."""

    code = "DPONE_HOOK_TYPE_UNKNOWN"


class HookProviderInvalidError(ETLConfigurationError):
    """An installed package registers a provider that cannot be used; its own error stays in `__cause__`."""

    code = "DPONE_HOOK_PROVIDER_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedProvider:
    """A third-party provider. Whatever it raises, or returns instead of a HookResult, is a failed hook."""

    provider: HookProvider
    traits: HookTraits

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Raises HookActionError `hook_provider_failed`; interruptions of the run pass."""
        try:
            result: object = self.provider.execute(hook, context)
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            raise HookActionError("the provider failed") from error
        if not isinstance(result, HookResult):
            raise HookActionError("the provider did not answer with a HookResult")
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerHookProvider:
    """Writes `runs/<process>/<run>/markers/<phase>_<id>.json` below the evidence directory, durably."""

    files: EvidenceFiles
    redactor: Redactor
    traits: HookTraits = _MARKER_TRAITS

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Raises ETLExecutionError of the evidence files. Repeating it replaces the file."""
        content = render_notification(hook, context, self.redactor)
        name = f"{hook.phase.value}_{hook.id}.json"
        self.files.publish(f"runs/{context.process}/{safe_run_id(context.run_id)}/markers/{name}", content)
        return HookResult(values={"size_bytes": len(content)})


def find_third_party_providers(config: LoadConfig) -> dict[str, HookProvider]:
    """Returns the providers of hook types that are not built in; reads no entry point where there are none.

    Raises HookTypeRefusedError at the hook's field, or HookProviderInvalidError.
    """
    providers: dict[str, HookProvider] = {}
    for hook, path in _foreign_hooks(config):
        if hook.kind is not HookKind.CUSTOM or hook.sql is not None:
            raise HookTypeRefusedError("a provider's hook is of kind custom, without SQL", path=(*path, "kind"))
        if hook.type not in providers:
            providers[hook.type] = _find_provider(hook.type, path)
        for finding in hook_findings(hook.options, hook.connection_ref, providers[hook.type].traits, path):
            raise HookTypeRefusedError(finding.message, path=finding.path, code=finding.code, fix=finding.fix)
    return providers


def make_hook_actions(
    config: LoadConfig,
    foreign: Mapping[str, HookProvider],
    files: EvidenceFiles,
    connections: Mapping[str, Connection],
    redactor: Redactor,
) -> HookActions:
    """Collects what the hooks of a process need besides statements; `connections` are by reference."""
    providers: dict[str, HookProvider] = {
        HookType.MARKER.value: MarkerHookProvider(files=files, redactor=redactor),
        **foreign,
    }
    if any(hook.type == HookType.WEBHOOK for hook in config.hooks):
        from dpone_core.wiring.webhook import WebhookHookProvider

        providers[HookType.WEBHOOK.value] = WebhookHookProvider(redactor=redactor)
    return HookActions(providers=providers, connections=connections)


def resolve_hook_connections(
    hooks: tuple[HookDefinition, ...], resolver: ConnectionResolver, config: LoadConfig
) -> dict[str, Connection]:
    """Resolves the connections that hooks name, before anything runs. The redactor learns a webhook's whole URL.

    Raises ConnectionUnresolvedError, or ETLConfigurationError for a webhook that is no http or https URL.
    """
    found: dict[str, Connection] = {}
    for hook in hooks:
        if hook.connection_ref is None:
            continue
        connection = found[hook.connection_ref] = resolver.resolve(hook.connection_ref, config)
        if hook.type == HookType.WEBHOOK:
            from dpone_core.wiring.webhook import secrets_of

            resolver.redactor.learn(secrets_of(connection))
    return found


def _foreign_hooks(config: LoadConfig) -> list[tuple[HookDefinition, FieldPath]]:
    return [
        (hook, hook_path(phase, index))
        for phase in HookPhase
        for index, hook in enumerate(config.hooks_of(phase))
        if hook.type not in _BUILT_IN
    ]


def _find_provider(name: str, path: FieldPath) -> HookProvider:
    from importlib.metadata import entry_points

    registered = entry_points(group=ENTRY_POINT_GROUP)
    found = {entry.value: entry for entry in registered if entry.name == name}
    if not found:
        known = sorted(_BUILT_IN | {entry.name for entry in registered})
        guess = closest(name, known)
        raise HookTypeRefusedError(
            f"no provider is installed for this hook type; known are {', '.join(known[:20])}",
            path=(*path, "type"),
            fix=f"did you mean '{guess}'?" if guess else "install the package that registers it",
        )
    if len(found) > 1:
        raise HookProviderInvalidError(
            f"several installed packages provide hook type '{name}'", fix="uninstall all but one"
        )
    (entry,) = found.values()
    return _load_provider(entry, path)


def _load_provider(entry: EntryPoint, path: FieldPath) -> HookProvider:
    try:
        provider = entry.load()()
        traits = provider.traits
        usable = isinstance(traits, HookTraits) and traits.type == entry.name and callable(provider.execute)
    except (Exception, SystemExit) as error:  # foreign code may raise anything, at import too
        raise HookProviderInvalidError(
            f"{path_text(path)}: the provider of hook type '{entry.name}' cannot be loaded",
            fix="repair or uninstall the package that registers it",
        ) from error
    if not usable:
        raise HookProviderInvalidError(
            f"{path_text(path)}: the provider of hook type '{entry.name}' declares no traits of that type",
            fix="repair or uninstall the package that registers it",
        )
    return GuardedProvider(provider=provider, traits=traits)
