"""Removes secrets from every text that leaves dpone.

Linear time: each pattern is bounded and stays within a line.

Known secrets are removed in every spelling that drivers and encoders use: raw, URL-quoted, JSON-escaped, repr, base64
of the userinfo, ODBC braces. Texts that only look like a credential are removed by their shape (EVID-19).

A login is no secret. What every report states in clear is never changed: words of the product, names of the manifest,
ids of the run (EVID-21). So a password that is such a word, or a part of one, is not looked for by itself: hiding it
would give it away. It is still removed where it stands as a credential: in `login:password`, in its base64, in
`password=...`. A spelling of less than 8 characters is removed as a whole word only.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

from dpone_core.evidence.public_words import public_words
from dpone_core.model.secret_shapes import SECRET_NAMES, secret_shapes

TOKEN: Final = "[REDACTED]"
_MINIMUM_SECRET_CHARACTERS: Final = 4
_SUBSTRING_CHARACTERS: Final = 8
"""A shorter spelling would be found inside other words, in hashes and in times."""


class Redactor:
    """Replaces secrets in texts by `[REDACTED]`. One per process; secrets and kept texts can be added at any time."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self._kept: set[str] = set()
        self._literal: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Adds secrets in all their spellings; a secret or a spelling of less than 4 characters is ignored."""
        for secret in secrets:
            if len(secret) >= _MINIMUM_SECRET_CHARACTERS:
                self._forms.update(form for form in spellings(secret) if len(form) >= _MINIMUM_SECRET_CHARACTERS)
        self._compile()

    def keep(self, texts: Iterable[str]) -> None:
        """Adds texts that reports state in clear, as names and ids do. A spelling inside of one is no longer looked
        for by itself.
        """
        self._kept.update(texts)
        self._compile()

    def text(self, text: str) -> str:
        """`text` with every secret replaced by `[REDACTED]`; a text without secrets is returned unchanged."""
        if text in self._kept:
            return text
        if self._literal is not None:
            text = self._literal.sub(TOKEN, text)
        for pattern in secret_shapes():
            text = pattern.sub(_replacement, text)
        return text

    def _compile(self) -> None:
        if not self._forms:
            return
        clear = "\n".join((*public_words(), *self._kept))
        hidden = sorted((form for form in self._forms if form not in clear), key=len, reverse=True)
        self._literal = re.compile("|".join(map(_pattern_of, hidden))) if hidden else None

    def value(self, value: object) -> object:
        """A JSON-like value with every text in it redacted. Keys are not, because dpone chooses them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
            return [self.value(item) for item in value]
        return value


def secrets_in_uri(uri: str) -> tuple[str, ...]:
    """Password, `login:password` and credential-like query values of a connection URI, as written and decoded.

    A login alone is no secret.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return (uri,)
    found: list[str] = []
    for userinfo in {parts.netloc.rpartition("@")[0], uri.partition("://")[2].rpartition("@")[0]} - {""}:
        password = userinfo.partition(":")[2]
        if password:
            found += [userinfo, unquote(userinfo), password, unquote(password)]
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if re.fullmatch(SECRET_NAMES, name, re.IGNORECASE):
            found += [value, unquote(value)]
    return tuple(dict.fromkeys(text for text in found if text))


def spellings(secret: str) -> frozenset[str]:
    """All spellings in which one secret may appear in a text."""
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


def _pattern_of(form: str) -> str:
    """A spelling as a pattern: a short one matches as a whole word only."""
    pattern = re.escape(form)
    if len(form) >= _SUBSTRING_CHARACTERS:
        return pattern
    begin = r"(?<![A-Za-z0-9_])" if form[0].isalnum() or form[0] == "_" else ""
    end = r"(?![A-Za-z0-9_])" if form[-1].isalnum() or form[-1] == "_" else ""
    return begin + pattern + end


def _replacement(match: re.Match[str]) -> str:
    if "value" not in match.re.groupindex:
        return TOKEN + ("@" if match.group(0).endswith("@") else "")
    start, end = match.span("value")
    whole, offset = match.group(0), match.start()
    return whole[: start - offset] + TOKEN + whole[end - offset :]
