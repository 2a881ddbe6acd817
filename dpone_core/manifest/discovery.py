"""Finds the manifests below a directory, for `check`. Contract: MAN-25."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dpone_core.manifest.document import MAX_DOCUMENT_BYTES

SUFFIXES: Final = frozenset({".yaml", ".yml"})
_KIND: Final = re.compile(rb"^[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?dpone\.", re.MULTILINE)
_SHAPE: Final = tuple(re.compile(rb"^[\"']?%s[\"']?[ \t]*:" % key, re.MULTILINE) for key in (b"source", b"sink"))


def find_manifests(directory: Path) -> tuple[Path, ...]:
    """YAML files below `directory` that mean to be manifests, sorted by path; () where there is none.

    A file means to be one if it states a kind `dpone.…`, or both `source` and `sink` at its root, so that a wrong kind
    is found and not passed over. A file that cannot be read is one too, and its check says why. Names that begin with
    a dot are not looked at, and links to directories are not followed.
    """
    return tuple(sorted(path for path in _files(directory) if _means_to_be_manifest(path)))


def _files(directory: Path) -> Iterator[Path]:
    for at, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith(".")]
        yield from (Path(at, name) for name in names if Path(name).suffix in SUFFIXES and not name.startswith("."))


def _means_to_be_manifest(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(MAX_DOCUMENT_BYTES)
    except OSError:
        return True
    return _KIND.search(head) is not None or all(key.search(head) is not None for key in _SHAPE)
