"""T-SQL -> DuckDB for the TDS double: what the connector generates and plain scripts, parsed by sqlglot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sqlglot
from pysqlbridge.tds.result import ColumnType
from sqlglot import exp

from tests.connectors.tds_double_types import Declared, declared

Catalog = Mapping[str, Mapping[str, Declared]]
"""`schema.table` in lower case -> column name -> type."""


@dataclass(frozen=True)
class Definition:
    """A table, or columns added to one; `defaults` are named default constraints and their columns."""

    table: tuple[str, str]
    columns: dict[str, Declared]
    required: frozenset[str]
    has_key: bool
    defaults: dict[str, str]


@dataclass(frozen=True)
class Translated:
    """`wire` and `named` follow the select list: the wire type and the declared type where T-SQL says more."""

    sql: str
    returns_rows: bool
    wire: tuple[ColumnType | None, ...] = ()
    named: tuple[str | None, ...] = ()
    created: Definition | None = None
    added: Definition | None = None


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
    found = []
    for tree, translated in _read(statement):
        wire, named = _select_list(tree, catalog)
        found.append(replace(translated, wire=wire, named=named))
    return found


@lru_cache(maxsize=2048)
def _read(statement: str) -> tuple[tuple[Any, Translated], ...]:
    """Each statement's tree and what is the same whatever tables there are; the same text comes again and again."""
    return tuple((tree, _one(tree)) for tree in sqlglot.parse(statement, read="tsql") if tree is not None)


def _one(tree: Any) -> Translated:
    created = added = None
    if isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema):
        created = _definition(tree.this.this, tree.this.expressions)
    if isinstance(tree, exp.Alter) and any(isinstance(action, exp.ColumnDef) for action in tree.args["actions"]):
        added = _definition(tree.this, tree.args["actions"])
    tree = tree.transform(_rewritten)
    returns_rows = isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery))
    if added is not None:
        return Translated(sql=_additions(tree), returns_rows=False, added=added)
    return Translated(sql=tree.sql(dialect="duckdb"), returns_rows=returns_rows, created=created)


def _definition(table: Any, expressions: Any) -> Definition:
    columns, required, defaults = {}, set(), {}
    has_key = any(isinstance(one, exp.PrimaryKey) for one in expressions)
    for column in expressions:
        if not isinstance(column, exp.ColumnDef):
            continue
        columns[column.name] = declared(column.args["kind"].sql(dialect="tsql"))
        for constraint in column.args.get("constraints") or ():
            kind = constraint.args["kind"]
            if isinstance(kind, exp.PrimaryKeyColumnConstraint):
                has_key = True
                required.add(column.name)
            elif isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
                required.add(column.name)
            elif isinstance(kind, exp.DefaultColumnConstraint) and constraint.this is not None:
                defaults[constraint.this.name] = column.name
    named = (table.db or "dbo", _plain_name(table))
    return Definition(table=named, columns=columns, required=frozenset(required), has_key=has_key, defaults=defaults)


def _additions(tree: Any) -> str:
    """DuckDB adds one column at a time."""
    table = tree.this.sql(dialect="duckdb")
    return "; ".join(
        f"ALTER TABLE {table} ADD COLUMN {exp.ColumnDef(this=one.this, kind=one.args['kind']).sql(dialect='duckdb')}"
        for one in tree.args["actions"]
    )


def _plain_name(table: Any) -> str:
    return "tmp_" + str(table.name)[1:] if str(table.name).startswith("#") else str(table.name)


def _table_name(table: Any) -> str:
    return f"{table.db or 'dbo'}.{_plain_name(table)}".lower()


def _select_list(tree: Any, catalog: Catalog) -> tuple[tuple[ColumnType | None, ...], tuple[str | None, ...]]:
    select = tree.find(exp.Select)
    if select is None:
        return (), ()
    known: dict[str, Declared] = {}
    if any(isinstance(one.unalias(), (exp.Star, exp.Column)) for one in select.expressions):
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
    if isinstance(node, exp.ColumnConstraint):
        if isinstance(node.args["kind"], exp.CollateColumnConstraint):
            return None
        node.set("this", None)
        return node
    if isinstance(node, exp.Column) and node.args.get("db") is not None and node.args["db"].name.lower() == "dbo":
        node.set("db", exp.to_identifier("main"))
        return node
    if isinstance(node, exp.PrimaryKey):
        for one in node.expressions:
            one.replace(one.this if isinstance(one, exp.Ordered) else one)
        return node
    if isinstance(node, exp.National):
        return exp.Literal.string(node.name)
    if isinstance(node, exp.Collate):
        return node.this.transform(_rewritten)
    if isinstance(node, exp.Parameter):
        return exp.Placeholder(this=node.name)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "NCHAR":
        return exp.Anonymous(this="chr", expressions=node.expressions)
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
    if node.db.lower() == "dbo" and not isinstance(node.parent, exp.Column):
        node.set("db", exp.to_identifier("main"))
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
    if style is not None and style.name == "121" and isinstance(value, exp.Cast):
        clock = declared(value.to.sql(dialect="tsql"))
        if clock.name == "datetime2":
            shown = exp.Literal.string("%Y-%m-%d %H:%M:%S.%f")
            written = exp.Anonymous(this="strftime", expressions=[inner, shown])
            digits = exp.Literal.number(20 + clock.length if clock.length else 19)
            return exp.Anonymous(this="left", expressions=[written, digits])
    if target.stored == "BLOB":
        if style is not None and style.name == "2":
            return exp.Anonymous(this="unhex", expressions=[inner])
        if isinstance(value, (exp.Cast, exp.Convert)) or (isinstance(value, exp.Literal) and value.is_string):
            return exp.Anonymous(this="encode", expressions=[inner])
    return exp.Cast(this=inner, to=exp.DataType.build(target.stored, dialect="duckdb"))
