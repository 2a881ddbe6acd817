"""The one redactor, used by every exit. Linear time: every pattern is bounded, none backtracks across a line.

Known secrets are removed in every spelling a driver or encoder may give them: raw, URL-quoted, JSON-escaped, repr,
base64 of the userinfo, ODBC braces. What merely looks like a credential is removed by shape (Facts 10).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

from dpone_core.model.secret_shapes import SECRET_NAMES, secret_shapes

TOKEN: Final = "[REDACTED]"
_MINIMUM_SECRET_CHARACTERS: Final = 4


class Redactor:
    """Built once per process from the secrets that were resolved; more can be added while it lives."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self._literal: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            self._forms.update(form for form in spellings(secret) if len(form) >= _MINIMUM_SECRET_CHARACTERS)
        if self._forms:
            longest_first = sorted(self._forms, key=len, reverse=True)
            self._literal = re.compile("|".join(re.escape(form) for form in longest_first))

    def text(self, text: str) -> str:
        """`text` with every secret replaced by the token; harmless text comes back unchanged."""
        if self._literal is not None:
            text = self._literal.sub(TOKEN, text)
        for pattern in secret_shapes():
            text = pattern.sub(_replacement, text)
        return text

    def value(self, value: object) -> object:
        """The same for every text inside a JSON-like value; keys are kept, they are ours."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
            return [self.value(item) for item in value]
        return value


def secrets_in_uri(uri: str) -> tuple[str, ...]:
    """Password, userinfo and credential-like query values of a connection URI, as written and decoded."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return (uri,)
    found: list[str] = []
    for userinfo in {parts.netloc.rpartition("@")[0], uri.partition("://")[2].rpartition("@")[0]} - {""}:
        password = userinfo.partition(":")[2]
        found += [userinfo, unquote(userinfo), password, unquote(password)]
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if re.fullmatch(SECRET_NAMES, name, re.IGNORECASE):
            found += [value, unquote(value)]
    return tuple(dict.fromkeys(text for text in found if text))


def spellings(secret: str) -> frozenset[str]:
    """Every way one secret may appear in somebody's text."""
    escaped = json.dumps(secret)[1:-1]
    unicode_escaped = escaped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    encoded = secret.encode("utf-8", "surrogatepass")
    return frozenset(
        {
            secret,
            quote(secret, safe="", errors="surrogatepass"),
            quote_plus(secret, errors="surrogatepass"),
            quote(secret, errors="surrogatepass"),
            escaped,
            unicode_escaped,
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
            "{" + secret.replace("}", "}}") + "}",
            base64.b64encode(encoded).decode("ascii"),
            base64.urlsafe_b64encode(encoded).decode("ascii"),
        }
        - {""}
    )


def _replacement(match: re.Match[str]) -> str:
    if "value" not in match.re.groupindex:
        return TOKEN + ("@" if match.group(0).endswith("@") else "")
    start, end = match.span("value")
    whole, offset = match.group(0), match.start()
    return whole[: start - offset] + TOKEN + whole[end - offset :]
