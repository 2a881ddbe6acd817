"""Builds the shadow table that an EXCHANGE publishes: a copy of the target by hard links, with the changes of this
load.

Nobody reads the shadow, so building it may take many statements. At the end its rows are compared with the expected
number, and the target's rows with their number at the beginning, so that rows that another process wrote meanwhile are
not lost. Then it gets the load marker.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.connectors._sql.keys import refuse_ambiguous_target
from dpone_core.connectors._sql.text import literal_backslash, quote_backtick
from dpone_core.connectors.clickhouse.catalog import count_of, partitions_of, schema_of
from dpone_core.connectors.clickhouse.ddl import Ddl, qualify
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import NO_COLUMNS, TableSchema
from dpone_core.ports.sink import StagedHandle

UNTOUCHED = "ClickHouse refused to publish; the target is unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Rows: of the target when the shadow began, of the published target, and those that a merge updated."""

    before: int
    rows: int
    updated: int = 0


class Shadow:
    """The shadow table of one load. Every method but `matches` creates the table anew; the target is only read."""

    def __init__(self, session: Session, handle: StagedHandle, target: TableName, shadow: TableName) -> None:
        self._session = session
        self._request = handle.request
        self._staged = handle.table
        self._staged_rows = handle.staged_rows
        self._target = target
        self._ddl = Ddl(handle.request.physical_design.cluster)
        self.table = shadow

    def append(self) -> Content:
        before = count_of(self._session, self._target)
        self._clone()
        self._attach_staged()
        return Content(before=before, rows=before + self._staged_rows)

    def replace(self, partitions: tuple[str, ...]) -> Content:
        before, kept = count_of(self._session, self._target), self.rows_outside(partitions)
        self._clone()
        self._run(*(self._ddl.replace_partition(self.table, self._staged, each) for each in partitions))
        return Content(before=before, rows=kept + self._staged_rows)

    def merge(self) -> Content:
        """Links partitions without a staged key; writes the others without the rows that the merge replaces."""
        before = count_of(self._session, self._target)
        updated, touched = self.matches(self._target)
        replaced = sum(touched.values())
        refuse_ambiguous_target(self._request, staged_matches=updated, target_matches=replaced)
        self._clone()
        for partition in touched:
            self._run(self._ddl.drop_partition(self.table, partition), self._rest_of(partition))
        if updated and self._request.target_only:
            self._run(*map(self._completion_query, partitions_of(self._session, self._staged)))
        else:
            self._attach_staged()
        return Content(before=before, rows=before - replaced + self._staged_rows, updated=updated)

    def seal(self, content: Content, comment: str) -> None:
        self._run(self._ddl.set_comment(self.table, comment))
        for what, table, expected in (
            ("the shadow of the target holds", self.table, content.rows),
            ("somebody else writes to the target: it holds", self._target, content.before),
        ):
            found = count_of(self._session, table)
            if found != expected:
                raise ConnectorError(
                    f"{what} {found} rows instead of {expected}; nothing was published",
                    code="finaliser_refused",
                    fix="let only dpone write to the target, then run again",
                )

    def matches(self, table: TableName) -> tuple[int, dict[str, int]]:
        """How many staged keys `table` has, and how many rows of it have them, by partition id."""
        keys = self._keys()
        where = f"FROM {qualify(table)} WHERE {self._staged_condition()}"
        distinct = int(self._session.rows(f"SELECT uniqExact({keys}) {where}")[0][0])
        if not distinct:
            return 0, {}
        rows = self._session.rows(f"SELECT _partition_id, count() {where} GROUP BY _partition_id ORDER BY 1")
        return distinct, {str(partition): int(count) for partition, count in rows}

    def rows_outside(self, partitions: tuple[str, ...]) -> int:
        """How many rows of the target lie outside these partitions, which a replacement keeps."""
        listed = ", ".join(map(literal_backslash, partitions))
        rows = self._session.rows(f"SELECT count() FROM {qualify(self._target)} WHERE _partition_id NOT IN ({listed})")
        return int(rows[0][0])

    def widens(self) -> bool:
        """Whether the load adds columns that the target does not have yet."""
        return bool(self._added().columns)

    def _added(self) -> TableSchema:
        return self._request.added.without(schema_of(self._session, self._target) or NO_COLUMNS)

    def _clone(self) -> None:
        """Copies the target and adds columns to the copy: a table that readers see never has them without the rows."""
        self._run(self._ddl.drop(self.table), self._ddl.clone(self.table, self._target))
        added = self._added()
        if added.columns:
            self._run(self._ddl.add_columns(self.table, added))

    def _attach_staged(self) -> None:
        partitions = partitions_of(self._session, self._staged)
        self._run(*(self._ddl.attach_partition(self.table, self._staged, each) for each in partitions))

    def _rest_of(self, partition: str) -> str:
        names = ", ".join(map(quote_backtick, self._columns(self._target)))
        return (
            f"INSERT INTO {qualify(self.table)} ({names}) SELECT {names} FROM {qualify(self._target)}"
            f" WHERE _partition_id = {literal_backslash(partition)} AND NOT {self._staged_condition()}"
            " SETTINGS insert_deduplicate = 0"
        )

    def _completion_query(self, partition: str) -> str:
        """The staged rows of one partition, completed with the `target_only` columns of the rows that they update."""
        kept = self._request.target_only
        columns = self._columns(self.table)
        names = ", ".join(map(quote_backtick, columns))
        values = ", ".join(f"{'kept' if name in kept else 'staged'}.{quote_backtick(name)}" for name in columns)
        known = ", ".join(map(quote_backtick, (*self._request.unique_key, *kept)))
        same = " AND ".join(f"staged.{key} = kept.{key}" for key in map(quote_backtick, self._request.unique_key))
        return (
            f"INSERT INTO {qualify(self.table)} ({names}) SELECT {values}"
            f" FROM (SELECT * FROM {qualify(self._staged)} WHERE _partition_id = {literal_backslash(partition)})"
            f" AS staged LEFT ANY JOIN (SELECT {known} FROM {qualify(self._target)} WHERE {self._staged_condition()})"
            f" AS kept ON {same} SETTINGS insert_deduplicate = 0, join_use_nulls = 1"
        )

    def _columns(self, table: TableName) -> tuple[str, ...]:
        schema = schema_of(self._session, table)
        return schema.names if schema is not None else ()

    def _keys(self) -> str:
        listed = ", ".join(map(quote_backtick, self._request.unique_key))
        return f"({listed})" if len(self._request.unique_key) > 1 else listed

    def _staged_condition(self) -> str:
        """Whether a row's key is staged, as SQL; 0 for a NULL key, for which IN would answer NULL."""
        listed = ", ".join(map(quote_backtick, self._request.unique_key))
        return f"ifNull({self._keys()} IN (SELECT {listed} FROM {qualify(self._staged)}), 0)"

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._session.command(statement, code="finaliser_refused", message=UNTOUCHED)
