"""`source.options.hooks`: typed actions around the load (HOOK-06). An unknown key in a hook is an error.

Types `sql`, `marker` and `webhook` are built in. Any other name belongs to a provider, which is looked up when a
manifest uses it (`wiring.hook_providers`). Not here: cycles (`planning.hooks`) and the guard against mutating SQL
(`sql_guard`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dpone_core.authoring.names import ConnectionRef, Text, UniqueTexts
from dpone_core.authoring.patterns import HOOK_ID, HOOK_TYPE
from dpone_core.authoring.section import Section
from dpone_core.authoring.validate import VALUE_INVALID, WRONG_TYPE
from dpone_core.model.hook import HookOption, HookScalar, HookTraits, ScalarKind
from dpone_core.model.vocabulary import AirflowExecution, HookConnector, HookKind, HookRetryPolicy

HookId = Annotated[str, HOOK_ID]
HookTypeName = Annotated[str, Field(examples=["sql", "marker", "webhook"]), HOOK_TYPE]
MAX_OPTION_CHARACTERS: Final = 1024


def _require_scalar(value: object) -> HookScalar:
    if not isinstance(value, (str, int)):
        raise PydanticCustomError(WRONG_TYPE, "expected text, an integer, true or false")
    if isinstance(value, str) and len(value) > MAX_OPTION_CHARACTERS:
        raise PydanticCustomError(
            VALUE_INVALID, "expected at most {limit} characters", {"limit": MAX_OPTION_CHARACTERS}
        )
    return value


OptionValue = Annotated[
    HookScalar,
    PlainValidator(_require_scalar),
    WithJsonSchema({"type": ["string", "integer", "boolean"], "maxLength": MAX_OPTION_CHARACTERS}),
]


class HookType(StrEnum):
    """The built-in types."""

    SQL = "sql"
    MARKER = "marker"
    WEBHOOK = "webhook"


SQL_ONLY: Final = ("sql", "sql_file", "connector", "autocommit")
PROVIDER_ONLY: Final = ("connection_ref", "options")
NOTIFIERS: Final = (
    HookTraits(type=HookType.MARKER, results={"size_bytes": ScalarKind.INTEGER}),
    HookTraits(
        type=HookType.WEBHOOK,
        options=(HookOption(name="timeout_seconds", kind=ScalarKind.INTEGER, minimum=1, maximum=60),),
        results={"http_status": ScalarKind.INTEGER},
        needs_connection=True,
    ),
)
"""Built-in types of kind notification."""


def _require_one_of(*names: str) -> list[JsonValue]:
    return [{"required": [name]} for name in names]


SQL_EXACTLY_ONE: Final[dict[str, JsonValue]] = {"oneOf": _require_one_of("sql", "sql_file")}
_SQL_RULES: Final[dict[str, JsonValue]] = {**SQL_EXACTLY_ONE, "not": {"anyOf": _require_one_of(*PROVIDER_ONLY)}}
_OTHER_RULES: Final[dict[str, JsonValue]] = {
    "not": {"anyOf": _require_one_of(*SQL_ONLY)},
    "properties": {"kind": {"enum": ["notification", "custom"]}},
}


class HookLineageSection(Section):
    """Datasets the hook reads and writes, for people and lineage tools."""

    inputs: UniqueTexts = ()
    """Datasets the hook reads."""
    outputs: UniqueTexts = ()
    """Datasets the hook writes."""


class HookExecutionSection(Section):
    """Where the hook runs."""

    cli: Literal["inline"] = "inline"
    """From the command line and Python a hook always runs inside the run."""
    airflow: AirflowExecution = AirflowExecution.INLINE
    """`separate_task` makes the hook a visible Airflow task of its own."""


class HookSection(Section):
    """One action before or after the load."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"type": {"const": "sql"}}},
            "then": _SQL_RULES,
            "else": _OTHER_RULES,
        }
    )

    id: HookId
    """Name of the hook, unique in its phase."""
    kind: HookKind = HookKind.CUSTOM
    """What the hook is for."""
    type: HookTypeName = HookType.SQL.value
    """How the hook acts: `sql`, `marker`, `webhook`, or a type that an installed provider registers."""
    connector: HookConnector = HookConnector.SOURCE
    """Which side's connection executes the SQL."""
    connection_ref: ConnectionRef | None = None
    """Connection of a type other than sql: where a webhook posts to."""
    options: dict[str, OptionValue] = Field(default_factory=dict)
    """Options that the type declares: text, integers, true or false."""
    sql: Text | None = None
    """Short SQL text; use `sql_file` for longer bodies."""
    sql_file: Text | None = None
    """SQL file relative to the manifest, inside the repository."""
    autocommit: bool = True
    """Whether each statement commits by itself."""
    mutates_source: bool = False
    """Must be true for SQL that is not provably read-only."""
    retry_policy: HookRetryPolicy | None = None
    """`none` blocks automatic retries once started; default for mutating hooks and kind source_refresh."""
    depends_on: UniqueTexts = ()
    """Ids of hooks of the same phase that run first."""
    lineage: HookLineageSection = HookLineageSection()
    """Datasets the hook reads and writes."""
    execution: HookExecutionSection = HookExecutionSection()
    """Where the hook runs."""

    @property
    def is_sql(self) -> bool:
        """Whether the hook executes SQL."""
        return self.type == HookType.SQL

    @property
    def effective_retry_policy(self) -> HookRetryPolicy:
        """The authored policy; otherwise `none` where a repetition could do harm, else `default` (HOOK-19)."""
        if self.retry_policy is not None:
            return self.retry_policy
        once = self.mutates_source or self.kind is HookKind.SOURCE_REFRESH
        return HookRetryPolicy.NONE if once else HookRetryPolicy.DEFAULT


class HooksSection(Section):
    """Hooks by phase."""

    pre_hook: tuple[HookSection, ...] = ()
    """Hooks before extraction."""
    post_hook: tuple[HookSection, ...] = ()
    """Hooks after the load is committed and state is saved."""
