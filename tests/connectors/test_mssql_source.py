"""SQL Server values as they are, or refused by column (MSSQL-01, MSSQL-03, MSSQL-14, MSSQL-17).

Wire-tested against a TDS double; against a server where DPONE_TEST_MSSQL_URI names one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.mssql_servers import MssqlServer, mssql_server
from tests.connectors.sessions import mssql_source
from tests.connectors.tds_double import Fault

T = ExtractRequest(table=TableName(schema=None, name="t"))
READERS = ("auto", "pyodbc")
WIRE = "the wire type has no encoding there"
SEMANTICS = "it is the server's own arithmetic"
LONG = "123456789012345678.12345678901234567890"
GUID = "00112233-4455-6677-8899-aabbccddeeff"

VALUES: tuple[tuple[str, str, object, str], ...] = (
    ("bit", "0", False, ""),
    ("bit", "1", True, ""),
    ("tinyint", "255", 255, ""),
    ("smallint", "-32768", -32768, ""),
    ("int", "-2147483648", -(2**31), ""),
    ("bigint", "-9223372036854775808", -(2**63), ""),
    (
        "decimal(38,20)",
        "123456789012345678.12345678901234567890",
        Decimal("123456789012345678.12345678901234567890"),
        "",
    ),
    (
        "decimal(38,0)",
        "-99999999999999999999999999999999999999",
        Decimal("-99999999999999999999999999999999999999"),
        "",
    ),
    ("numeric(9,4)", "-0.0001", Decimal("-0.0001"), ""),
    ("money", "922337203685477.5807", Decimal("922337203685477.5807"), ""),
    ("money", "1.00", Decimal("1.0000"), ""),
    ("smallmoney", "-214748.3648", Decimal("-214748.3648"), ""),
    ("real", "1.5", 1.5, ""),
    ("float", "0.1", 0.1, ""),
    ("float", "1.7976931348623157e308", 1.7976931348623157e308, ""),
    ("date", "'0001-01-01'", date(1, 1, 1), ""),
    ("date", "'9999-12-31'", date(9999, 12, 31), ""),
    ("time(0)", "'23:59:59'", clock(23, 59, 59), ""),
    ("time(6)", "'01:23:45.012345'", clock(1, 23, 45, 12345), ""),
    ("smalldatetime", "'2079-06-06 23:59:00'", datetime(2079, 6, 6, 23, 59), ""),
    ("datetime", "'1753-01-01 00:00:00'", datetime(1753, 1, 1), ""),
    ("datetime", "'9999-12-31 23:59:59.997'", datetime(9999, 12, 31, 23, 59, 59, 997000), ""),
    ("datetime", "'2024-01-01 00:00:00.002'", datetime(2024, 1, 1, 0, 0, 0, 3000), SEMANTICS),
    ("datetime2(6)", "'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999), ""),
    ("datetime2(3)", "'2918-01-01 00:00:00.125'", datetime(2918, 1, 1, 0, 0, 0, 125000), ""),
    ("datetime2(0)", "'0001-01-01 00:00:00'", datetime(1, 1, 1), ""),
    (
        "datetimeoffset(6)",
        "CAST('2026-01-31T10:00:00.123456+05:45' AS datetimeoffset(6))",
        datetime(2026, 1, 31, 4, 15, 0, 123456, tzinfo=UTC),
        "",
    ),
    ("uniqueidentifier", f"'{GUID}'", UUID(GUID).bytes, ""),
    ("char(5)", "'ab   '", "ab   ", ""),
    ("varchar(20)", "''", "", ""),
    ("nvarchar(20)", "N''", "", ""),
    ("nvarchar(20)", "N'é😀 ''x'", "é😀 'x", ""),
    ("nvarchar(max)", "N''", "", ""),
    ("nvarchar(max)", "N'é😀'", "é😀", ""),
    ("nvarchar(4000)", "REPLICATE(N'x', 4000)", "x" * 4000, ""),
    ("varchar(max)", "'a'", "a", ""),
    ("ntext", "N'old é'", "old é", ""),
    ("xml", "'<a>1</a>'", "<a>1</a>", ""),
    ("binary(2)", "0x00FF", b"\x00\xff", ""),
    ("varbinary(10)", "CAST('' AS varbinary(10))", b"", ""),
    ("varbinary(10)", "0x00C328", b"\x00\xc3\x28", ""),
    ("varbinary(max)", "0x00C328", b"\x00\xc3\x28", ""),
    ("image", "0x01", b"\x01", ""),
)
SEVENTH = (
    ("time(7)", "'01:23:45.0123456'", "01:23:45.012345600"),
    ("datetime2(7)", "'2024-01-01 01:02:03.1234567'", "2024-01-01 01:02:03.123456700"),
    (
        "datetimeoffset(7)",
        "CAST('2026-01-31T10:00:00.1234567+05:45' AS datetimeoffset(7))",
        "2026-01-31 04:15:00.123456700Z",
    ),
)


@pytest.fixture(scope="module")
def server() -> Iterator[MssqlServer]:
    with mssql_server() as server:
        yield server


@pytest.fixture
def run(server: MssqlServer) -> MssqlServer:
    server.run("DROP TABLE IF EXISTS dbo.t")
    return server


@pytest.fixture
def ports(server: MssqlServer) -> Iterator[SourcePorts]:
    with mssql_source(server.uri) as ports:
        yield ports


def read(ports: SourcePorts, request: ExtractRequest = T) -> list[dict[str, object]]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [row for batch in stream.batches() for row in batch.to_pylist()]


def query(text: str, **tokens: str) -> ExtractRequest:
    return ExtractRequest(query=SqlText(text=text), token_values=tokens)


@pytest.fixture(scope="module")
def all_values(server: MssqlServer) -> dict[tuple[str, str], list[dict[str, object]]]:
    """Two rows of one table with a column per value, the second one NULL; by reader, as table and as query."""
    columns = ", ".join(f"c{i} {declared} NULL" for i, (declared, _, _, _) in enumerate(VALUES))
    literals = ", ".join(literal for _, literal, _, _ in VALUES)
    server.run(
        "DROP TABLE IF EXISTS dbo.every_type",
        f"CREATE TABLE dbo.every_type (n int NOT NULL PRIMARY KEY, {columns})",
        f"INSERT INTO dbo.every_type VALUES (1, {literals})",
        "INSERT INTO dbo.every_type (n) VALUES (2)",
    )
    found = {}
    for reader in READERS:
        with mssql_source(f"{server.uri}&reader={reader}") as ports:
            table = ExtractRequest(table=TableName(schema="dbo", name="every_type"))
            found[reader, "table"] = sorted(read(ports, table), key=lambda row: str(row["n"]))
            asked = query("SELECT * FROM dbo.every_type")
            found[reader, "query"] = sorted(read(ports, asked), key=lambda row: str(row["n"]))
    return found


@pytest.mark.parametrize("asked", ["table", "query"])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("number", range(len(VALUES)), ids=[f"{d}={v[:20]}" for d, v, _, _ in VALUES])
def test_a_value_is_read_exactly(
    server: MssqlServer,
    all_values: dict[tuple[str, str], list[dict[str, object]]],
    reader: str,
    asked: str,
    number: int,
) -> None:
    _, _, wanted, unverified = VALUES[number]
    if unverified:
        server.needs_a_server(unverified)
    value, null = (row[f"c{number}"] for row in all_values[reader, asked])
    assert value == wanted and type(value) is type(wanted)
    assert null is None


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("declared", "literal", "wanted"), SEVENTH)
def test_the_seventh_digit_of_a_second_is_kept(
    run: MssqlServer, reader: str, declared: str, literal: str, wanted: str
) -> None:
    run.needs_a_server("it keeps six digits of a second")
    run.run(f"CREATE TABLE dbo.t (v {declared})", f"INSERT INTO dbo.t VALUES ({literal})")
    with mssql_source(f"{run.uri}&reader={reader}") as ports:
        (batch,) = ports.source.open_stream(T, ports.source.describe(T)).batches()
    assert batch.column("v").cast(pa.string()).to_pylist() == [wanted]


@pytest.mark.parametrize("declared", ["datetime2(7)", "datetimeoffset(7)"])
def test_what_nanoseconds_cannot_hold_is_refused_by_column(run: MssqlServer, ports: SourcePorts, declared: str) -> None:
    """The default precision: a date that stands for "never" is named with its way out."""
    run.run(f"CREATE TABLE dbo.t ([until] {declared})", "INSERT INTO dbo.t VALUES ('9999-12-31 00:00:00')")
    with pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "source_value_out_of_range" and "'until'" in str(raised.value)
    assert "CAST" in str(raised.value.fix) and "9999" not in str(raised.value)


def test_the_way_out_of_the_seventh_digit_works(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (v datetime2(7))", "INSERT INTO dbo.t VALUES ('9999-12-31 00:00:00')")
    assert read(ports, query("SELECT CAST(v AS datetime2(6)) AS v FROM dbo.t")) == [{"v": datetime(9999, 12, 31)}]


@pytest.mark.parametrize("declared", ["sql_variant", "hierarchyid", "geography", "geometry"])
def test_a_column_without_exact_form_is_described_and_refused_by_name(
    run: MssqlServer, ports: SourcePorts, declared: str
) -> None:
    run.run(f"CREATE TABLE dbo.t (id int, g {declared})")
    column = ports.source.describe(T).columns[1]
    assert (column.type.kind, column.type.native) == (ColumnKind.UNSUPPORTED, declared)
    with pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "source_column_unsupported" and "'g'" in str(raised.value)


def test_a_rowversion_is_eight_bytes(run: MssqlServer, ports: SourcePorts) -> None:
    run.needs_a_server("the server fills it in")
    run.run("CREATE TABLE dbo.t (id int, v rowversion)", "INSERT INTO dbo.t (id) VALUES (1)")
    ((value,),) = ([row["v"]] for row in read(ports))
    assert isinstance(value, bytes) and len(value) == 8


@pytest.mark.parametrize("reader", READERS)
def test_types_do_not_come_from_the_first_batch(run: MssqlServer, reader: str) -> None:
    run.run("CREATE TABLE dbo.t (b bit, m money)", "INSERT INTO dbo.t VALUES (NULL, NULL), (NULL, 123456.7890)")
    with mssql_source(f"{run.uri}&reader={reader}") as ports:
        (batch,) = ports.source.open_stream(T, ports.source.describe(T)).batches()
    assert batch.schema.types == [pa.bool_(), pa.decimal128(19, 4)]


def test_nullability_comes_from_the_catalog(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (a int NOT NULL, b int NULL, c int PRIMARY KEY)")
    assert [column.nullable for column in ports.source.describe(T).columns] == [False, True, False]


@pytest.mark.parametrize("kind", ["nvarchar(max)", "varbinary(max)"])
def test_an_unbounded_value_is_whole_up_to_the_limit_and_refused_beyond(run: MssqlServer, kind: str) -> None:
    literal = {"nvarchar(max)": "REPLICATE(CAST(N'x' AS nvarchar(max)), {})"}.get(
        kind, "CAST(REPLICATE(CAST('x' AS varchar(max)), {}) AS varbinary(max))"
    )
    run.run(f"CREATE TABLE dbo.t (id int, other nvarchar(max), v {kind})")
    with mssql_source(f"{run.uri}&max_text_size=8000") as ports:
        run.run(f"INSERT INTO dbo.t VALUES (1, N'y', {literal.format(8000)})")
        assert [len(row["v"]) for row in read(ports)] == [8000]  # type: ignore[arg-type]
        run.run(f"INSERT INTO dbo.t VALUES (2, N'z', {literal.format(8001)})")
        with pytest.raises(ConnectorError) as raised:
            read(ports)
    assert raised.value.code == "source_value_out_of_range"
    assert "'v'" in str(raised.value) and "8000" in str(raised.value) and "max_text_size" in str(raised.value.fix)
    with mssql_source(f"{run.uri}&reader=pyodbc") as ports:
        assert sorted(len(row["v"]) for row in read(ports)) == [8000, 8001]  # type: ignore[arg-type]


def test_surrogate_pairs_count_as_the_driver_counts_them(run: MssqlServer) -> None:
    run.run("CREATE TABLE dbo.t (v nvarchar(max))")
    run.run("INSERT INTO dbo.t VALUES (REPLICATE(CAST(N'😀' AS nvarchar(max)), 4000))")
    with mssql_source(f"{run.uri}&max_text_size=8000") as ports:
        assert read(ports) == [{"v": "😀" * 4000}]


def test_names_beyond_ascii_are_read_by_the_reader_that_can(
    run: MssqlServer, ports: SourcePorts, caplog: pytest.LogCaptureFixture
) -> None:
    run.run("CREATE TABLE dbo.t ([größe] int, [a b] int)", "INSERT INTO dbo.t VALUES (1, 2)")
    with caplog.at_level(logging.INFO, "dpone"):
        assert read(ports) == [{"größe": 1, "a b": 2}]
    assert [record.getMessage() for record in caplog.records] == [
        "mssql source: reader=pyodbc (names or values beyond ASCII), read committed, no snapshot"
    ]


def test_the_path_that_ran_is_logged_with_its_reason(run: MssqlServer, caplog: pytest.LogCaptureFixture) -> None:
    run.run("CREATE TABLE dbo.t (id int, v nvarchar(max))")
    with caplog.at_level(logging.INFO, "dpone"):
        for reader in READERS:
            with mssql_source(f"{run.uri}&reader={reader}") as ports:
                read(ports)
                read(ports, query("SELECT id FROM dbo.t WITH (NOLOCK)"))
    assert [record.getMessage() for record in caplog.records] == [
        "mssql source: reader=arrow-odbc (unbounded values up to 32768 units), read committed, no snapshot",
        "mssql source: the query reads uncommitted rows; its counts cannot be reconciled",
        "mssql source: reader=arrow-odbc (no unbounded column), read committed, no snapshot",
        "mssql source: reader=pyodbc (asked for by the connection), read committed, no snapshot",
        "mssql source: the query reads uncommitted rows; its counts cannot be reconciled",
        "mssql source: reader=pyodbc (asked for by the connection), read committed, no snapshot",
    ]


@pytest.mark.parametrize("reader", READERS)
def test_snapshot_isolation_is_checked_before_it_is_used(run: MssqlServer, reader: str) -> None:
    if run.double is None:
        pytest.skip("UNVERIFIED: the database's own setting decides on a server")
    run.run("CREATE TABLE dbo.t (id int)")
    with mssql_source(f"{run.uri}&isolation=snapshot&reader={reader}") as ports:
        with pytest.raises(ConnectorError) as raised:
            read(ports)
        assert raised.value.code == "source_refused" and "SNAPSHOT" in str(raised.value.fix)
        run.double.native("UPDATE double_sys.databases SET snapshot_isolation_state = 1")
        try:
            assert read(ports) == []
        finally:
            run.double.native("UPDATE double_sys.databases SET snapshot_isolation_state = 0")
    assert any("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT" in batch for batch in run.double.received)


def test_tokens_are_bound_in_common_table_expressions_too(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (id bigint, v nvarchar(20))", "INSERT INTO dbo.t VALUES (1, N'it''s'), (2, N'other')")
    asked = query(
        "-- all of them\nWITH a AS (SELECT id, v FROM dbo.t WHERE v = {{ run_id }}), /* ) */\n"
        "b AS (SELECT id, v FROM a)\n"
        "SELECT id, v FROM b WHERE 'y' = {{ ds }}",
        run_id="it's",
        ds="y",
    )
    assert read(ports, asked) == [{"id": 1, "v": "it's"}]
    windowed = ExtractRequest(
        query=asked.query, token_values=asked.token_values, window=CursorWindow(column="id", lower="1", upper="2")
    )
    assert read(ports, windowed) == [{"id": 1, "v": "it's"}]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT 1 AS a; SELECT 2 AS b", "source_request_invalid"),
        ("", "source_request_invalid"),
        ("SELECT * FROM dbo.canary_missing", "source_object_not_found"),
        ("SELECT canary_column FROM dbo.t", "source_query_refused"),
        ("SELECT canary FROM", "source_query_refused"),
    ],
)
def test_a_query_that_cannot_be_described_says_why(run: MssqlServer, ports: SourcePorts, text: str, code: str) -> None:
    run.run("CREATE TABLE dbo.t (id int)")
    with pytest.raises(ETLExecutionError) as raised:
        ports.source.describe(query(text))
    assert raised.value.code == code and "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("declared", "values", "greatest", "window", "inside"),
    [
        ("tinyint", ("1", "200"), "200", ("2", None), [200]),
        ("decimal(30,10)", ("1.5", "2.5"), "2.5000000000", ("1.5000000000", "2.5"), [Decimal("1.5")]),
        ("date", ("'2024-01-01'", "'2024-02-01'"), "2024-02-01", (None, "2024-02-01"), [date(2024, 1, 1)]),
        (
            "datetime2(6)",
            ("'2024-01-01 00:00:00.5'", "'2024-01-02 00:00:00.25'"),
            "2024-01-02T00:00:00.25",
            ("2024-01-01T00:00:00.500000", "2024-01-02T00:00:00"),
            [datetime(2024, 1, 1, 0, 0, 0, 500000)],
        ),
        (
            "datetime",
            ("'2024-01-01 00:00:00.500'", "'2024-01-02 00:00:00.250'"),
            "2024-01-02T00:00:00.25",
            ("2024-01-01T00:00:00.5", "2024-01-02T00:00:00"),
            [datetime(2024, 1, 1, 0, 0, 0, 500000)],
        ),
        (
            "datetimeoffset(6)",
            (
                "CAST('2024-01-01T05:00:00.5+05:00' AS datetimeoffset(6))",
                "CAST('2024-01-02T05:00:00.25+05:00' AS datetimeoffset(6))",
            ),
            "2024-01-02T00:00:00.25+00:00",
            ("2024-01-01T02:00:00.5+02:00", "2024-01-02T00:00:00+00:00"),
            [datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)],
        ),
    ],
)
def test_a_cursor_is_exact(
    run: MssqlServer,
    ports: SourcePorts,
    declared: str,
    values: tuple[str, ...],
    greatest: str,
    window: tuple[str | None, str | None],
    inside: list[object],
) -> None:
    run.run(f"CREATE TABLE dbo.t (c {declared})", "INSERT INTO dbo.t VALUES (NULL)")
    assert ports.source.cursor_maximum(T, "c") is None
    run.run(f"INSERT INTO dbo.t VALUES {', '.join(f'({value})' for value in values)}")
    found = ports.source.cursor_maximum(T, "c")
    assert found is not None and _padded(found) == _padded(greatest)
    asked = CursorWindow(column="c", lower=window[0], upper=window[1])
    assert [row["c"] for row in read(ports, ExtractRequest(table=T.table, window=asked))] == inside
    again = CursorWindow(column="c", lower=found)
    assert len(read(ports, ExtractRequest(table=T.table, window=again))) == 1


def _padded(text: str) -> object:
    """A server writes every digit of a second, the double none that is zero."""
    return datetime.fromisoformat(text) if "T" in text else text


def test_text_is_no_cursor_under_a_collation(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (c nvarchar(9))")
    with pytest.raises(ConnectorError) as raised:
        ports.source.cursor_maximum(T, "c")
    assert raised.value.code == "source_column_unsupported"


@pytest.mark.parametrize(
    ("declared", "text"), [("int", "1; DROP"), ("date", "soon"), ("datetime2", "2024-01-01T00:00:00Z")]
)
def test_a_bound_of_another_kind_is_refused(run: MssqlServer, ports: SourcePorts, declared: str, text: str) -> None:
    run.run(f"CREATE TABLE dbo.t (c {declared})")
    with pytest.raises(ConnectorError) as raised:
        read(ports, ExtractRequest(table=T.table, window=CursorWindow(column="c", lower=text)))
    assert raised.value.code == "cursor_value_invalid"


def test_distinct_counts_tell_case_and_blanks_apart(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (v nvarchar(9))")
    run.run("INSERT INTO dbo.t VALUES (N'abc'), (N'ABC'), (N'abc '), (N'äbc'), (NULL)")
    assert ports.metrics is not None
    answer = ports.metrics.collect(
        MetricRequest(side=Side.SOURCE, extract=T, null_counts=("v",), distinct_counts=("v",))
    )
    assert answer == {"row_count": 5, "null_counts": {"v": 1}, "distinct_counts": {"v": 4}}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_connection_that_drops_is_no_short_success(run: MssqlServer, reader: str, stage: str) -> None:
    if run.double is None:
        pytest.skip("UNVERIFIED: no faults on a server")
    run.run("CREATE TABLE dbo.t (id int)", "INSERT INTO dbo.t VALUES (1)")
    with mssql_source(f"{run.uri}&reader={reader}") as ports:
        schema = ports.source.describe(T)
        run.double.faults = [Fault(match=r"ISOLATION LEVEL", stage=stage)]
        with pytest.raises(ETLExecutionError) as raised:
            list(ports.source.open_stream(T, schema).batches())
    assert raised.value.code in ("source_unreachable", "source_query_refused")


@pytest.mark.parametrize(("number", "code"), [(208, "source_object_not_found"), (1205, "source_query_refused")])
def test_errors_of_the_catalog_have_stable_codes(run: MssqlServer, ports: SourcePorts, number: int, code: str) -> None:
    if run.double is None:
        pytest.skip("UNVERIFIED: no faults on a server")
    run.double.faults = [Fault(match="INFORMATION_SCHEMA", stage="before", number=number)]
    with pytest.raises(ETLExecutionError) as raised:
        ports.source.describe(T)
    assert raised.value.code == code and "injected" in str(raised.value.__cause__)
    assert "injected" not in str(raised.value)


def test_a_certificate_nobody_vouches_for_is_refused_unless_the_uri_says_so(server: MssqlServer) -> None:
    if server.double is None:
        pytest.skip("UNVERIFIED: the double's certificate is its own, a server's may be good")
    checked = server.uri.replace("trust_server_certificate=yes", "trust_server_certificate=no")
    with pytest.raises(ConnectorError) as raised, mssql_source(checked):
        pass
    assert raised.value.code == "source_unreachable" and "certificate" in str(raised.value.__cause__).lower()


@pytest.mark.parametrize(
    ("host", "user"),
    [
        pytest.param("127.0.0.1:1", "sa", marks=pytest.mark.slow),  # the driver asks again until its login timeout
        ("127.0.0.1:{port}", "canary"),
    ],
)
def test_a_server_that_does_not_answer_or_refuses_the_login_says_so(server: MssqlServer, host: str, user: str) -> None:
    if server.double is None:
        pytest.skip("UNVERIFIED: the address of the double is used")
    place = host.format(port=server.double.port)
    address = f"mssql://{user}:canary@{place}/double?trust_server_certificate=yes"
    with pytest.raises(ConnectorError) as raised, mssql_source(address):
        pass
    assert raised.value.code == "source_unreachable" and "canary" not in str(raised.value)
