"""The fence of a commit: the lease of a load, locked and compared inside the transaction that publishes.

The row is locked last, just before the COMMIT. From then on whoever wants the lease waits for the transaction, and
looks at the target only when it has ended. A load whose lease has gone rolls back. Until then the lease can be renewed
beside a publication that takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.model.load_config import TableName
from dpone_core.ports.control import ControlRow, HeldRow

Ask = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


def holds_by_lock(
    table_of: Callable[[TableName], str],
    parameter: str,
    *,
    quote: Callable[[str], str] = quote_ansi,
    hint: str = "",
    suffix: str = "",
) -> Callable[[Ask, HeldRow], bool]:
    """A function that says whether a row holds its values, and locks it, or its place, until the transaction ends.

    `table_of` writes a table, `parameter` one parameter, {} is its number; `hint` and `suffix` make the SELECT lock.
    """

    def holds(ask: Ask, row: HeldRow) -> bool:
        table = table_of(TableName(schema=row.table.schema, name=row.table.name))
        where = " AND ".join(f"{quote(name)} = {parameter.format(place)}" for place, name in enumerate(row.key, 1))
        selected = ", ".join(map(quote, row.values))
        found = ask(f"SELECT {selected} FROM {table}{hint} WHERE {where}{suffix}", list(row.key.values()))
        return bool(found) and tuple(found[0]) == tuple(row.values.values())

    return holds


def holds_by_update(ask: Ask, row: HeldRow, table: str) -> bool:
    """For an engine whose conflicts are found by writing: updates the row to what it says.

    A row that another transaction has changed since this one began is a conflict, which the engine raises.
    """
    settings = ", ".join(f"{quote_ansi(name)} = {quote_ansi(name)}" for name in row.values)
    wanted: ControlRow = {**row.key, **row.values}
    conditions = " AND ".join(f"{quote_ansi(name)} = ?" for name in wanted)
    return ask(f"UPDATE {table} SET {settings} WHERE {conditions}", list(wanted.values())) == [(1,)]
