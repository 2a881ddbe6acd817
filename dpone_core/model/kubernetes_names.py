"""Patterns of Kubernetes names, labels, quantities and paths, each with the error message and fix shown instead of it.

Every pattern means the same in Python, in Rust (pydantic) and in ECMA 262 (JSON Schema).
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.explained import Explained

OBJECT_NAME: Final = Explained(
    r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$",
    "the name of a Kubernetes object has lower-case letters, digits, dashes and dots",
    "give the name as `kubectl get` shows it",
)
DNS_LABEL: Final = Explained(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "expected lower-case letters, digits and dashes, at most 63",
    "rename it",
)
DATA_KEY: Final = Explained(
    r"^[A-Za-z0-9._-]{1,253}$",
    "a key of a Secret has letters, digits, dots, dashes and underscores",
    "rename the key",
)
QUALIFIED_NAME: Final = Explained(
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
    "expected a Kubernetes name such as team or example.com/team",
    "rename it",
)
LABEL_VALUE: Final = Explained(
    r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$",
    "a label value has at most 63 letters, digits, dots, dashes and underscores",
    "shorten it",
)
ENVIRONMENT_NAME: Final = Explained(
    r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
    "a variable has letters, digits and underscores",
    "rename the variable",
)
QUANTITY: Final = Explained(
    r"^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|[KMGTPE]i|[MGTPE])?$",
    "expected a quantity such as 500m, 2 or 1.5Gi",
    "write the number and its unit in quotes",
)
ABSOLUTE_PATH: Final = Explained(
    r"^/[A-Za-z0-9_.@/ -]{0,1023}$",
    "expected an absolute path",
    "begin it with /",
)
IMAGE_BY_DIGEST: Final = Explained(
    r"^[a-z0-9][A-Za-z0-9._/:-]{0,254}@sha256:[0-9a-f]{64}$",
    "expected an image by digest: a tag may change between review and run",
    "write registry/name@sha256:<64 hex digits>, as the push printed it",
)
KEYWORD: Final = Explained(
    r"^[a-z][_a-z0-9]{0,63}$",
    "expected the keyword of an operator's argument",
    "write it as in Python",
)
