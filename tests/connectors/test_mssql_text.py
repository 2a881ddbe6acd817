"""The T-SQL we write, as text that sqlglot parses, and the pure parts: addresses, drivers, common table expressions.

`DPONE_WRITE_GOLDENS=1` writes the golden files anew. Contract: MSSQL-06.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
import sqlglot

from dpone_core.connectors._sql.probe import measure
from dpone_core.connectors.mssql.address import address_of, brace
from dpone_core.connectors.mssql.driver import DriverMissingError, driver_path, family_of, unixodbc_missing_error
from dpone_core.connectors.mssql.source.selection import selection
from dpone_core.connectors.mssql.text import quote_name, split_with
from dpone_core.connectors.mssql.type_map import TYPES
from dpone_core.connectors.mssql.types import COUNTS, column_type, length_expression, reading_expression
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.model.type_map import TypeMapping
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.sessions import connection
from tests.spec.builders import Project, flow

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "mssql"
NATIVES: Final = (
    "bit", "tinyint", "smallint", "int", "bigint", "decimal(38,20)", "numeric(9,4)", "money", "smallmoney", "real",
    "float", "date", "time(7)", "smalldatetime", "datetime", "datetime2(7)", "datetimeoffset(7)", "uniqueidentifier",
    "char(5)", "varchar(20)", "nchar(5)", "nvarchar(20)", "nvarchar(max)", "varchar(max)", "text", "ntext", "xml",
    "binary(8)", "varbinary(20)", "varbinary(max)", "image", "rowversion",
)  # fmt: skip
SCHEMA: Final = TableSchema(
    columns=tuple(Column(name=f"c {i}]", type=column_type(native)) for i, native in enumerate(NATIVES))
)
TABLE: Final = ExtractRequest(table=TableName(schema="rep", name="or]ders"))


def compared(name: str, sql: str) -> None:
    path = GOLDEN / f"{name}.sql"
    if os.environ.get("DPONE_WRITE_GOLDENS"):
        path.write_text(sql + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == sql + "\n"
    (parsed,) = sqlglot.parse(sql.replace("?", "@p"), read="tsql")
    assert isinstance(parsed, sqlglot.exp.Select)


def test_every_type_is_read_by_the_expression_in_the_golden_file() -> None:
    values = ",\n  ".join(f"{reading_expression(c)} AS {quote_name(c.name)}" for c in SCHEMA.columns)
    compared("read_every_type", selection(TABLE, SCHEMA).query(f"\n  {values}\n"))


def test_lengths_of_unbounded_values_are_asked_as_in_the_golden_file() -> None:
    asked = [c for c in SCHEMA.columns if c.type.native in ("nvarchar(max)", "text", "xml", "varbinary(max)", "image")]
    parts = ",\n  ".join(f"MAX({length_expression(column)})" for column in asked)
    compared("longest_values", selection(TABLE, SCHEMA).query(f"\n  {parts}\n"))


def test_counts_are_asked_as_in_the_golden_file() -> None:
    request = MetricRequest(side=Side.SOURCE, null_counts=("c 3]",), distinct_counts=("c 3]", "c 21]"))
    asked: list[str] = []

    def first_row(selected: str) -> list[int]:
        asked.append(selected)
        return [4, 3, 2, 1]

    answer = measure(request, SCHEMA, COUNTS, first_row)
    assert answer == {"row_count": 4, "null_counts": {"c 3]": 3}, "distinct_counts": {"c 3]": 2, "c 21]": 1}}
    compared(
        "counts", selection(TABLE, SCHEMA).query("\n  " + asked[0].replace(", COUNT_BIG", ",\n  COUNT_BIG") + "\n")
    )


@pytest.mark.parametrize(
    ("native", "lower", "upper", "parameters"),
    [
        ("tinyint", "1", "200", ("1", "200")),
        ("decimal(5,2)", "100000.5", None, ("100000.5",)),
        ("date", "2024-01-01", None, ("2024-01-01",)),
        ("datetime", "2024-01-01T00:00:00.003", None, ("2024-01-01T00:00:00.003",)),
        ("datetime2(7)", "2024-01-01T00:00:00.1234567", None, ("2024-01-01T00:00:00.1234567",)),
        ("datetime2(0)", "2024-01-01T00:00:00", None, ("2024-01-01T00:00:00",)),
        (
            "datetimeoffset(7)",
            "2024-01-01T02:00:00.1234567+02:00",
            None,
            ("2024-01-01T00:00:00.1234567+00:00",),
        ),
    ],
)
def test_a_bound_is_a_typed_parameter(native: str, lower: str, upper: str | None, parameters: tuple[str, ...]) -> None:
    schema = TableSchema(columns=(Column(name="c", type=column_type(native)),))
    window = CursorWindow(column="c", lower=lower, upper=upper)
    chosen = selection(ExtractRequest(table=TABLE.table, window=window), schema)
    assert chosen.parameters == parameters and lower not in chosen.text
    name = native.replace("(", "_").replace(",", "_").rstrip(")")
    compared(f"window_{name}", chosen.query("[c]"))


@pytest.mark.parametrize(
    ("query", "head", "rest"),
    [
        ("SELECT 1", "", "SELECT 1"),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", "WITH a AS (SELECT 1 AS x)\n", "SELECT x FROM a"),
        ("with a (x, y) as (select 1, 2), b as (select 3) select * from a", None, "select * from a"),
        ("/* WITH */ -- (\n WITH [a)b] AS (SELECT ')' AS x, \"(\" FROM t -- )\n) SELECT 1", None, "SELECT 1"),
        ("WITH a AS (SELECT (1) AS x) /* then */ SELECT 2", None, "SELECT 2"),
        ("SELECT 'WITH a AS (b)'", "", "SELECT 'WITH a AS (b)'"),
        ("WITHOUT", "", "WITHOUT"),
        ("WITH a AS (SELECT 1", "", "WITH a AS (SELECT 1"),
    ],
)
def test_common_table_expressions_stay_in_front(query: str, head: str | None, rest: str) -> None:
    found_head, found_rest = split_with(query)
    assert found_rest == rest
    assert head is None or found_head == head
    assert "".join((found_head + found_rest).split()) in "".join(query.split()) or "/* then */" in query


def test_a_query_with_expressions_becomes_one_statement() -> None:
    text = "WITH a AS (SELECT id FROM dbo.t WHERE v = {{ ds }}) SELECT id FROM a WHERE id > {{ partition_key }}"
    schema = TableSchema(columns=(Column(name="id", type=column_type("int")),))
    request = ExtractRequest(
        query=SqlText(text=text),
        token_values={"ds": "d", "partition_key": "k"},
        window=CursorWindow(column="id", lower="1"),
    )
    chosen = selection(request, schema)
    assert chosen.parameters == ("d", "k", "1") and "Selection" in repr(chosen) and "'d'" not in repr(chosen)
    compared("query_with_expressions", chosen.query("[id]"))


@pytest.mark.parametrize(
    ("uri", "ok"),
    [
        ("mssql://sa:pw@db/shop", True),
        ("mssql://sa:pw@db:1444/shop?encrypt=strict&trust_server_certificate=no", True),
        ("mssql://db/shop", True),
        ("mssql://sa:canary@db/shop?driver=canary", False),
        ("mssql://sa:canary@db/shop?encrypt=maybe", False),
        ("mssql://sa:canary@db/shop?max_text_size=1", False),
        ("mssql://sa:canary@db/shop?max_text_size=canary", False),
        ("mssql://sa:canary@db/shop/canary", False),
        ("mssql://sa:canary@db:canary/shop", False),
        ("mssql://sa:%00canary@db/shop", False),
        ("mssql:///canary", False),
    ],
)
def test_an_address_is_read_or_refused_without_being_shown(uri: str, ok: bool) -> None:
    if ok:
        address_of(connection(uri))
        return
    with pytest.raises(ConnectorError) as raised:
        address_of(connection(uri))
    assert raised.value.code == "connection_uri_invalid" and "canary" not in str(raised.value)


def test_values_of_a_connection_string_cannot_end_early() -> None:
    address = address_of(connection("mssql://us%7Der:p%7D%3BServer%3Devil%3B%7B@db:1444/sh%3Bop"))
    assert brace("a}b") == "{a}}b}"
    assert address.odbc("/lib/driver.so") == (
        "Driver={/lib/driver.so};Server={tcp:db,1444};Encrypt={yes};TrustServerCertificate={no};APP={dpone};"
        "Database={sh;op};UID={us}}er};PWD={p}};Server=evil;{}"
    )
    assert "evil" not in repr(address)


def test_certificates_are_checked_unless_the_uri_says_otherwise() -> None:
    text = address_of(connection("mssql://db/shop")).odbc("d")
    assert "Encrypt={yes};TrustServerCertificate={no}" in text and "Trusted_Connection={yes}" in text


@pytest.mark.parametrize(
    ("os_release", "family"),
    [
        ('ID=debian\nVERSION_ID="12"', "debian_ubuntu"),
        ("ID=linuxmint\nID_LIKE=ubuntu", "debian_ubuntu"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', "rhel"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "suse"),
        ("ID=alpine", "alpine"),
        ("", "debian_ubuntu"),
    ],
)
def test_the_driver_is_chosen_by_distribution(os_release: str, family: str) -> None:
    assert family_of(os_release) == family


def test_an_operator_may_name_the_driver(tmp_path: Path) -> None:
    library = tmp_path / "libmsodbcsql.so"
    with pytest.raises(DriverMissingError):
        driver_path({"DPONE_MSSQL_DRIVER": str(library)})
    library.write_bytes(b"")
    assert driver_path({"DPONE_MSSQL_DRIVER": str(library)}) == str(library)
    assert driver_path({}).endswith(".so.2.1") or "libmsodbcsql" in driver_path({})


def test_a_missing_system_library_comes_with_its_install_line() -> None:
    error = unixodbc_missing_error()
    assert error.code == "DPONE_EXTRA_MISSING" and error.exit_class == 2
    assert "unixodbc" in str(error.fix).lower() and "install" in str(error.fix)


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.engine)
def test_the_table_of_types_says_what_columns_become(row: TypeMapping) -> None:
    for engine in (
        row.engine.removesuffix(" and all others").replace("(p,s)", "(9;2)").replace("(f)", "(3)").split(", ")
    ):
        found = column_type(engine.replace(";", ","))
        assert found.kind.value == row.dpone.partition("(")[0], engine
        wanted = row.dpone.replace("p,s", "9,2").replace("(f)", "(3)")
        if found.kind is not ColumnKind.UNSUPPORTED:
            assert str(found) == wanted, engine


@pytest.mark.parametrize("verb", ["run", "transfer show"])
def test_a_load_without_the_system_library_is_refused_with_its_install_line(tmp_path: Path, verb: str) -> None:
    """The wheel of pyodbc imports, and finds no libodbc: what this machine may have is hidden behind such a module."""
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": "mssql://sa:secret@127.0.0.1:1/shop"})
    project.source("CREATE TABLE orders (id INTEGER NOT NULL)")
    project.written(flow(sink__type="mssql", sink__table={"schema": "dbo", "name": "orders"}))
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "pyodbc.py").write_text('raise ImportError("libodbc.so.2: cannot open shared object file")\n')
    running = project.start(*verb.split(), "m.yaml", environment={"PYTHONPATH": str(hidden)})
    said = "".join(running.communicate())
    assert running.returncode == 2, said
    assert "DPONE_EXTRA_MISSING" in said and "unixODBC is not installed" in said and "install it: " in said
    assert "secret" not in said
