"""CSV and NDJSON are read as declared, exactly, and refused by file, line and column: never guessed, never shown.

Contract: VAL-11.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors.files import csv_blocks
from dpone_core.connectors.files.open import open_source
from dpone_core.connectors.files.sink.load import FilesLoad
from dpone_core.connectors.files.source import ndjson as ndjson_reading
from dpone_core.errors import ConnectorError
from dpone_core.model.file_reading import CsvDelimiter, CsvDialect, FileReading, MissingKeys, declared_type
from dpone_core.model.load_config import PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.testing.builders import ORDERS, batch_of, stage_request
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.sessions import connection

ROWS = 70_000
CANARY = "s3cret"


def columns(**types: str) -> tuple[Column, ...]:
    """`name="int64"`, `name="int64!"` for not null."""
    found = []
    for name, text in types.items():
        declared = declared_type(text.rstrip("!"))
        assert declared is not None, text
        found.append(Column(name=name, type=declared, nullable=not text.endswith("!")))
    return tuple(found)


def request(file_format: str, path: str = "*", **fields: object) -> ExtractRequest:
    reading = FileReading(**fields)  # type: ignore[arg-type]
    return ExtractRequest(path=path, format=file_format, reading=reading)


def read(directory: Path, asked: ExtractRequest) -> list[dict[str, object]]:
    with open_source(connection(f"file:///{directory}")) as ports:
        stream = ports.source.open_stream(asked, ports.source.describe(asked))
        return [row for batch in stream.batches() for row in batch.to_pylist()]


def refusal(directory: Path, asked: ExtractRequest) -> ConnectorError:
    with pytest.raises(ConnectorError) as raised:
        read(directory, asked)
    assert CANARY not in str(raised.value) and str(directory) not in str(raised.value)
    return raised.value


def csv(directory: Path, content: bytes | str, name: str = "a.csv") -> Path:
    (directory / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


ndjson = csv


# conformance

ORDERS_COLUMNS = columns(id="int64!", name="string", amount="decimal(18,4)")


class TextConformance(SourceConformance):
    file_format = ""

    @staticmethod
    def lines(ids: range) -> str:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSource]:
        directory = tmp_path_factory.mktemp(cls.file_format)
        for part, ids in enumerate((range(100), range(100, ROWS))):
            (directory / f"part-{part}.{cls.file_format}").write_text(cls.lines(ids))
        (directory / f"_hidden.{cls.file_format}").write_text("nonsense")
        asked = request(cls.file_format, ".", columns=ORDERS_COLUMNS)
        with open_source(connection(f"file:///{directory}")) as ports:
            yield OpenSource(
                ports=ports,
                request=replace(asked, path=f"part-*.{cls.file_format}"),
                absent=replace(asked, path="nothing/*"),
                rows=ROWS,
                narrowed=lambda window: replace(asked, window=window),
            )


class TestCsvFiles(TextConformance):
    file_format = "csv"

    @staticmethod
    def lines(ids: range) -> str:
        rows = "".join(f"{i / 10_000:.4f},{i},{'n' if i % 2 == 0 else chr(92) + 'N'}\n" for i in ids)
        return "amount,id,name\n" + rows


class TestNdjsonFiles(TextConformance):
    file_format = "ndjson"

    @staticmethod
    def lines(ids: range) -> str:
        return "".join(
            f'{{"amount": {i / 10_000:.4f}, "id": {i}, "name": {chr(34) + "n" + chr(34) if i % 2 == 0 else "null"}}}\n'
            for i in ids
        )


# what our own sink writes

KIND = ColumnKind
WRITTEN: list[tuple[str, list[object]]] = [
    ("boolean", [True, False, None]),
    ("int8", [-128, 127, None]),
    ("int64", [-(2**63), 2**63 - 1, None]),
    ("uint64", [0, 2**64 - 1, None]),
    ("float32", [0.5, -1.5, None]),
    ("float64", [0.1, 5e-324, 1.7976931348623157e308, -0.0, None]),
    ("decimal(38,10)", [Decimal("1E-10"), Decimal("-12.5"), Decimal(0), None]),
    ("decimal(60,2)", [Decimal("9" * 58 + ".99"), None]),
    ("string", ["", "a\0b", "\r\n", "a\n\nb", "😀", "\u2028", '"', '""', "\\", "\\N", " x ", "{}", '{"v": 1}', None]),
    ("binary", [b"", b"\xff\0a", None]),
    ("date", [date(1, 1, 1), date(9999, 12, 31), None]),
    ("time(6)", [time(0, 0), time(23, 59, 59, 999999), None]),
    ("timestamp(6)", [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    ("timestamp_tz(3)", [datetime(1900, 1, 1, 0, 0, 0, 1000, UTC), None]),
    ("uuid", [bytes(range(16)), None]),
]


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
@pytest.mark.parametrize(("declared", "values"), WRITTEN)
def test_what_the_files_sink_writes_is_read_back_exactly(
    tmp_path: Path, file_format: str, declared: str, values: list[object]
) -> None:
    schema = TableSchema(columns=(*columns(id="int64!"), *columns(v=declared)))
    arrow = arrow_schema(schema)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(values)), pa.int64()), pa.array(values, arrow.field("v").type)], schema=arrow
    )
    staged = replace(
        stage_request(TableName(schema="raw", name="t"), schema=schema),
        physical_design=PhysicalDesign(file_format=file_format),
    )
    FilesLoad(tmp_path).load(staged, iter([batch]))
    found = read(tmp_path, request(file_format, "raw/t", columns=schema.columns))
    assert [repr(row["v"]) for row in found] == [repr(value) for value in batch.column("v").to_pylist()]


# CSV


def test_undeclared_columns_are_text_and_nothing_is_guessed(tmp_path: Path) -> None:
    csv(tmp_path, 'a,b\n007,1e3\n\\N,"\\N"\n')
    assert read(tmp_path, request("csv")) == [{"a": "007", "b": "1e3"}, {"a": None, "b": "\\N"}]


def test_one_declared_token_is_null_and_only_without_quotes(tmp_path: Path) -> None:
    csv(tmp_path, 'i,v\n0,\n1,""\n2,\\N\n3,"\\N"\n4,NULL\n')
    wanted = {
        "\\N": ["", "", None, "\\N", "NULL"],
        "": [None, "", "\\N", "\\N", "NULL"],
        "NULL": ["", "", "\\N", "\\N", None],
    }
    for token, values in wanted.items():
        found = read(tmp_path, request("csv", csv=CsvDialect(null=token)))
        assert [row["v"] for row in found] == values


@pytest.mark.parametrize("delimiter", CsvDelimiter)
def test_every_delimiter_and_a_file_without_header(tmp_path: Path, delimiter: CsvDelimiter) -> None:
    mark = delimiter.character
    csv(tmp_path, f'1{mark}"a{mark}""b"\r\n2{mark}c')
    asked = request("csv", columns=columns(i="int32", s="string"), csv=CsvDialect(delimiter=delimiter, header=False))
    assert read(tmp_path, asked) == [{"i": 1, "s": f'a{mark}"b'}, {"i": 2, "s": "c"}]


def test_columns_are_found_by_name_in_every_file(tmp_path: Path) -> None:
    csv(tmp_path, "a,b\n1,x\n")
    csv(tmp_path, '"b","a"\ny,2\n', "b.csv")
    asked = request("csv", columns=columns(a="int64", b="string"))
    assert read(tmp_path, asked) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("second", "declared"), [("a\n1\n", True), ("a,b,c\n1,2,3\n", True), ("a,c\n1,2\n", True), ("a\n1\n", False)]
)
def test_another_header_is_refused_by_file_and_column(tmp_path: Path, second: str, declared: bool) -> None:
    csv(tmp_path, "a,b\n1,2\n")
    csv(tmp_path, second, "b.csv")
    error = refusal(tmp_path, request("csv", columns=columns(a="int64", b="int64") if declared else ()))
    assert error.code == "source_schema_inconsistent" and "file 1" in str(error)


MALFORMED_CSV = [
    (b"a,b\n1,2\n1\n", 3),
    (b'a,b\n"1\n1",2\n1,2,3\n', 4),
    (b"a,b\n1,2\n\n", 3),
    (b"a,b\r\n\r\n1,2\r\n", 2),
    (b'a,b\n1,"x"y\n', 2),
    (b'a,b\n1,x"y\n', 2),
    (b'a,b\n1,"x" \n', 2),
    (b'a,b\n1,2\n1,"x\n1,2\n', 3),
    (b"a,b\n1,2\r1,2\n", 2),
    (b"\xef\xbb\xbfa,b\n1,2\n", 1),
    (b"\xff\xfea\x00", 1),
    (b"a,a\n1,2\n", 1),
    (b"a,\n1,2\n", 1),
    (b'a,"b\n1,2\n', 1),
    (b"a,\xff\n1,2\n", 1),
    (b"", 1),
]


@pytest.mark.parametrize(("content", "line"), MALFORMED_CSV)
def test_a_malformed_csv_file_is_refused_by_line(tmp_path: Path, content: bytes, line: int) -> None:
    csv(tmp_path, b"a,b\n1,2\n", "0.csv")
    csv(tmp_path, content, "1.csv")
    error = refusal(tmp_path, request("csv"))
    assert error.code == "source_file_malformed"
    assert f"file 1 of the source, line {line}:" in str(error)


@pytest.mark.parametrize(
    ("content", "words", "fix"),
    [
        (b"", "is empty", "header"),
        (b"a,b\r1,2\r", "carriage return alone", "CRLF"),
        (b"na\xefve,b\n1,2\n", "header line is not UTF-8", "iconv"),
    ],
)
def test_a_header_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, words: str, fix: str) -> None:
    csv(tmp_path, content)
    error = refusal(tmp_path, request("csv"))
    assert words in str(error) and fix in str(error.fix)


def test_a_text_in_another_encoding_says_so(tmp_path: Path) -> None:
    csv(tmp_path, b"a,b\n1,x\n2,na\xefve\n")
    error = refusal(tmp_path, request("csv"))
    assert "line 3, column 'b': a text is not UTF-8" in str(error) and "iconv" in str(error.fix)


def test_records_stay_whole_across_every_border_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'a,b\n"x""y\n\nz",""\n"",1\n2,"\r"\n'
    wanted = [{"a": 'x"y\n\nz', "b": ""}, {"a": "", "b": "1"}, {"a": "2", "b": "\r"}]
    for size in range(4, 40):
        monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", size)
        assert read(csv(tmp_path, text), request("csv")) == wanted
        assert "line 7:" in str(refusal(csv(tmp_path, text + '3,"x"y\n'), request("csv")))
        assert "line 7:" in str(refusal(csv(tmp_path, text + '3,"x\n' + "4,5\n" * 9), request("csv")))
        assert "line 7:" in str(refusal(csv(tmp_path, text + "3\n"), request("csv")))


MISFITS = [
    ("int8", "128"), ("int64", ""), ("int64", "0x10"), ("int64", "1.0"), ("int64", " 1"), ("uint8", "-1"),
    ("decimal(9,2)", "1.239"), ("decimal(9,2)", "12345678.00"), ("decimal(9,2)", "nan"), ("float64", "1e999"),
    ("float32", "1e39"), ("float64", "1,5"), ("boolean", "yes"), ("date", "2024-02-30"), ("date", "1.2.2024"),
    ("timestamp(6)", "2024-01-01T00:00:00Z"), ("timestamp(3)", "2024-01-01T00:00:00.1234"),
    ("timestamp_tz(6)", "2024-01-01T00:00:00"), ("time(6)", "24:00:00"), ("uuid", "1234"), ("binary", "xyz"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "text"), MISFITS)
def test_a_value_that_does_not_fit_is_refused_by_line_and_column(tmp_path: Path, declared: str, text: str) -> None:
    rows = "".join('"\n",\\N\n' for _ in range(1000))
    quoted = f'"{text}"' if "," in text else text
    csv(tmp_path, f"pad,v\n{rows}x,{quoted}\n{rows}")
    error = refusal(tmp_path, request("csv", columns=columns(pad="string", v=declared)))
    assert error.code == "source_value_out_of_range"
    assert "file 0 of the source, line 2002, column 'v'" in str(error)
    assert not text.strip() or text not in str(error).replace(declared, "")


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
@pytest.mark.parametrize("by", ["columns", "not_null"])
def test_a_null_in_a_column_declared_without_is_refused(tmp_path: Path, file_format: str, by: str) -> None:
    content = "a\n1\n\\N\n" if file_format == "csv" else '{"a": 1}\n{"a": null}\n'
    csv(tmp_path, content)
    declared = (
        {"columns": columns(a="int64!")} if by == "columns" else {"columns": columns(a="int64"), "not_null": ("a",)}
    )
    error = refusal(tmp_path, request(file_format, **declared))
    assert error.code == "source_value_out_of_range" and f"line {3 if file_format == 'csv' else 2}" in str(error)
    assert "'a'" in str(error) and "NULL" in str(error)


def test_text_that_is_not_utf8_is_refused_by_line_and_column(tmp_path: Path) -> None:
    csv(tmp_path, b"a,b\n1,2\n3,\xff\n")
    error = refusal(tmp_path, request("csv"))
    assert "line 3, column 'b'" in str(error)


def test_files_without_rows_are_empty(tmp_path: Path) -> None:
    csv(tmp_path, "a,b\n", "a.csv")
    csv(tmp_path, "a,b", "b.csv")
    assert read(tmp_path, request("csv")) == []
    (tmp_path / "n").mkdir()
    csv(tmp_path / "n", "", "a.ndjson")
    assert read(tmp_path / "n", request("ndjson", columns=columns(a="int64"))) == []


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_compressed_files_are_read_by_extension_and_a_torn_one_is_an_error(
    tmp_path: Path, ending: str, file_format: str
) -> None:
    content = ("a\n" + "12345\n" * 50_000 if file_format == "csv" else '{"a": 12345}\n' * 50_000).encode()
    packed = gzip.compress(content) if ending == "gz" else pa.compress(content, "zstd", asbytes=True)
    path = tmp_path / f"a.{file_format}.{ending}"
    path.write_bytes(packed)
    asked = request(file_format, ".", columns=columns(a="int64"))
    assert len(read(tmp_path, asked)) == 50_000
    path.write_bytes(packed[:-4])
    assert refusal(tmp_path, asked).code in ("source_unreachable", "source_file_malformed")


def test_two_gzip_members_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n1\n") + gzip.compress(b"2\n"))
    assert read(tmp_path, request("csv", ".")) == [{"a": "1"}, {"a": "2"}]


def test_a_row_longer_than_a_block_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv_blocks, ndjson_reading):
        monkeypatch.setattr(module, "MAX_ROW_BYTES", 100)
        monkeypatch.setattr(module, "BLOCK_BYTES", 50)
    csv(tmp_path, "a,b\n1,2\n" + "x" * 1000 + ",1\n")
    error = refusal(tmp_path, request("csv"))
    assert error.code == "source_file_malformed" and "line 3: a row is longer" in str(error)
    ndjson(tmp_path, '{"a": "1"}\n{"a": "' + "x" * 1000 + '"}\n')
    error = refusal(tmp_path, request("ndjson", columns=columns(a="string")))
    assert error.code == "source_file_malformed" and "line 2: a line is longer" in str(error)


# NDJSON

ALL = columns(i="int64", d="decimal(18,4)", f="float64", s="string", b="boolean", u="uint64")
WHOLE = {"i": 1, "d": "1.5", "f": 0.5, "s": "x", "b": True, "u": 2}


def line(**changes: object) -> str:
    return json.dumps({key: value for key, value in {**WHOLE, **changes}.items() if value is not ...}) + "\n"


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("i", "9007199254740993", 9007199254740993),
        ("i", "-9223372036854775808", -(2**63)),
        ("u", "18446744073709551615", 2**64 - 1),
        ("d", "12345678901234.5678", Decimal("12345678901234.5678")),
        ("d", '"12345678901234.5678"', Decimal("12345678901234.5678")),
        ("d", "0.1", Decimal("0.1000")),
        ("d", "1e2", Decimal("100.0000")),
        ("f", "5", 5.0),
        ("s", '"\\u00e9\\ud83d\\ude00\\u0000"', "é😀\0"),
        ("s", '""', ""),
        ("s", "null", None),
    ],
)
def test_a_value_is_parsed_from_its_own_digits(tmp_path: Path, name: str, text: str, wanted: object) -> None:
    ndjson(tmp_path, line(**{name: "@"}).replace('"@"', text))
    (row,) = read(tmp_path, request("ndjson", columns=ALL))
    assert row[name] == wanted and type(row[name]) is type(wanted)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("i", "5.0"), ("i", '"5"'), ("i", "1e3"), ("i", "9223372036854775808"), ("i", "true"), ("u", "-1"),
        ("d", "1.23456"), ("d", '"x"'), ("d", "true"), ("f", "NaN"), ("f", "-Infinity"), ("f", "1e999"), ("f", '"5"'),
        ("s", "5"), ("s", '{"a": 1}'), ("s", "[1]"), ("b", "1"), ("b", '"true"'), ("i", "[]"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused_by_line_and_column(tmp_path: Path, name: str, text: str) -> None:
    ndjson(tmp_path, line() * 3 + line(**{name: "@"}).replace('"@"', text) + line())
    error = refusal(tmp_path, request("ndjson", columns=ALL))
    if text in ("NaN", "-Infinity"):
        assert "line 4" in str(error)
        return
    assert error.code == "source_value_out_of_range" and f"line 4, column '{name}'" in str(error)


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1} {"a": 2}', "", "   ", "[1]", "1", '{"a": 1', '{"a": 1}x', '{"a": 01}', '{"a": 1,}', "{'a': 1}",
        '{"a": 1, "a": 1}', '{"a": 1, "b": 2}', '{"a":\n1}', '{"a": "\ud83d"}'.encode("utf-8", "surrogatepass"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_refused_by_its_number(tmp_path: Path, content: str | bytes) -> None:
    middle = content if isinstance(content, bytes) else content.encode()
    ndjson(tmp_path, b'{"a": 1}\n' * 2 + middle + b"\n" + b'{"a": 1}\n')
    error = refusal(tmp_path, request("ndjson", columns=columns(a="int64")))
    assert error.code == "source_file_malformed" and "line 3:" in str(error)


def test_a_byte_order_mark_is_refused(tmp_path: Path) -> None:
    ndjson(tmp_path, '\ufeff{"a": 1}\n')
    assert "line 1:" in str(refusal(tmp_path, request("ndjson", columns=columns(a="int64"))))


def test_missing_null_and_empty_stay_distinct(tmp_path: Path) -> None:
    ndjson(tmp_path, '{"a": ""}\n{"a": null}\n{}\n')
    asked = request("ndjson", columns=columns(a="string"))
    error = refusal(tmp_path, asked)
    assert "line 3, column 'a'" in str(error) and "absent" in str(error)
    lenient = replace(asked, reading=replace(asked.reading, missing=MissingKeys.AS_NULL))
    assert read(tmp_path, lenient) == [{"a": ""}, {"a": None}, {"a": None}]


def test_a_key_is_found_however_it_is_spelled(tmp_path: Path) -> None:
    names = columns(**{"a.b*": "string", 'q"\\': "string", "é": "string"})
    ndjson(tmp_path, '{"a.b*": null, "q\\"\\\\": null, "\\u00e9" : null}\n')
    assert read(tmp_path, request("ndjson", columns=names)) == [{"a.b*": None, 'q"\\': None, "é": None}]
    ndjson(tmp_path, '{"a.b*": null, "q\\"\\\\": "\\"é\\": 1"}\n')
    assert "column 'é'" in str(refusal(tmp_path, request("ndjson", columns=names)))


def test_lines_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson_reading, "BLOCK_BYTES", 64)
    ndjson(tmp_path, '{"a": 1}\n' * 50 + '{"a": "x"}\n')
    assert "line 51, column 'a'" in str(refusal(tmp_path, request("ndjson", columns=columns(a="int64"))))
    ndjson(tmp_path, '{"a": 1}\n' * 50 + '{"a": 7}')
    assert len(read(tmp_path, request("ndjson", columns=columns(a="int64")))) == 51


# both


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_a_cursor_of_text_files_is_of_its_declared_type(tmp_path: Path, file_format: str) -> None:
    lines = ["9", "10", "11"]
    content = "a\n" + "\n".join(lines) if file_format == "csv" else "".join(f'{{"a": {n}}}\n' for n in lines)
    csv(tmp_path, content)
    asked = request(file_format, columns=columns(a="int64"))
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        assert ports.source.cursor_maximum(asked, "a") == "11"
    assert read(tmp_path, replace(asked, window=CursorWindow(column="a", lower="9", upper="11"))) == [
        {"a": 9},
        {"a": 10},
    ]


def test_memory_is_bounded_by_a_block(tmp_path: Path) -> None:
    row = "x" * 1000
    with open(tmp_path / "a.csv", "w") as file:
        file.write("a\n")
        for _ in range(300):
            file.write(f"{row}\n" * 1000)
    asked = request("csv")
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        for batch in ports.source.open_stream(asked, ports.source.describe(asked)).batches():
            rows += batch.num_rows
            most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 300_000 and most < 250_000_000


def test_orders_of_the_builders_are_the_declared_ones() -> None:
    assert [c.type.same_values(d.type) for c, d in zip(ORDERS_COLUMNS, ORDERS.columns, strict=True)] == [True] * 3
    assert batch_of(ORDERS, [{"id": 1}]).num_rows == 1


@pytest.mark.parametrize(
    "text", ["decimal(2,3)", "decimal(77,0)", "timestamp(7)", "int", "json", "decimal", "INT64", ""]
)
def test_only_types_that_messages_print_can_be_declared(text: str) -> None:
    assert declared_type(text) is None


def test_every_kind_can_be_declared_as_it_prints() -> None:
    for kind in ColumnKind:
        if kind is not ColumnKind.UNSUPPORTED:
            typed = ColumnType(
                kind=kind,
                precision=9 if kind is ColumnKind.DECIMAL else None,
                scale=2 if kind is ColumnKind.DECIMAL else None,
                fraction=6 if kind in (ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ) else None,
            )
            assert declared_type(str(typed)) == typed
