"""Patterns of credentials in text that nobody declared secret.

The redactor removes what matches; documents that must hold no secret refuse it. Matching takes linear time: every
pattern is bounded, and a run of characters that cannot match in part is possessive.
Contract: EVID-10, EVID-19.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

SECRET_NAMES: Final = (
    r"(?:[A-Za-z0-9]{0,24}[_-]?(?:password|passwd|passphrase|pwd)|pass|credentials?|authorization|connection[_-]?string"
    r"|[A-Za-z0-9]{0,24}[_-]?(?:secret|token)(?:[_-]?(?:key|id|value))?|sas|pat|sig|signature"
    r"|[A-Za-z0-9]{0,24}[_-]?(?:api|access|private|account|encryption|signing)[_-]?key)"
)
_BRACED: Final = r"\{(?:[^}\n]{1,512}+|\}\}[^}\n]{0,512}+)(?:\}\}[^}\n]{0,512}+){0,16}\}"
_QUOTED: Final = rf"\"(?:[^\"\\\n]|\\.){{1,512}}+\"|'(?:[^'\\\n]|\\.){{1,512}}+'|{_BRACED}"
_BARE: Final = r"[^\s;&,\"'{}()\[\]]"
_SECRET_MARKS: Final = r"0-9!@#$%^*+/=_~.\-"
"""Characters that a plain word does not have; a value with one of them is taken for a secret."""
_PLAIN: Final = rf"[^\s;&,\"'{{}}()\[\]{_SECRET_MARKS}]"


@cache
def secret_shapes() -> tuple[re.Pattern[str], ...]:
    """The patterns, compiled on first use. The group `value` marks the secret part; without it the whole match is
    secret.
    """
    names, quoted, bare = SECRET_NAMES, _QUOTED, _BARE
    return (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,8192}"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
        re.compile(r"(?<=://)[^\s\"'<>/@]{0,256}:[^\s\"'<>]{0,512}@"),
        re.compile(
            rf"(?i)(?:\b|(?<=_)){names}[\"']?\s{{0,4}}(?:=>|:=|=)\s{{0,4}}(?P<value>{quoted}|{bare}[^;&,\"'\n{{}}]{{0,511}}+(?=;)|{bare}{{1,512}})"
        ),
        re.compile(
            rf"(?i)(?:\b|(?<=_)){names}[\"']?\s{{0,4}}:\s{{0,4}}(?P<value>{quoted}"
            rf"|(?={_PLAIN}{{0,64}}+[{_SECRET_MARKS}]){bare}{{1,512}}|{bare}{{1,512}}+(?=[;,}}]|\s{{0,4}}(?:\n|\Z)))"
        ),
        re.compile(r"(?i)\b(?:bearer|basic|digest)\s{1,4}(?P<value>[A-Za-z0-9._~+/=-]{8,2048})"),
        re.compile(rf"(?i)--{names}[ =](?P<value>[^\s\"']{{1,512}})"),
        re.compile(rf"(?i)<(?:{names})>(?P<value>[^<\n]{{1,512}})<"),
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,4096}(?:\.[A-Za-z0-9_-]{0,1024})?"),
        re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,255}\b|\bgithub_pat_[A-Za-z0-9_]{20,255}\b"),
        re.compile(
            r"\bglpat-[A-Za-z0-9_-]{16,255}\b|\bxox[abprs]-[A-Za-z0-9-]{10,255}\b|\bsk_(?:live|test)_[A-Za-z0-9]{16,255}\b"
        ),
        re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b|\bya29\.[0-9A-Za-z_-]{16,1024}\b"),
    )


def looks_secret(text: str, *, name: str = "") -> bool:
    """Whether `text`, or `name=text` when it belongs to a name, looks like a credential."""
    texts = (text, f"{name}={text}") if name and text else (text,)
    return any(shape.search(one) for shape in secret_shapes() for one in texts)
