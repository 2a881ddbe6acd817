"""The built-in `webhook` provider: one POST of a notification to a secret URL.

Imported only when a manifest asks for it; its traits are `authoring.hooks.NOTIFIERS`.
"""

from __future__ import annotations

import base64
import http.client
import urllib.request
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from dpone_core.authoring.hooks import NOTIFIERS
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.redaction import Redactor
from dpone_core.model.connection import Connection
from dpone_core.model.hook import HookDefinition, HookTraits
from dpone_core.ports.hooks import HookActionError, HookContext, HookResult
from dpone_core.wiring.http_exchange import Exchange
from dpone_core.wiring.notification import render_notification

DEFAULT_TIMEOUT_SECONDS: Final = 10
_SECRET_CHARACTERS: Final = 16
"""A shorter part of a URL is a common word that reports need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookHookProvider:
    """Posts the notification to the URL of the hook's connection, which is secret and never shown.

    No redirect is followed: another place may be another party, and a followed POST is a GET. The environment's
    proxies apply. The timeout is one deadline for the whole exchange, and the body of the answer is not read.
    """

    redactor: Redactor
    traits: HookTraits = NOTIFIERS[1]

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Raises HookActionError `webhook_refused` for an answer outside 200-299, `webhook_unreachable` for none."""
        timeout_seconds = int(hook.options.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS))
        request = _post(context.connection(), render_notification(hook, context, self.redactor))
        try:
            status = Exchange(timeout_seconds).status_of(request)
        except TimeoutError as error:
            raise HookActionError(
                f"the receiver did not answer within {timeout_seconds} s", code="webhook_unreachable"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise HookActionError("the receiver could not be reached", code="webhook_unreachable") from error
        if not 200 <= status <= 299:
            raise HookActionError(
                "the receiver did not accept it", code="webhook_refused", values={"http_status": status}
            )
        return HookResult(values={"http_status": status})


def secrets_of(connection: Connection) -> tuple[str, ...]:
    """Returns what reports must not show: the URL, and the parts of it where receivers keep keys, behind the host and
    in place of a login.

    Raises as `webhook_url`.
    """
    parts = webhook_url(connection)
    behind_host = parts._replace(scheme="", netloc="").geturl()
    secrets = (connection.uri, connection.uri.partition("://")[2], behind_host, parts.username or "")
    return tuple(secret for secret in secrets if len(secret) >= _SECRET_CHARACTERS)


def webhook_url(connection: Connection) -> SplitResult:
    """The parts of an http or https URL. Raises ETLConfigurationError that shows nothing of it."""
    try:
        parts = urlsplit(connection.uri)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not connection.uri.isascii() or not connection.uri.isprintable() or " " in connection.uri:
        raise ETLConfigurationError(
            f"connection '{connection.ref}' is not an http or https URL",
            code="connection_uri_invalid",
            fix="correct its URL",
        )
    return parts


def _post(connection: Connection, body: bytes) -> urllib.request.Request:
    parts = webhook_url(connection)
    information, _, host = parts.netloc.rpartition("@")
    headers = {"Content-Type": "application/json", "User-Agent": "dpone"}
    if information:
        pair = ":".join(unquote(part) for part in information.split(":", 1))
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    url = parts._replace(netloc=host, fragment="").geturl()
    return urllib.request.Request(url, data=body, headers=headers, method="POST")
