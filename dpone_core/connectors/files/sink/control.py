"""Control tables as append-only JSONL: `<base>/<schema>/<table>.jsonl`, one synced write per change.

Lines: `{"columns": {name: kind}}` (the first line, and again when columns are added), `{"row": {...}}`, and
`{"deleted": {key}}`, which takes back every earlier row of the key; with a `row` beside it, that row stands in their
place. A replacement is one line, because a disk that is full may keep any number of whole lines of a change.

Timestamps are ISO 8601 UTC text. A last line without its line feed was torn by a crash: it is not read, and the next
change cuts it off. Any other line that cannot be read is an error, never skipped. Writers of one process take turns;
the directory lock keeps other processes out.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from dpone_core.connectors._sql.control_rows import require_compatible
from dpone_core.connectors.files.storage import create_directory, sync_directory, translate_errors
from dpone_core.errors import ConnectorError
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlValue

_REFUSED: Final = "control_table_refused"
_Key = tuple[tuple[bool, ControlValue], ...]


@dataclass(slots=True)
class _Content:
    """What a control file says: the kinds of the columns, and the versions of each key in the order
    they were written."""

    kinds: dict[str, str] = field(default_factory=dict)
    rows: dict[_Key, list[ControlRow]] = field(default_factory=dict)
    whole_bytes: int = 0


class FilesControlTables:
    """ControlTables below one base directory. Every read parses the whole file of its table."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._mutex = threading.RLock()

    def ensure(self, table: ControlTable) -> None:
        with self._mutex, translate_errors("a control file could not be written", _REFUSED):
            path = self._path(table)
            create_directory(path.parent)
            content = self._content(table)
            if not content.kinds:
                self._append(table, content, [{"columns": {c.name: c.kind.value for c in table.columns}}])
                sync_directory(path.parent)
                return
            missing = require_compatible(table, content.kinds, lambda column: column.kind.value)
            if missing:
                kinds = content.kinds | {column.name: column.kind.value for column in missing}
                self._append(table, content, [{"columns": kinds}])

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        if not rows:
            return
        with self._mutex, translate_errors("a control file could not be written", _REFUSED):
            self._append(table, self._content(table), [{"row": _row_json(table, row)} for row in rows])

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        with self._mutex, translate_errors("a control file could not be read", _REFUSED):
            versions = self._content(table).rows
        latest = ((key, max(rows, key=lambda row: _version(table, row))) for key, rows in sorted(versions.items()))
        return tuple(row for _, row in latest if _matches(row, where))

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        with self._mutex, translate_errors("a control file could not be written", _REFUSED):
            found = self.read(table, key)
            if bool(found) != (expected is not None) or (found and not _matches(found[0], expected or {})):
                return False
            line: dict[str, object] = {}
            if found:
                line["deleted"] = {name: _value_json(found[0][name]) for name in table.key}
            if new is not None:
                line["row"] = _row_json(table, new)
            self._append(table, self._content(table), [line] if line else [])
            return True

    def _path(self, table: ControlTable) -> Path:
        return self._base / table.schema / f"{table.name}.jsonl"

    def _append(self, table: ControlTable, content: _Content, lines: Sequence[Mapping[str, object]]) -> None:
        """Writes all lines after the last complete line in one synced write; without lines nothing is written."""
        if not lines:
            return
        text = "".join(json.dumps(line, separators=(",", ":"), sort_keys=True) + "\n" for line in lines)
        descriptor = os.open(self._path(table), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            file.truncate(content.whole_bytes)
            file.seek(content.whole_bytes)
            file.write(text.encode("ascii"))
            file.flush()
            os.fsync(file.fileno())

    def _content(self, table: ControlTable) -> _Content:
        content = _Content()
        for line in _whole_lines(self._path(table)):
            content.whole_bytes += len(line)
            try:
                _apply(json.loads(line), table, content)
            except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
                raise ConnectorError(
                    f"control table {table.name!r} holds a line that cannot be read", code="control_table_unreadable"
                ) from error
        return content


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
    except FileNotFoundError:
        return


def _apply(document: Mapping[str, Mapping[str, Any]], table: ControlTable, content: _Content) -> None:
    if document.keys() == {"deleted", "row"}:
        _apply({"deleted": document["deleted"]}, table, content)
        document = {"row": document["row"]}
    ((what, value),) = document.items()
    match what:
        case "columns":
            content.kinds = {str(name): ControlColumnKind(kind).value for name, kind in value.items()}
        case "row":
            row = {column.name: _parse_value(column, value.get(column.name)) for column in table.columns}
            content.rows.setdefault(_key(table, row), []).append(row)
        case "deleted":
            columns = {column.name: column for column in table.columns}
            content.rows.pop(_key(table, {n: _parse_value(columns[n], value[n]) for n in table.key}), None)
        case _:
            raise ValueError("an unknown kind of line")


def _key(table: ControlTable, row: ControlRow) -> _Key:
    """The row's key in a form that sorts: NULL first, and values of one kind only among each other."""
    return tuple((row[name] is not None, row[name]) for name in table.key)


def _version(table: ControlTable, row: ControlRow) -> tuple[bool, ControlValue]:
    return row[table.version_column] is not None, row[table.version_column]


def _matches(row: ControlRow, where: ControlRow) -> bool:
    return all(row.get(name) == value for name, value in where.items())


def _row_json(table: ControlTable, row: ControlRow) -> dict[str, object]:
    return {column.name: _value_json(row.get(column.name)) for column in table.columns}


def _value_json(value: ControlValue) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _parse_value(column: ControlColumn, value: object) -> ControlValue:
    match column.kind, value:
        case _, None:
            return None
        case ControlColumnKind.TIMESTAMP, str():
            return datetime.fromisoformat(value)
        case ControlColumnKind.INTEGER, int() if not isinstance(value, bool):
            return value
        case ControlColumnKind.TEXT, str():
            return value
        case _:
            raise ValueError(f"not a {column.kind}")
