"""`source.options` of files: declared columns, the CSV dialect, absent NDJSON keys, and the rules between them.

A CSV file has no types and an NDJSON file no fixed columns. A CSV column that is not declared is text, an NDJSON column
that is not declared is an error; nothing is guessed from rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field, JsonValue

from dpone_core.authoring.names import QuotableName
from dpone_core.authoring.patterns import CSV_NULL, DECLARED_TYPE, NO_CONTROLS
from dpone_core.authoring.section import Section
from dpone_core.authoring.validate import CONFLICT, MISSING_FIELD, VALUE_INVALID, Finding, Path
from dpone_core.model.file_reading import CsvDelimiter, MissingKeys, declared_type


class FileColumnSection(Section):
    """One column of a CSV or NDJSON file."""

    name: QuotableName
    """Name in the header line, or key of the objects."""
    type: Annotated[str, DECLARED_TYPE]
    """Type as messages print it: `int64`, `decimal(18,4)`, `timestamp_tz(6)`, `string`."""
    nullable: bool = True
    """False refuses a NULL while reading."""


class CsvSection(Section):
    """CSV as RFC 4180 has it, with one delimiter."""

    delimiter: CsvDelimiter = CsvDelimiter.COMMA
    """What stands between values."""
    header: bool = True
    """Whether the first line names the columns; without it they must be declared, in the file's order."""
    null_token: Annotated[str, Field(max_length=32, json_schema_extra=NO_CONTROLS), CSV_NULL] = "\\N"
    """The text that means NULL where it stands without quotes; empty text makes unquoted empty values NULL."""


class NdjsonSection(Section):
    """One JSON object per line."""

    missing: MissingKeys = MissingKeys.REFUSE
    """What an absent key means: `refuse` stops the read, `as_null` reads NULL."""


FileColumns = Annotated[tuple[FileColumnSection, ...], Field(min_length=1)]
FILE_FIELDS: Final = ("path", "format", "columns", "schema_evolution", "csv", "ndjson")
"""Fields of `source.options` that belong to source type files alone."""

FORMAT_FIELDS: Final = {"parquet": ("schema_evolution",), "csv": ("columns", "csv"), "ndjson": ("columns", "ndjson")}
"""File format -> what a manifest may declare of it."""
_DESCRIBES: Final = ("columns", "schema_evolution", "csv", "ndjson")


def format_rules() -> list[JsonValue]:
    """The same rules as JSON Schema: what each format may declare, and where columns are required."""
    rules: list[JsonValue] = []
    for name, allowed in FORMAT_FIELDS.items():
        refused: dict[str, JsonValue] = {field: False for field in _DESCRIBES if field not in allowed}
        then: dict[str, JsonValue] = {"properties": refused}
        if name == "ndjson":
            then["required"] = ["columns"]
        rules.append({"if": {"properties": {"format": {"const": name}}, "required": ["format"]}, "then": then})
    headless: JsonValue = {"properties": {"header": {"const": False}}, "required": ["header"]}
    rules.append({"if": {"properties": {"csv": headless}, "required": ["csv"]}, "then": {"required": ["columns"]}})
    return rules


def file_findings(
    file_format: str | None,
    columns: tuple[FileColumnSection, ...] | None,
    not_null: tuple[str, ...] | None,
    csv: CsvSection | None,
    ndjson: NdjsonSection | None,
    schema_evolution: str | None,
    options: Path,
) -> Iterator[Finding]:
    """Broken rules of `source.options` of source type files; `options` is the path of that section."""
    given_fields = (("columns", columns), ("schema_evolution", schema_evolution), ("csv", csv), ("ndjson", ndjson))
    for name, given in given_fields:
        if given is not None and file_format is not None and name not in FORMAT_FIELDS[file_format]:
            fix = "Parquet files describe themselves; remove it" if file_format == "parquet" else "remove it"
            yield _finding(CONFLICT, f"'{name}' has no effect on format {file_format}", fix, *options, name)
    if columns is None and (file_format == "ndjson" or (csv is not None and not csv.header)):
        why = "NDJSON" if file_format == "ndjson" else "CSV without a header line"
        yield _finding(
            MISSING_FIELD, f"required field 'columns' is missing: {why} does not name them", "add 'columns'",
            *options, "columns",
        )  # fmt: skip
    seen: list[str] = []
    for index, column in enumerate(columns or ()):
        path = (*options, "columns", index)
        if column.name in seen:
            yield _finding(VALUE_INVALID, "an earlier entry declares this column", "declare it once", *path, "name")
        seen.append(column.name)
        if declared_type(column.type) is None:
            yield _finding(
                VALUE_INVALID, "the scale of a decimal must not be greater than its precision",
                "write decimal(precision,scale), for example decimal(18,4)", *path, "type",
            )  # fmt: skip
    for index, name in enumerate(not_null or ()):
        if columns is not None and name not in seen:
            yield _finding(VALUE_INVALID, "no declared column has this name", "declare it", *options, "not_null", index)


def _finding(code: str, message: str, fix: str, *path: str | int) -> Finding:
    return Finding(code=code, message=message, path=path, fix=fix)
