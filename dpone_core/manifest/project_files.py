"""Reads the files a manifest names: once, up to a size limit, only inside the project, with their hash.

`..` is allowed while the real path, after symbolic links, stays below the project root; absolute names are refused.
Contract: HOOK-09, HOOK-27.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.fingerprint import sha256_bytes
from dpone_core.resources import DocumentTooLargeError, NotRegularFileError, read_file_bounded

MAX_FILE_BYTES: Final = 1 << 20
_ROOT_MARKS: Final = (".git", "dpone.yaml", "pyproject.toml")


class DependencyKind(StrEnum):
    """Why a manifest needs a file. Values are published in packs and check reports."""

    MANIFEST = "manifest"
    QUERY_SQL_FILE = "query_sql_file"
    HOOK_SQL_FILE = "hook_sql_file"
    GATE_SQL_FILE = "gate_sql_file"
    DATA_CONTRACT = "data_contract"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A file that was read: its path relative to the project root, with `/`, and the sha256 of its bytes."""

    kind: DependencyKind
    path: str
    sha256: str


class ProjectFileError(ETLConfigurationError):
    """A file that a manifest names cannot be used. The message shows no absolute path."""

    code = "DPONE_PROJECT_FILE_INVALID"


def project_root_of(directory: Path) -> Path:
    """The nearest directory at or above `directory` with .git, dpone.yaml or pyproject.toml; else `directory`
    itself.
    """
    directory = real_path(directory)
    for candidate in (directory, *directory.parents):
        if any((candidate / mark).exists() for mark in _ROOT_MARKS):
            return candidate
    return directory


def real_path(path: Path) -> Path:
    """The absolute path behind symbolic links. Raises ProjectFileError for a loop of links or a name too long."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links is a RuntimeError up to Python 3.12
        raise ProjectFileError("the file name cannot be resolved to a path", fix=_RELATIVE) from error


def read_project_file(
    root: Path, directory: Path, name: str, kind: DependencyKind, *, limit_bytes: int = MAX_FILE_BYTES
) -> tuple[bytes, Dependency]:
    """Reads `name` relative to `directory`. Raises ProjectFileError when it lies outside `root`, does not exist, is
    no regular file or has more than `limit_bytes` bytes.
    """
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or "\\" in name or "\x00" in name:
        raise ProjectFileError(
            "expected a relative path with '/'", code="DPONE_SQL_FILE_OUTSIDE_PROJECT", fix=_RELATIVE
        )
    real_root, real = real_path(root), real_path(directory / name)
    if not real.is_relative_to(real_root):
        raise ProjectFileError(
            "the file is outside the project root", code="DPONE_SQL_FILE_OUTSIDE_PROJECT", fix=_RELATIVE
        )
    content = _content(real, limit_bytes)
    path = real.relative_to(real_root).as_posix()
    return content, Dependency(kind=kind, path=path, sha256=sha256_bytes(content))


_RELATIVE: Final = "name a file inside the repository, relative to the manifest"


def _content(path: Path, limit_bytes: int) -> bytes:
    try:
        return read_file_bounded(path, limit_bytes)
    except FileNotFoundError as error:
        raise ProjectFileError("the file does not exist", code="DPONE_PROJECT_FILE_NOT_FOUND", fix=_RELATIVE) from error
    except DocumentTooLargeError as error:
        sentence = f"the file is larger than {limit_bytes} bytes"
        raise ProjectFileError(sentence, code="DPONE_PROJECT_FILE_TOO_LARGE") from error
    except (NotRegularFileError, IsADirectoryError) as error:
        raise ProjectFileError("the path is not a regular file", fix=_RELATIVE) from error
    except OSError as error:
        raise ProjectFileError("the file cannot be read", fix="check its permissions") from error
