"""Rules of control tables that every SQL sink shares: which older tables are usable, and how to repeat a change whose
answer was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from dpone_core.errors import ConnectionLostError, ConnectorError
from dpone_core.ports.control import ControlColumn, ControlRow, ControlRowBusyError, ControlTable


def require_compatible(
    table: ControlTable, present: Mapping[str, str], type_text: Callable[[ControlColumn], str]
) -> tuple[ControlColumn, ...]:
    """Nullable columns an older table lacks, to be added; `control_table_incompatible` for any other difference.

    `found` maps the existing columns to their types; columns of a newer dpone are left alone.
    """
    missing = tuple(column for column in table.columns if column.name not in present)
    for column in missing:
        if not column.nullable:
            raise ConnectorError(
                f"control table {table.name!r} has no column {column.name!r}", code="control_table_incompatible"
            )
    for column in table.columns:
        existing = present.get(column.name)
        if existing is not None and existing != type_text(column):
            raise ConnectorError(
                f"control table {table.name!r}: column {column.name!r} has another type than this version writes",
                code="control_table_incompatible",
            )
    return missing


@contextmanager
def report_busy(waited_in_vain: Callable[[BaseException | None], bool]) -> Iterator[None]:
    """A wait for a row that another session holds ends as ControlRowBusyError."""
    try:
        yield
    except ConnectorError as error:
        if not waited_in_vain(error.__cause__):
            raise
        raise ControlRowBusyError("another process holds it") from error


def retry_lost_change(
    change: Callable[[], bool],
    read: Callable[[], tuple[ControlRow, ...]],
    expected: ControlRow | None,
    new: ControlRow | None,
) -> bool:
    """Makes a compare-and-set change and says whether it was made. When `change` loses its connection, `read` shows the
    row: if it holds `new`, this process made the change (True); otherwise `change` runs once more."""
    try:
        return change()
    except ConnectionLostError:
        present = read()
    if new is not None and present and all(present[0][name] == value for name, value in new.items()):
        return True
    if new is None and expected is not None and not present:
        return True
    return change()
