"""Which files a source reads: one file, a directory (recursive, by extension) or a glob, in path order.

In a directory names that begin with a dot or an underscore are skipped: writers keep unpublished files there. Errors
name a file by its position in this order, from 0, never by its path.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Final

from dpone_core.connectors.files.text_blocks import COMPRESSIONS
from dpone_core.errors import ConnectorError
from dpone_core.ports.source import ExtractRequest

_COMPRESSED: Final = frozenset({"csv", "ndjson"})


def matching_files(base: Path, request: ExtractRequest) -> tuple[Path, ...]:
    """The files of the request, relative paths below `base`; `source_object_not_found` without any."""
    if request.path is None or request.format is None:
        raise ConnectorError("the files source reads a path of a format", code="source_request_invalid")
    path = base / request.path
    if path.is_dir():
        endings = _endings(request.format)
        found = [child for child in path.rglob("*") if child.name.endswith(endings) and not _is_hidden(child, path)]
    elif path.is_file():
        found = [path]
    else:
        found = [Path(match) for match in glob.glob(str(path), recursive=True)]
    files = tuple(sorted(child for child in found if child.is_file()))
    if not files:
        raise ConnectorError(f"no file matches the path {request.path!r}", code="source_object_not_found")
    return files


def _endings(file_format: str) -> tuple[str, ...]:
    compressed = COMPRESSIONS if file_format in _COMPRESSED else ()
    return (f".{file_format}", *(f".{file_format}{ending}" for ending in compressed))


def _is_hidden(path: Path, directory: Path) -> bool:
    return any(part[0] in "._" for part in path.relative_to(directory).parts)
