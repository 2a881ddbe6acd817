"""`source`: where rows come from. A manifest gives exactly one of table, options.query and options.path."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StrictInt
from pydantic_core import PydanticCustomError

from dpone_core.authoring.file_columns import FILE_FIELDS, CsvSection, FileColumns, NdjsonSection, format_rules
from dpone_core.authoring.hooks import SQL_EXACTLY_ONE, HooksSection
from dpone_core.authoring.names import ColumnNames, ConnectionRef, QuotableName, Text
from dpone_core.authoring.patterns import DURATION, NO_TOKENS, PLAIN_COLUMN, REPLACEMENT
from dpone_core.authoring.section import Section
from dpone_core.authoring.validate import VALUE_INVALID
from dpone_core.declared.registry import FILE_SOURCES, ROW_SECURED_SOURCES
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import CheckpointsType
from dpone_core.model.special_values import SpecialValue

_DATE_UNITS: Final = {"D": "days"}
_TIME_UNITS: Final = {"H": "hours", "M": "minutes", "S": "seconds"}


def _require_a_unit(text: str) -> str:
    if text == "P" or text.endswith("T"):
        raise PydanticCustomError(VALUE_INVALID, "expected an ISO 8601 duration such as PT1H", {"fix": "write PT0S"})
    return text


Duration = Annotated[
    str,
    Field(max_length=32, json_schema_extra={"not": {"pattern": "^P$|T$"}}),
    DURATION,
    AfterValidator(_require_a_unit),
]
PlainColumn = Annotated[str, PLAIN_COLUMN]


def type_is(connectors: Sequence[ConnectorType]) -> dict[str, JsonValue]:
    """JSON Schema of a `type` that is one of these."""
    names: list[JsonValue] = [connector.value for connector in connectors]
    return {"const": names[0]} if len(names) == 1 else {"enum": names}


class TableSection(Section):
    """A table of the engine."""

    schema_name: QuotableName | None = Field(default=None, alias="schema")
    """The engine's namespace (database on ClickHouse); the connector's default unless given."""
    name: QuotableName
    """Table name, without namespace."""


class QuerySection(Section):
    """One read-only SELECT; interval tokens such as `{{ data_interval_start }}` are bound as parameters."""

    model_config = ConfigDict(json_schema_extra=SQL_EXACTLY_ONE)

    sql: Text | None = None
    """Query text."""
    sql_file: Text | None = None
    """Query file relative to the manifest, inside the repository."""


class IncrementalSection(Section):
    """Reads only rows whose cursor is new since the last successful load."""

    cursor_column: PlainColumn
    """Column name of the extracted rows, never an expression; alias an expression in options.query."""
    lookback: Duration = "PT0S"
    """ISO 8601 duration read again before the saved cursor, for late rows."""


class BoundsSection(Section):
    """Bounds of the ranges, so that they stay the same while the source grows; a key outside them is refused."""

    lower: Text | StrictInt
    """Least key: digits, or ISO 8601 of dates and times."""
    upper: Text | StrictInt
    """Greatest key, included."""


class PartitioningSection(Section):
    """Splits the extraction into key ranges (native transfer)."""

    column: PlainColumn
    """Column whose range is split."""
    num_partitions: Annotated[int, Field(ge=1, le=4096)]
    """Number of ranges."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Ranges transferred at the same time."""
    bounds: BoundsSection | None = None
    """Given bounds; the source is asked unless they stand here."""
    checkpoints: CheckpointsType = CheckpointsType.SINK
    """Where a resume finds what is done: `sink` keeps control tables, `file` JSONL beside the evidence."""
    airflow: Literal["inline", "mapped"] = "inline"
    """`mapped` gives every range a mapped Airflow task."""


class SpecialValueSection(Section):
    """What one special value of some columns becomes, and is counted as; without a rule the value is refused."""

    columns: ColumnNames
    """Columns of the source, by their exact names."""
    value: SpecialValue
    """`infinity`, `-infinity`, `nan`, or a `zero_date` or `partial_date` of MySQL."""
    becomes: Annotated[str, REPLACEMENT] | None
    """`null`, which makes the column nullable, or a value of the column as text: an ISO 8601 date or moment, or a
    number in quotes."""


class SourceOptionsSection(Section):
    """How rows are read."""

    query: QuerySection | None = None
    """A query instead of a table."""
    path: Annotated[Text, Field(json_schema_extra=NO_TOKENS)] | None = None
    """Path or glob of files, for source type files."""
    format: Literal["parquet", "csv", "ndjson"] | None = None
    """File format, for source type files."""
    columns: FileColumns | None = None
    """Columns of CSV or NDJSON files; a CSV file without them is text."""
    not_null: ColumnNames | None = None
    """Columns that hold no NULL, whatever the source says of them; one that does is refused while reading."""
    schema_evolution: Literal["refuse", "widen"] | None = None
    """What Parquet files of one path may differ in: `widen` reads absent columns as NULL and takes the wider type."""
    csv: CsvSection | None = None
    """CSV dialect."""
    ndjson: NdjsonSection | None = None
    """How NDJSON objects are read."""
    hooks: HooksSection = HooksSection()
    """Typed actions before and after the load."""
    incremental: IncrementalSection | None = None
    """Cursor of incremental strategies."""
    partitioning: PartitioningSection | None = None
    """Key ranges of native transfer."""
    rows: Literal["all", "visible"] = "all"
    """`visible` loads only the rows that row level security shows to the role; `all` refuses a filtered read."""
    special_values: Annotated[tuple[SpecialValueSection, ...], Field(min_length=1)] | None = None
    """Values without an exact form that are converted and counted instead of refused."""


class SourceSection(Section):
    """Where rows come from."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"type": type_is(ROW_SECURED_SOURCES)}, "required": ["type"]},
                    "else": {"properties": {"options": {"properties": {"rows": {"const": "all"}}}}},
                }
            ],
            "if": {"properties": {"type": type_is(FILE_SOURCES)}, "required": ["type"]},
            "then": {
                "required": ["options"],
                "properties": {
                    "table": False,
                    "options": {
                        "required": ["path", "format"],
                        "properties": {"query": False},
                        "allOf": format_rules(),
                    },
                },
            },
            "else": {
                "required": ["connection_ref"],
                "properties": {"options": {"properties": dict.fromkeys(FILE_FIELDS, False)}},
                "oneOf": [
                    {"required": ["table"]},
                    {"required": ["options"], "properties": {"options": {"required": ["query"]}}},
                ],
            },
        }
    )

    type: ConnectorType
    """Kind of system."""
    connection_ref: ConnectionRef | None = None
    """Name of the connection; optional only for files."""
    table: TableSection | None = None
    """Table to read."""
    options: SourceOptionsSection = SourceOptionsSection()
    """How rows are read."""


def duration_of(text: str) -> timedelta:
    """The length of a valid `Duration`. It has only days, hours, minutes and seconds, so it does not depend on a
    calendar.
    """
    date, _, clock = text.removeprefix("P").partition("T")
    amounts: dict[str, int] = {}
    for part, units in ((date, _DATE_UNITS), (clock, _TIME_UNITS)):
        number = ""
        for character in part:
            if character in units:
                amounts[units[character]] = int(number)
                number = ""
            else:
                number += character
    return timedelta(**amounts)
