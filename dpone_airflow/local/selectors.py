"""Label and field selectors, as `kubectl -l` and `--field-selector` spell them.

Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api. A negative term (`!=`, `notin`,
`!key`) matches an object that has no such label at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpone_airflow.local.wire import JsonObject, bad_request, field_at

_TERM_SEPARATOR = re.compile(r",(?![^(]*\))")
_SET_TERM = re.compile(r"(?P<key>[^\s!=(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY_TERM = re.compile(r"(?P<key>[^\s!=(),]+)\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s!=(),]*)")
_EXISTENCE_TERM = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=(),]+)")


def labels_match(selector: str | None, labels: Mapping[str, str]) -> bool:
    """Whether every term holds; raises ApiError 400 for a term that cannot be read."""
    return all(_label_term_holds(term, labels) for term in _terms(selector))


def fields_match(selector: str | None, document: JsonObject) -> bool:
    """Whether every `path=value`, `path==value` or `path!=value` holds; an absent field equals the empty text."""
    return all(_field_term_holds(term, document) for term in _terms(selector))


def _terms(selector: str | None) -> list[str]:
    return [term.strip() for term in _TERM_SEPARATOR.split(selector or "") if term.strip()]


def _label_term_holds(term: str, labels: Mapping[str, str]) -> bool:
    if match := _SET_TERM.fullmatch(term):
        inside = labels.get(match["key"]) in {value.strip() for value in match["values"].split(",")}
        return inside == (match["operator"] == "in")
    if match := _EQUALITY_TERM.fullmatch(term):
        return (labels.get(match["key"]) == match["value"]) == (match["operator"] != "!=")
    if match := _EXISTENCE_TERM.fullmatch(term):
        return (match["key"] in labels) == (not match["absent"])
    raise bad_request(f"unable to parse the label selector term {term!r}")


def _field_term_holds(term: str, document: JsonObject) -> bool:
    match = _EQUALITY_TERM.fullmatch(term)
    if match is None:
        raise bad_request(f"unable to parse the field selector term {term!r}")
    actual = field_at(document, match["key"])
    return (str("" if actual is None else actual) == match["value"]) == (match["operator"] != "!=")
