"""T-SQL -> DuckDB for the TDS double: what the connector generates and plain scripts, parsed by sqlglot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from pysqlbridge.tds.result import ColumnType
from sqlglot import exp

from tests.connectors.tds_double_types import Declared, declared

Catalog = Mapping[str, Mapping[str, Declared]]
"""Table name in lower case -> column name -> type."""


@dataclass(frozen=True)
class Translated:
    """`wire` and `named` follow the select list: the wire type and the declared type where T-SQL says more."""

    sql: str
    returns_rows: bool
    wire: tuple[ColumnType | None, ...] = ()
    named: tuple[str | None, ...] = ()
    created: tuple[str, dict[str, Declared], frozenset[str]] | None = None


def split(sql: str) -> list[str]:
    """Statements between semicolons outside quotes, brackets and comments."""
    parts, start, position = [], 0, 0
    while position < len(sql):
        if sql[position] in "'\"[":
            ending = "]" if sql[position] == "[" else sql[position]
            position = _after(sql, ending, position + 1)
        elif sql.startswith("--", position):
            position = _after(sql, "\n", position)
        elif sql.startswith("/*", position):
            position = _after(sql, "*/", position + 2)
        elif sql[position] == ";":
            parts.append(sql[start:position])
            position += 1
            start = position
        else:
            position += 1
    return [*parts, sql[start:]]


def _after(sql: str, ending: str, position: int) -> int:
    found = sql.find(ending, position)
    return len(sql) if found < 0 else found + len(ending)


def translate(statement: str, catalog: Catalog) -> list[Translated]:
    return [_one(tree, catalog) for tree in sqlglot.parse(statement, read="tsql") if tree is not None]


def _one(tree: Any, catalog: Catalog) -> Translated:
    created = _created(tree) if isinstance(tree, exp.Create) else None
    wire, named = _select_list(tree, catalog)
    tree = tree.transform(_rewritten)
    returns_rows = isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery))
    return Translated(
        sql=tree.sql(dialect="duckdb"), returns_rows=returns_rows, wire=wire, named=named, created=created
    )


def _created(tree: exp.Create) -> tuple[str, dict[str, Declared], frozenset[str]] | None:
    if not isinstance(tree.this, exp.Schema):
        return None
    columns, required = {}, set()
    for column in tree.this.expressions:
        if isinstance(column, exp.ColumnDef):
            columns[column.name] = declared(column.args["kind"].sql(dialect="tsql"))
            kinds = [constraint.args["kind"] for constraint in column.args.get("constraints") or ()]
            if any(
                isinstance(kind, exp.PrimaryKeyColumnConstraint)
                or (isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"))
                for kind in kinds
            ):
                required.add(column.name)
    return _table_name(tree.this.this), columns, frozenset(required)


def _table_name(table: Any) -> str:
    return str(table.name).lower()


def _select_list(tree: Any, catalog: Catalog) -> tuple[tuple[ColumnType | None, ...], tuple[str | None, ...]]:
    select = tree.find(exp.Select)
    if select is None:
        return (), ()
    known: dict[str, Declared] = {}
    for table in tree.find_all(exp.Table):
        known.update(catalog.get(_table_name(table), {}))
    found: list[Declared | None] = []
    for projection in select.expressions:
        if isinstance(projection, exp.Star) or (isinstance(projection, exp.Column) and projection.name == "*"):
            found.extend(known.values())
        else:
            found.append(_declared_of(projection.unalias(), known))
    return (
        tuple(None if one is None else one.wire for one in found),
        tuple(None if one is None else one.system_name for one in found),
    )


def _declared_of(expression: Any, known: Mapping[str, Declared]) -> Declared | None:
    if isinstance(expression, exp.Column):
        return known.get(expression.name)
    if isinstance(expression, exp.Cast):
        return declared(expression.to.sql(dialect="tsql"))
    if isinstance(expression, exp.Convert):
        return declared(expression.this.sql(dialect="tsql"))
    return None


def _rewritten(node: Any) -> Any:
    if isinstance(node, exp.Table):
        return _plain_table(node)
    if isinstance(node, exp.ColumnDef) and node.args.get("kind") is not None:
        stored = declared(node.args["kind"].sql(dialect="tsql")).stored
        node.set("kind", exp.DataType.build(stored, dialect="duckdb"))
        return node
    if isinstance(node, exp.Parameter):
        return exp.Placeholder(this=node.name)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "SWITCHOFFSET":
        return node.expressions[0].transform(_rewritten)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DATALENGTH":
        return _datalength(node.expressions[0])
    if isinstance(node, exp.Add) and any(
        isinstance(side, exp.Literal) and side.is_string for side in node.iter_expressions()
    ):
        return exp.DPipe(this=node.left.transform(_rewritten), expression=node.right.transform(_rewritten))
    if isinstance(node, exp.Convert):
        return _converted(node.expression, declared(node.this.sql(dialect="tsql")), node.args.get("style"))
    if isinstance(node, exp.Cast) and not isinstance(node.this, exp.DataType):
        return _converted(node.this, declared(node.to.sql(dialect="tsql")), None)
    return node


def _plain_table(node: exp.Table) -> exp.Table:
    node.set("hints", None)
    node.set("catalog", None)
    if node.db.lower() == "dbo":
        node.set("db", None)
    if node.name.startswith("#"):
        node.set("this", exp.to_identifier("tmp_" + node.name[1:]))
    if node.db.lower() == "information_schema":
        node.set("db", exp.to_identifier("double_catalog"))
    if node.db.lower() == "sys":
        node.set("db", exp.to_identifier("double_sys"))
    return node


def _datalength(value: Any) -> Any:
    """Bytes; text counts as UTF-16 without surrogate pairs."""
    inner = value.transform(_rewritten)
    if isinstance(value, exp.Cast) and declared(value.to.sql(dialect="tsql")).stored == "VARCHAR":
        return exp.Mul(this=exp.Anonymous(this="length", expressions=[inner]), expression=exp.Literal.number(2))
    return exp.Anonymous(this="octet_length", expressions=[inner])


def _converted(value: Any, target: Declared, style: Any) -> Any:
    inner = value.transform(_rewritten)
    if target.stored == "BLOB":
        if style is not None and style.name == "2":
            return exp.Anonymous(this="unhex", expressions=[inner])
        if isinstance(value, (exp.Cast, exp.Convert)) or (isinstance(value, exp.Literal) and value.is_string):
            return exp.Anonymous(this="encode", expressions=[inner])
    return exp.Cast(this=inner, to=exp.DataType.build(target.stored, dialect="duckdb"))
