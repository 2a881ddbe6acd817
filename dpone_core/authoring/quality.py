"""The authoring rules of `quality`: gates, the deprecated input `mode` with `checks`, and acceptance.

Each type of gate and check has its own closed set of fields, so that a misspelt field is an error and never changes
what is compared.
Contract: GATE-01, GATE-02.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, NoReturn

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from dpone_core.authoring.acceptance import AcceptanceSection
from dpone_core.authoring.names import ColumnNames, QuotableName, Text
from dpone_core.authoring.section import Section
from dpone_core.authoring.source import Duration
from dpone_core.authoring.validate import CONFLICT, MISSING_FIELD, UNKNOWN_VALUE, VALUE_INVALID, WRONG_TYPE, PathPart
from dpone_core.model.column_rules import Expectation, FreshnessReference, RuleScope
from dpone_core.model.vocabulary import GateType, HashMode, Severity, ToleranceMode

MAX_EXACT_NUMBER: Final = 2**53 - 1
_KNOWN_CHECKS: Final = ("min_rows", "source_target_count")


def _refuse_null(value: object) -> object:
    if value is None:
        raise PydanticCustomError(WRONG_TYPE, "expected a value, not null")
    return value


def _refuse(loc: tuple[PathPart, ...], code: str, message: str, fix: str) -> NoReturn:
    """Raises a validation error at a path below the model being validated; pydantic adds the model's own path."""
    error = PydanticCustomError(code, "{sentence}", {"sentence": message, "fix": fix})
    raise ValidationError.from_exception_data("quality", [InitErrorDetails(type=error, loc=loc, input=None)])


def _refuse_repeated_values(values: tuple[object, ...]) -> tuple[object, ...]:
    seen: set[tuple[str, object]] = set()
    for index, value in enumerate(values):
        if (type(value).__name__, value) in seen:
            raise PydanticCustomError(
                VALUE_INVALID, "entry {number} repeats an earlier value", {"number": index + 1, "fix": "list it once"}
            )
        seen.add((type(value).__name__, value))
    return values


RowLimit = Annotated[int, Field(ge=0, le=MAX_EXACT_NUMBER)]
ToleranceNumber = Annotated[float, Field(ge=0, le=MAX_EXACT_NUMBER, allow_inf_nan=False)]
GateSide = Literal["source", "target"]
MAX_ACCEPTED_VALUES: Final = 1000
ScalarValue = Annotated[
    str | int | Annotated[float, Field(allow_inf_nan=False)] | bool, Field(union_mode="left_to_right")
]
AcceptedValues = Annotated[
    tuple[ScalarValue, ...],
    Field(min_length=1, max_length=MAX_ACCEPTED_VALUES, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_refuse_repeated_values),
]


class QualityMode(StrEnum):
    """Default severity of deprecated checks: `fail` is error, `warn` is warning."""

    FAIL = "fail"
    WARN = "warn"


class ToleranceSection(Section):
    """How far source and target row counts may be apart."""

    mode: ToleranceMode = ToleranceMode.ABSOLUTE
    """`absolute` counts rows, `pct` is percent of the source rows (rounded down to whole rows)."""
    value: ToleranceNumber
    """Allowed difference in the unit of `mode`."""


class RowToleranceSection(Section):
    """How many rows may break a rule."""

    mode: ToleranceMode = ToleranceMode.ABSOLUTE
    """`absolute` counts rows, `pct` is percent of the judged rows (rounded down to whole rows)."""
    value: ToleranceNumber
    """Allowed rows in the unit of `mode`."""


class _Gate(Section):
    severity: Severity = Severity.ERROR
    """`error` blocks the load, `warning` is only reported."""


class RowCountGate(_Gate):
    """Compares the rows read from the source with the rows of this load at the target."""

    type: Literal["row_count_reconciliation"]
    """Gate type."""
    id: Text = "row_count_reconciliation"
    """Name in reports, unique in the policy."""
    tolerance: ToleranceSection = ToleranceSection(value=0.0)
    """Allowed difference; none unless given."""


class MinRowsGate(_Gate):
    """Demands a minimum number of rows on one side."""

    type: Literal["min_rows"]
    """Gate type."""
    id: Text = "min_rows"
    """Name in reports, unique in the policy."""
    side: GateSide = "target"
    """Which rows are counted; `target` means the rows of this load."""
    threshold: RowLimit
    """Smallest accepted number of rows; never defaulted."""


class TypedHashGate(_Gate):
    """Compares typed row hashes of source and target."""

    type: Literal["typed_hash_reconciliation"]
    """Gate type."""
    id: Text = "typed_hash_reconciliation"
    """Name in reports, unique in the policy."""
    mode: HashMode = HashMode.FULL
    """`full` hashes every row, `sample` a key-selected part."""


class _RowRule(_Gate):
    tolerance: RowToleranceSection = RowToleranceSection(value=0.0)
    """How many rows of this load may break the rule; none unless given."""


class NotNullGate(_RowRule):
    """Refuses rows of this load with NULL in one of the columns."""

    type: Literal["not_null"]
    """Gate type."""
    id: Text = "not_null"
    """Name in reports, unique in the policy."""
    columns: ColumnNames
    """Columns of the load that must have a value."""


class UniqueGate(_RowRule):
    """Refuses rows of this load whose values in the columns together occur more than once; NULL equals NULL."""

    type: Literal["unique"]
    """Gate type."""
    id: Text = "unique"
    """Name in reports, unique in the policy."""
    columns: ColumnNames
    """Columns that are a key together."""
    within: RuleScope = RuleScope.LOAD
    """`load` looks at the rows of this load, `target` at the table as it would be after publishing."""


class AcceptedValuesGate(_RowRule):
    """Refuses rows of this load whose column holds another value; text is compared by code point."""

    type: Literal["accepted_values"]
    """Gate type."""
    id: Text = "accepted_values"
    """Name in reports, unique in the policy."""
    column: QuotableName
    """Column of the load."""
    values: AcceptedValues
    """The only values; dates, moments and decimals are written as text."""
    allow_null: bool = False
    """Whether NULL is accepted too."""


class FreshnessGate(_Gate):
    """Refuses a load whose newest row is too old, or that has no row."""

    type: Literal["freshness"]
    """Gate type."""
    id: Text = "freshness"
    """Name in reports, unique in the policy."""
    column: QuotableName
    """Date or timestamp column of the load; one without a zone is read as UTC."""
    max_age: Duration
    """Greatest accepted age of the newest value, such as PT24H."""
    reference: FreshnessReference = FreshnessReference.INTERVAL_END
    """`interval_end` counts the age from the end of the run's interval, `now` from the instant of the run."""


class CustomSqlGate(_RowRule):
    """Refuses rows of this load that one read-only SELECT of the sink's engine counts or returns."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["sql"]}, {"required": ["sql_file"]}]})

    type: Literal["custom_sql"]
    """Gate type."""
    id: Text = "custom_sql"
    """Name in reports, unique in the policy."""
    side: GateSide = "target"
    """`target` means the rows of this load; no statement is judged over the source."""
    sql: Annotated[Text | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(default_factory=lambda: None)
    """Statement over `{{ staged }}`; interval tokens are bound as parameters. Only its hash enters evidence."""
    sql_file: Annotated[Text | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(
        default_factory=lambda: None
    )
    """File with the statement, relative to the manifest, inside the repository."""
    expect: Expectation = Expectation.ZERO
    """`zero` reads one number, the rows that break the rule; `zero_rows` counts the rows of the result."""

    @model_validator(mode="after")
    def _require_one_text(self) -> CustomSqlGate:
        if self.sql is None and self.sql_file is None:
            _refuse(("sql",), MISSING_FIELD, "required field 'sql' is missing", "add 'sql' or 'sql_file'")
        if self.sql is not None and self.sql_file is not None:
            _refuse(("sql_file",), CONFLICT, "'sql' and 'sql_file' exclude each other", "keep one of them")
        return self


GateSection = Annotated[
    RowCountGate
    | MinRowsGate
    | TypedHashGate
    | CustomSqlGate
    | NotNullGate
    | UniqueGate
    | FreshnessGate
    | AcceptedValuesGate,
    Field(discriminator="type"),
]


class _Check(Section):
    severity: Annotated[Severity | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(
        default_factory=lambda: None
    )
    """Overrides the default that `quality.mode` gives."""


class MinRowsCheck(_Check):
    """Deprecated form of the min_rows gate."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["threshold"]}, {"required": ["value"]}]},
    )

    type: Literal["min_rows"]
    """Check type."""
    id: Text = "min_rows"
    """Name in reports, unique in the policy."""
    side: GateSide = "target"
    """Which rows are counted; `target` means the rows of this load."""
    threshold: Annotated[RowLimit | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(
        default_factory=lambda: None
    )
    """Smallest accepted number of rows."""
    value: Annotated[RowLimit | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(
        default_factory=lambda: None
    )
    """Alias of `threshold`; both must agree when both stand."""

    @model_validator(mode="after")
    def _require_equal_aliases(self) -> MinRowsCheck:
        if self.threshold is None and self.value is None:
            _refuse(("threshold",), MISSING_FIELD, "required field 'threshold' is missing", "add 'threshold'")
        if self.threshold is not None and self.value is not None and self.threshold != self.value:
            _refuse(("value",), CONFLICT, "'threshold' and 'value' differ", "keep 'threshold' and remove 'value'")
        return self

    @property
    def minimum_rows(self) -> int:
        """The limit, from `threshold` or its alias `value`."""
        return next(limit for limit in (self.threshold, self.value) if limit is not None)


class SourceTargetCountCheck(_Check):
    """Deprecated form of the row_count_reconciliation gate with a percent tolerance."""

    type: Literal["source_target_count"]
    """Check type."""
    id: Text = "row_count_reconciliation"
    """Name in reports, unique in the policy."""
    tolerance_pct: ToleranceNumber = 0.0
    """Allowed difference in percent of the source rows."""


class UnknownCheck(Section):
    """A check dpone does not know: kept under mode warn as skipped evidence, never executed."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[Text, Field(json_schema_extra={"not": {"enum": sorted({*_KNOWN_CHECKS, *GateType})}})]
    """Check type of another provider."""
    id: Annotated[Text | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(default_factory=lambda: None)
    """Name in reports, unique in the policy; the type unless given."""

    @property
    def name(self) -> str:
        """Name in reports: the id, or the type when there is no id."""
        return self.id or self.type


def _check_tag(value: object) -> str | None:
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    if kind in _KNOWN_CHECKS:
        return str(kind)
    return "unknown" if isinstance(value, (Mapping, UnknownCheck)) else None


CheckSection = Annotated[
    Annotated[MinRowsCheck, Tag("min_rows")]
    | Annotated[SourceTargetCountCheck, Tag("source_target_count")]
    | Annotated[UnknownCheck, Tag("unknown")],
    Discriminator(_check_tag, custom_error_type=WRONG_TYPE, custom_error_message="expected a mapping with a 'type'"),
]


class QualitySection(Section):
    """What must be true of a load before it counts as successful."""

    model_config = ConfigDict(
        json_schema_extra={
            "dependentRequired": {"mode": ["checks"]},
            "if": {"required": ["mode"], "properties": {"mode": {"const": "warn"}}},
            "else": {"properties": {"checks": {"items": {"properties": {"type": {"enum": list(_KNOWN_CHECKS)}}}}}},
        },
    )

    gates: tuple[GateSection, ...] = ()
    """Gates in the order they are judged."""
    contract: Annotated[Text | SkipJsonSchema[None], BeforeValidator(_refuse_null)] = Field(
        default_factory=lambda: None
    )
    """Data contract (ODCS 3) whose rules become gates behind these; a file relative to the manifest, in the project."""
    mode: QualityMode = QualityMode.FAIL
    """Deprecated: default severity of `checks`; give each gate its own severity instead."""
    checks: tuple[CheckSection, ...] = ()
    """Deprecated: older form of gates; author `gates` instead."""
    acceptance: AcceptanceSection = AcceptanceSection(enabled=False)
    """Acceptance metrics; absent means disabled."""

    @field_validator("gates")
    @classmethod
    def _require_unique_gate_ids(cls, gates: tuple[GateSection, ...]) -> tuple[GateSection, ...]:
        _refuse_repeated_ids([((index, "id"), gate.id) for index, gate in enumerate(gates)])
        return gates

    @model_validator(mode="after")
    def _refuse_ambiguous_checks(self) -> QualitySection:
        if "mode" in self.model_fields_set and "checks" not in self.model_fields_set:
            _refuse(
                ("mode",), CONFLICT, "'mode' has no effect without 'checks'", "remove 'mode'; gates carry 'severity'"
            )
        if self.mode is QualityMode.FAIL and self.gates and self.checks:
            _refuse(
                ("checks",),
                CONFLICT,
                "'gates' and the deprecated 'checks' exclude each other",
                "write each check as a gate",
            )
        for index, check in enumerate(self.checks):
            if isinstance(check, UnknownCheck):
                _refuse_unexecuted(index, check, self.mode)
        ids: list[tuple[tuple[PathPart, ...], str]] = [(("gates",), gate.id) for gate in self.gates]
        for index, check in enumerate(self.checks):
            ids.append((("checks", index, "id"), check.name if isinstance(check, UnknownCheck) else check.id))
        _refuse_repeated_ids(ids)
        return self


def _refuse_unexecuted(index: int, check: UnknownCheck, mode: QualityMode) -> None:
    if check.type in set(GateType):
        _refuse(("checks", index, "type"), UNKNOWN_VALUE, "this type is a gate, not a check", "author it under 'gates'")
    if mode is QualityMode.FAIL:
        _refuse(
            ("checks", index, "type"),
            UNKNOWN_VALUE,
            "unknown check type under mode fail",
            "use min_rows or source_target_count, or author a gate",
        )


def _refuse_repeated_ids(ids: list[tuple[tuple[PathPart, ...], str]]) -> None:
    seen: set[str] = set()
    for loc, identifier in ids:
        if identifier in seen:
            _refuse(loc, CONFLICT, "this id is used by an earlier gate", "give each gate an id of its own")
        seen.add(identifier)
