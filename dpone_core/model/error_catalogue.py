"""What every stable code means and what an operator does: one entry per code that the source can raise or report.

Not a registry that code looks codes up in: an error carries its own code. A test compares this table with the source
in both directions, and `docs/reference/error-codes.md` is generated from it. A released code is never renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.errors import ErrorCode, ExitClass


class Area(StrEnum):
    """Where in a run's life a code appears, in that order."""

    COMMAND = "command line and files it writes"
    DOCUMENT = "reading the YAML document"
    MANIFEST = "rules of the manifest"
    SQL = "SQL and hooks before a run"
    CONNECTION = "connections and drivers"
    INVOCATION = "arguments and scheduler environment"
    GITOPS = "packs, run-specs and platform"
    RECEIPT = "step receipts and the outcome gate"
    HOOK = "hooks while they run"
    SOURCE = "reading the source"
    STAGING = "staging and the target before the commit"
    QUALITY = "gates and their receipts"
    ACCEPTANCE = "acceptance metrics"
    COMMIT = "publishing"
    EVIDENCE = "evidence and cleanup"
    TRANSFER = "native transfer"
    STATE = "cursor state and leases"
    RUN = "the run as a whole"
    WARNING = "warnings of a successful or failed run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """`exits` are the process exits it appears with; empty = it appears in a gate's verdict or inside another text."""

    code: ErrorCode
    exits: tuple[ExitClass, ...]
    area: Area
    meaning: str
    action: str


_Row = tuple[str, str, str]
_OK: Final = ExitClass.SUCCESS
_EXECUTED: Final = ExitClass.EXECUTED
_REFUSED: Final = ExitClass.REFUSED
_NO_EXIT: Final[tuple[ExitClass, ...]] = ()


def _entries(area: Area, exits: tuple[ExitClass, ...], *rows: _Row) -> tuple[CatalogueEntry, ...]:
    return tuple(
        CatalogueEntry(code=ErrorCode(code), exits=exits, area=area, meaning=meaning, action=action)
        for code, meaning, action in rows
    )


_COMMAND = _entries(
    Area.COMMAND,
    (_REFUSED,),
    ("DPONE_USAGE", "The command line cannot be understood.", "Run the command with --help and correct it."),
    (
        "DPONE_CONFIGURATION_INVALID",
        "The request was refused before anything ran.",
        "Read the sentence beside the code and correct what it names.",
    ),
    (
        "DPONE_SELECTOR_UNKNOWN",
        "The manifest has no process of that name.",
        "Pass one of the names that `dpone plan` prints.",
    ),
    (
        "DPONE_SELECTOR_REQUIRED",
        "The manifest has several processes and the command works on one.",
        "Pass --selector.",
    ),
    (
        "DPONE_RECEIPT_NEEDS_ONE_PROCESS",
        "A receipt was asked for and several processes would run.",
        "Pass --selector, or leave out --receipt-path.",
    ),
    (
        "DPONE_OUTPUT_NOT_WRITTEN",
        "The file named by --output cannot be written.",
        "Check that its directory exists and can be written.",
    ),
    (
        "DPONE_OUTPUT_STALE",
        "The file named by --output is not what the command would write now.",
        "Run the command without --check and review the difference.",
    ),
    ("DPONE_CODE_UNKNOWN", "No code of that name exists.", "Copy the code from the report."),
    (
        "DPONE_EVIDENCE_NOT_FOUND",
        "No published run matches the request.",
        "Check --process, --run-id and DPONE_EVIDENCE_DIR.",
    ),
)

_DOCUMENT = _entries(
    Area.DOCUMENT,
    (_REFUSED,),
    ("DPONE_YAML_ALIAS", "An alias names no complete earlier anchor.", "Define the anchor above its use."),
    ("DPONE_YAML_ALIAS_BOMB", "Aliases expand to far more than was written.", "Write the repeated parts out."),
    ("DPONE_YAML_CHARACTER", "The text holds a character that YAML text must not hold.", "Remove the character."),
    ("DPONE_YAML_DOCUMENTS", "The file holds a second document.", "Put each document into its own file."),
    ("DPONE_YAML_DUPLICATE_KEY", "One field is given twice.", "Remove one of the two lines named."),
    ("DPONE_YAML_EMPTY", "The file holds no document.", "Start with `kind: dpone.flow.v1`."),
    ("DPONE_YAML_ENCODING", "The file is not UTF-8.", "Save it as UTF-8."),
    ("DPONE_YAML_KEY", "A key is not text.", "Quote the key."),
    ("DPONE_YAML_MERGE_KEY", "A merge key (`<<`) is not YAML 1.2.", "Share fields by `defaults` instead."),
    (
        "DPONE_YAML_NUMBER_FORM",
        "A number is written in a form that YAML versions read differently.",
        "Write it plainly, or quote it if it is text.",
    ),
    (
        "DPONE_YAML_NUMBER_RANGE",
        "A number is not finite or too large to be exact.",
        "Write a smaller number, or quote it if it is text.",
    ),
    ("DPONE_YAML_ROOT", "The document is not a mapping.", "Start with `kind: ...`."),
    ("DPONE_YAML_SYNTAX", "The file is not valid YAML.", "Check quotes, colons and indentation at the place named."),
    ("DPONE_YAML_TAB", "A tab is used as indentation.", "Indent with spaces."),
    ("DPONE_YAML_TAG", "A YAML tag is used.", "Remove the tag and quote text."),
    ("DPONE_YAML_TOO_DEEP", "The document is nested too deeply.", "Flatten it."),
    ("DPONE_YAML_TOO_LARGE", "The file is larger than 1 MiB.", "Split the manifest."),
    ("DPONE_YAML_VERSION", "The file asks for another YAML version.", "Remove the %YAML directive."),
)

_MANIFEST = _entries(
    Area.MANIFEST,
    (_REFUSED,),
    (
        "DPONE_MANIFEST_INVALID",
        "The manifest breaks several rules.",
        "Run `dpone check` and correct every finding it lists.",
    ),
    ("DPONE_MANIFEST_NOT_FOUND", "The manifest file does not exist.", "Check the path and the working directory."),
    (
        "DPONE_MANIFEST_OUTSIDE_PROJECT",
        "The manifest lies outside the project root.",
        "Move it below the root, or pass --project-dir.",
    ),
    ("DPONE_MANIFEST_UNKNOWN_FIELD", "A field has no meaning at its place.", "Correct the name; a near one is shown."),
    ("DPONE_MANIFEST_MISSING_FIELD", "A required field is missing.", "Add the field."),
    ("DPONE_MANIFEST_WRONG_TYPE", "A value has the wrong type.", "Write the type that the message names."),
    ("DPONE_MANIFEST_UNKNOWN_VALUE", "A value is not one of the allowed words.", "Use one of the words listed."),
    ("DPONE_MANIFEST_VALUE_INVALID", "A value has the right type and no valid form.", "Correct the value."),
    (
        "DPONE_MANIFEST_CONFLICT",
        "Two fields exclude each other, or one has no effect here.",
        "Keep the one you mean; nothing is ignored silently.",
    ),
    (
        "DPONE_NOT_AVAILABLE_YET",
        "The manifest asks for something that this version cannot do.",
        "Use what the fix names, or wait for a later version.",
    ),
    (
        "DPONE_ROUTE_REFUSED",
        "Source, sink and strategy make no route, or a declared trait forbids it.",
        "Change the field that the message names.",
    ),
    (
        "DPONE_ACCEPTANCE_METRIC_CONFIGURATION_INVALID",
        "The acceptance policy is malformed.",
        "Correct the field named below `quality.acceptance`.",
    ),
)

_SQL = _entries(
    Area.SQL,
    (_REFUSED,),
    ("DPONE_PROJECT_FILE_INVALID", "A file of the project cannot be read.", "Check its permissions and its kind."),
    ("DPONE_PROJECT_FILE_NOT_FOUND", "A file that the manifest names does not exist.", "Correct the relative path."),
    ("DPONE_PROJECT_FILE_TOO_LARGE", "A file that the manifest names is too large.", "Split the SQL."),
    (
        "DPONE_SQL_FILE_OUTSIDE_PROJECT",
        "A file that the manifest names lies outside the project root.",
        "Move it below the root; symbolic links count by where they lead.",
    ),
    ("DPONE_SQL_GO_SEPARATOR", "The SQL holds GO, which is no statement.", "Split the script at GO into hooks."),
    (
        "DPONE_SQL_TOKEN_QUOTED",
        "An interval token stands inside a quoted text.",
        "Remove the quotes; tokens are bound as parameters.",
    ),
    ("DPONE_SQL_TOKEN_UNKNOWN", "The SQL holds an unknown token.", "Use one of the tokens listed."),
    (
        "DPONE_SQL_TOKENS_WITH_CURSOR",
        "Interval tokens and a cursor would both decide which rows are read.",
        "Remove the tokens, or `source.options.incremental`.",
    ),
    (
        "DPONE_QUERY_NOT_READ_ONLY",
        "The source query is not provably read-only.",
        "Write one SELECT; put changes into a hook.",
    ),
    (
        "DPONE_HOOK_MUTATION_NOT_DECLARED",
        "A hook's SQL is not provably read-only and does not say so.",
        "Set `mutates_source: true` after a review.",
    ),
    ("DPONE_HOOK_CYCLE", "Hooks of one phase depend on each other in a circle.", "Break the cycle that is named."),
    ("DPONE_HOOK_ID_REPEATED", "Two hooks of one phase have the same id.", "Give each hook its own id."),
    (
        "DPONE_HOOK_DEPENDENCY_UNKNOWN",
        "A hook depends on an id that its phase does not have.",
        "Name a hook of the same phase.",
    ),
    (
        "DPONE_HOOK_OPTION_INVALID",
        "An option of a hook is not one its type declares, or not of the declared kind.",
        "Correct the option; the sentence names what the type takes.",
    ),
    ("DPONE_HOOK_UNKNOWN", "The phase has no hook of that id.", "Name one of the ids listed."),
    (
        "DPONE_HOOK_PROBE_NOT_READ_ONLY",
        "A data_quality_probe is not provably one read-only SELECT.",
        "Write one SELECT that answers with a count, or choose another kind.",
    ),
    (
        "DPONE_HOOK_TYPE_UNKNOWN",
        "No provider is installed for a hook's type, or the type does not serve its kind.",
        "Correct the type, or install the package that registers it.",
    ),
    (
        "DPONE_HOOK_PROVIDER_INVALID",
        "An installed package registers a hook provider that cannot be used.",
        "Repair or uninstall the package.",
    ),
)

_CONNECTION = (
    *_entries(
        Area.CONNECTION,
        (_REFUSED,),
        ("DPONE_CONNECTION_UNRESOLVED", "No place knows the connection reference.", "Set DPONE_CONN_<REF> to its URI."),
        ("DPONE_CONNECTION_INVALID", "A place knows the reference and its value is malformed.", "Correct the value."),
        (
            "DPONE_CONNECTION_LITERAL_REFUSED",
            "A file under review states a credential or a server address.",
            "Move it into the environment and refer to it.",
        ),
        (
            "DPONE_EXTRA_MISSING",
            "A library that this route needs is not installed.",
            "Install the extra that the fix names.",
        ),
        (
            "DPONE_EMBEDDED_ENGINE_CONFLICT",
            "Source and sink are two embedded databases of an engine that a process can open once.",
            "Keep both in one directory, serve one of them, or go through files.",
        ),
    ),
    *_entries(
        Area.CONNECTION,
        (_EXECUTED,),
        (
            "connection_uri_invalid",
            "The URI of the connection is not one that the connector reads.",
            "Correct the URI; nothing was changed.",
        ),
        ("sink_unreachable", "The sink could not be opened or stopped answering.", "Check the sink, then run again."),
        (
            "embedded_directory_locked",
            "Another process holds the embedded database.",
            "Wait for that process to end, then run again.",
        ),
        (
            "sink_query_failed",
            "The sink did not answer a query.",
            "Check the sink; the report says what is true of the target.",
        ),
        (
            "sink_statement_refused",
            "The sink refused a statement.",
            "Check rights and version of the sink; the report says what is true of the target.",
        ),
        (
            "connector_has_no_statements",
            "A hook was given to a connector that executes no SQL.",
            "Choose the other connector of the hook.",
        ),
        ("DPONE_CONNECTOR_FAILED", "A driver or engine refused.", "Check the engine's own log at the time of the run."),
    ),
)

_INVOCATION = _entries(
    Area.INVOCATION,
    (_REFUSED,),
    ("DPONE_INVOCATION_INVALID", "An argument or environment value has no meaning.", "Correct the value named."),
    ("DPONE_RUN_ID_INVALID", "The run id is longer than 256 characters.", "Use a shorter run id."),
    ("DPONE_INTERVAL_START_INVALID", "The interval's start is not an ISO 8601 time.", "Correct the value."),
    (
        "DPONE_INTERVAL_END_INVALID",
        "The interval's end is not an ISO 8601 time after the start.",
        "Correct or swap the values.",
    ),
    ("DPONE_LOGICAL_DATE_INVALID", "The logical date is not an ISO 8601 time.", "Correct the value."),
    (
        "DPONE_INTERVAL_VALUE_MISSING",
        "The SQL uses a token that this run has no value for.",
        "Pass the interval or the execution date.",
    ),
    ("DPONE_TRY_NUMBER_INVALID", "DPONE_TRY_NUMBER is not an integer from 0.", "Let the scheduler set it."),
    ("DPONE_MAP_INDEX_INVALID", "DPONE_MAP_INDEX is not an integer from -1.", "Let the scheduler set it."),
    ("DPONE_REPAIR_AUTHORITY_REF_INVALID", "The repair authority reference has foreign characters.", "Correct it."),
    ("DPONE_AIRFLOW_PARTITION_MODE_MISSING", "A partition is given without its mode.", "Set DPONE_PARTITION_MODE."),
    ("DPONE_AIRFLOW_PARTITION_MODE_INVALID", "The partition mode is unknown.", "Use one of the two modes named."),
    ("DPONE_AIRFLOW_PARTITION_DIMENSION_MISSING", "A native partition has no dimension.", "Set the dimension."),
    ("DPONE_AIRFLOW_PARTITION_DIMENSION_INVALID", "The dimension is not an identifier.", "Correct the dimension."),
    ("DPONE_AIRFLOW_PARTITION_KEY_MISSING", "A native partition has no key.", "Set the key."),
    ("DPONE_AIRFLOW_PARTITION_KEY_INVALID", "The partition key is longer than 256 characters.", "Shorten the key."),
    ("DPONE_AIRFLOW_MAPPING_ITEM_INVALID", "The mapping item is not a document that dpone knows.", "Regenerate it."),
    (
        "DPONE_AIRFLOW_MAPPING_ITEM_MISSING",
        "Nobody says which range of a transfer is to be staged.",
        "Pass --partition and --transfer-plan, or let the scheduler set DPONE_AIRFLOW_MAPPING_ITEM.",
    ),
    (
        "DPONE_AIRFLOW_MAPPING_ITEM_FOREIGN",
        "The range asked for is not the one of this mapped task's index.",
        "Let each mapped task take the item of its own index.",
    ),
    (
        "DPONE_TRANSFER_PLAN_MISSING",
        "The plan whose ranges are to be staged or published is not given.",
        "Pass --transfer-plan as `dpone transfer plan` printed it, or let the scheduler set DPONE_TRANSFER_PLAN.",
    ),
    ("DPONE_TRANSFER_PLAN_INVALID", "The transfer plan is not a sha256 fingerprint.", "Copy it as it was printed."),
)

_GITOPS = _entries(
    Area.GITOPS,
    (_REFUSED,),
    ("DPONE_CONTRACT_INVALID", "A document between processes breaks its contract.", "Regenerate the document."),
    ("DPONE_PACK_INVALID", "The pack is not a valid pack document.", "Run `dpone gitops pack` again."),
    ("DPONE_PACK_NOT_FOUND", "The pack cannot be read.", "Check the path and the bundle root."),
    ("DPONE_PACK_OUTSIDE_PROJECT", "The pack lies outside the project root.", "Write it below --project-dir."),
    (
        "DPONE_BUNDLE_MISMATCH",
        "A file of the bundle differs from the reviewed pack.",
        "Deploy the reviewed bundle, or pack, review and compile again.",
    ),
    ("DPONE_PLATFORM_NOT_FOUND", "The platform file cannot be read.", "Check the path."),
    ("DPONE_PLATFORM_INVALID", "The platform settings are malformed.", "Correct the key named."),
    (
        "DPONE_PLATFORM_VOLUME_REQUIRED",
        "State, evidence or a target is a file that would die with its pod.",
        "Mount a volume over the path in the platform file.",
    ),
    (
        "DPONE_PLATFORM_CONNECTION_UNMAPPED",
        "A connection reference has no secret in the platform file.",
        "Map it to a secret and a key.",
    ),
    (
        "DPONE_PROVIDER_UNSUPPORTED",
        "The installed Airflow or provider is older than what dpone was proven with.",
        "Install the versions that the message names.",
    ),
    ("DPONE_RUN_SPEC_REFUSED", "The process cannot become a run-spec as it stands.", "Change what the message names."),
    ("DPONE_RUN_SPEC_INVALID", "The run-spec is not a valid run-spec document.", "Compile it again."),
    ("DPONE_RUN_SPEC_NOT_FOUND", "The run-spec of a DAG cannot be read.", "Put it where the message says."),
)

_RECEIPT = (
    *_entries(
        Area.RECEIPT,
        (_REFUSED,),
        ("DPONE_RECEIPT_REQUIRED", "A step left no receipt.", "Clear the step's task, so that it leaves one."),
        ("DPONE_RECEIPT_INVALID", "What a step left is no receipt.", "Look at the step's log, then clear its task."),
        (
            "DPONE_RECEIPT_MISMATCH",
            "The receipt belongs to another step, run, run-spec or bundle.",
            "Clear the step's task, so that it leaves a receipt of this run.",
        ),
        ("DPONE_RECEIPT_NOT_SUCCEEDED", "The step says that it did not succeed.", "Repair the step's own error first."),
        (
            "DPONE_RECEIPT_VERSION_UNSUPPORTED",
            "The receipt is of another version of dpone.",
            "Use one version in the image and in Airflow.",
        ),
    ),
    *_entries(
        Area.RECEIPT,
        (_EXECUTED,),
        (
            "DPONE_RECEIPT_NOT_WRITTEN",
            "The step's receipt could not be written, so the step counts as failed.",
            "Check the receipt's directory; the load may be committed.",
        ),
    ),
    *_entries(
        Area.RECEIPT,
        _NO_EXIT,
        ("DPONE_POD_EXIT_NONZERO", "A container ended with a non-zero exit.", "Read the step's log and receipt."),
        ("DPONE_TASK_NOT_SUCCESSFUL", "A task did not succeed.", "The verdict says what is true of the target."),
        (
            "DPONE_AIRFLOW_MAPPING_TOO_LONG",
            "The plan has more partitions than Airflow maps in one task.",
            "Plan fewer, or raise core.max_map_length.",
        ),
        ("DPONE_TASK_STATE_UNKNOWN", "The state of a task is not known.", "Clear the gate once the tasks are settled."),
    ),
)

_HOOK = _entries(
    Area.HOOK,
    (_EXECUTED,),
    ("hook_failed", "A hook failed.", "Read the hook's id and reason; correct what it acts on."),
    (
        "hook_transaction_state_changed",
        "A hook's script left a transaction open, or ended the one it runs in.",
        "End every transaction the script begins; without autocommit, neither begin nor end one.",
    ),
    ("data_quality_probe_failed", "A probe counted violations.", "Look at the rows it counts; the step says how many."),
    (
        "data_quality_probe_invalid",
        "A probe did not answer with exactly one non-negative integer.",
        "Write one SELECT of one count; NULL, text, booleans and several rows or columns are refused.",
    ),
    ("webhook_refused", "The receiver answered a webhook with a status outside 200-299.", "See its own log."),
    ("webhook_unreachable", "The receiver of a webhook did not answer in time.", "Check it, then repeat the hook."),
    (
        "hook_provider_failed",
        "A third-party provider raised an error or answered with something else than a result.",
        "Ask the provider's author; its text is in the Python traceback only.",
    ),
    ("hook_provider_missing", "Nobody provides the hook's type in this process.", "Install its package here too."),
    ("hook_connection_missing", "A provider wants a connection that its hook does not name.", "Add connection_ref."),
    ("statement_failed", "An engine refused a statement of a hook.", "Run the statement by hand to see the reason."),
    (
        "hook_outcome_unknown",
        "A hook that must not be repeated was started before and never proved success.",
        "Verify what it did, then start a new run id.",
    ),
)

_SOURCE = _entries(
    Area.SOURCE,
    (_EXECUTED,),
    ("source_refused", "The source cannot be loaded as the manifest asks.", "Correct what the message names."),
    ("source_unreachable", "The source could not be opened or stopped answering.", "Check the source, then run again."),
    (
        "source_reader_died",
        "The process that reads the source died or was killed.",
        "Check its memory, then run again.",
    ),
    ("source_object_not_found", "The table or file does not exist.", "Check its name; a pre-hook may have to make it."),
    ("source_query_refused", "The engine refused the source query.", "Run the query by hand to see the reason."),
    ("source_request_invalid", "A request cannot be put to this source.", "Report it; a manifest should not cause it."),
    (
        "source_column_unsupported",
        "A column has a type or a value that cannot be carried without loss.",
        "Cast it in options.query.",
    ),
    ("source_value_out_of_range", "A value breaks its column's declared type.", "Correct the row, or cast the column."),
    (
        "special_values_refused",
        "A rule of source.options.special_values names no column, a value its type does not have, or a replacement that"
        " is no value of it.",
        "Correct the rule that names the column.",
    ),
    (
        "special_values_uncounted",
        "A source converted declared special values and did not say in which rows.",
        "Report it; the run's report says what is true of the target.",
    ),
    (
        "source_schema_inconsistent",
        "Files of one source have different columns.",
        "Load them apart, or rewrite the odd ones.",
    ),
    (
        "source_file_malformed",
        "A CSV or NDJSON file is not what its format and the manifest say.",
        "Correct the named line, or declare the dialect and the columns the file has.",
    ),
    ("empty_projection", "The source has no columns.", "Select at least one column."),
    (
        "framework_column_in_source",
        "A source column begins with the reserved `__dpone__`.",
        "Rename it in options.query.",
    ),
    ("key_column_unknown", "A column of unique_key is not in the source.", "Correct the name."),
    ("cursor_column_unknown", "The cursor column is not in the source.", "Correct the name."),
    (
        "cursor_column_changed",
        "The saved cursor is of another column.",
        "Keep the column, or reset the state after a full load.",
    ),
    ("cursor_nullable", "The cursor column may be NULL and that cannot be checked.", "Filter NULLs in the query."),
    ("cursor_has_nulls", "The cursor column holds NULLs.", "Fill them; such rows would never be read."),
    ("cursor_null_count_unavailable", "The source did not count NULL cursor values.", "Check the source."),
    (
        "cursor_lookback_unsupported",
        "A lookback is a duration, and the cursor is no date or time.",
        "Remove lookback, or choose a date or timestamp column as cursor.",
    ),
    ("cursor_value_invalid", "A cursor value is not of the column's type.", "Correct the column, or the saved cursor."),
)

_STAGING = _entries(
    Area.STAGING,
    (_EXECUTED,),
    (
        "target_schema_differs",
        "The existing target has other columns than the source.",
        "Allow add_columns, or migrate the target.",
    ),
    (
        "physical_design_mismatch",
        "The existing target is stored otherwise than the manifest says.",
        "Change the manifest, or rebuild the target.",
    ),
    ("order_by_column_nullable", "A sorting column may be NULL.", "Sort by columns without NULLs."),
    ("schema_evolution_refused", "A column could not be added.", "Add it by hand as nullable."),
    ("sink_column_unsupported", "The sink has no column for a type or a name.", "Cast or rename it in options.query."),
    ("row_identity_unsupported", "A row id cannot be computed from these columns.", "Choose another unique_key."),
    (
        "finaliser_assumption_failed",
        "The sink cannot publish as the plan assumes.",
        "Check database engine, storage and rights.",
    ),
    ("target_not_found", "A table that must exist does not.", "Check who removed it; then run again."),
    ("staging_refused", "Staging could not be created.", "Check rights on the staging schema."),
    ("staged_value_refused", "The sink does not take a value of the rows.", "Correct the row, or cast the column."),
    ("staged_row_count_mismatch", "Fewer or more rows arrived than were sent.", "Run again; the target is untouched."),
    (
        "lineage_projection_incomplete",
        "Staged rows do not carry this load's lineage.",
        "Run again; report it if it stays.",
    ),
    (
        "merge_key_duplicate",
        "Rows of a merge, or of its target, share one value of the unique key.",
        "Keep one row per key in options.query, choose another unique_key, or remove duplicates from the target.",
    ),
    (
        "merge_key_null",
        "A row to be merged has NULL in its unique key.",
        "Give it a value or filter it in options.query, or choose another unique_key.",
    ),
    (
        "merge_key_unsupported",
        "A column of the unique key cannot identify a row.",
        "Choose a key of the payload without floating-point columns, or cast it in options.query.",
    ),
    (
        "partition_empty_refused",
        "A partition replacement has no rows, so it names no partition.",
        "Check the source, or set strategy.allow_empty to accept that nothing is replaced.",
    ),
    ("partition_limit_exceeded", "One block of rows spans too many partitions.", "Choose a coarser granularity."),
    (
        "engine_memory_exceeded",
        "An engine reached its memory limit.",
        "Load less at once, or count fewer distinct values; `dpone plan` shows the limit.",
    ),
    ("disk_full", "No space is left where an engine writes.", "Free space, then run again."),
    (
        "target_not_managed",
        "The target directory holds files that dpone did not write.",
        "Move them away, or choose another table name.",
    ),
    (
        "target_refresh_incomplete",
        "An interrupted full refresh left old and new files beside each other.",
        "Run a full_refresh, which replaces both.",
    ),
    (
        "target_description_unreadable",
        "`_dpone_target.json` of a file target cannot be read.",
        "Restore it from a backup, or move the target away and load it again.",
    ),
    (
        "written_value_refused",
        "A value has no exact form in the files of the target.",
        "Correct the row, or choose format parquet.",
    ),
)

_QUALITY = _entries(
    Area.QUALITY,
    (_EXECUTED,),
    (
        "DPONE_QUALITY_GATES_FAILED",
        "A gate of severity error did not pass.",
        "Read the failed gates; boundary and target state say whether a retry is safe.",
    ),
    (
        "DPONE_QUALITY_POLICY_DRIFT",
        "The quality policy changed after the run had started.",
        "Find what changes the configuration at run time.",
    ),
    (
        "typed_hash_value_refused",
        "A value cannot be hashed in the type of its column.",
        "Correct the row, or cast the column in options.query.",
    ),
    (
        "staged_rows_unreadable",
        "Staged rows could not be read back to be hashed, so their hash is missing.",
        "Run again; report it if it stays.",
    ),
    ("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "A load was to be accepted without its receipt.", "Report it."),
    ("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "A receipt is of another load, policy or boundary.", "Report it."),
    ("DPONE_QUALITY_GATE_RECEIPT_INVALID", "A receipt was used out of order or twice.", "Report it."),
)

_ACCEPTANCE = (
    *_entries(
        Area.ACCEPTANCE,
        (_REFUSED, _EXECUTED, _OK),
        *(
            (
                code,
                f"The requested {side} side cannot be measured on this route (a warning under warn_only).",
                f"Set `quality.acceptance.capture.{side}: false`, or choose another route.",
            )
            for side, code in (
                ("source", "source_acceptance_metric_probe_unavailable"),
                ("staged", "staged_acceptance_metric_unavailable"),
                ("target", "target_acceptance_metric_probe_unavailable"),
            )
        ),
    ),
    *_entries(
        Area.ACCEPTANCE,
        (_EXECUTED,),
        *(
            (f"{side}_{code}", f"On side {side}: {meaning}", action)
            for code, meaning, action in (
                ("acceptance_metric_probe_failed", "the probe failed.", "Check the engine; the boundary is stated."),
                ("acceptance_metric_snapshot_invalid", "the probe's answer is not usable.", "Report it."),
                ("acceptance_metric_unknown_columns", "a named column does not exist.", "Correct the column list."),
                (
                    "acceptance_metric_uncountable_columns",
                    "a column's type cannot be counted.",
                    "Leave the column out, or use a selector that may.",
                ),
                ("acceptance_metric_nothing_selected", "nothing would be measured.", "Request a check or a column."),
                (
                    "acceptance_metric_evidence_failed",
                    "the snapshot could not be recorded.",
                    "Check the audit tables; the boundary says whether the load is committed.",
                ),
            )
            for side in ("source", "staged", "target")
        ),
        ("acceptance_metric_failed", "A required metric is not available.", "Read the side that is named."),
        ("metric_column_unknown", "A probe was asked for a column that does not exist.", "Correct the column list."),
        ("metric_memory_exceeded", "A column has too many distinct values.", "Count distinct values of keys only."),
        ("DPONE_ACCEPTANCE_SEQUENCE_INVALID", "Acceptance was captured out of order.", "Report it."),
    ),
)

_COMMIT = _entries(
    Area.COMMIT,
    (_EXECUTED,),
    (
        "finaliser_refused",
        "The sink refused to publish; the target is as it was.",
        "Correct the cause, then run again.",
    ),
    (
        "written_row_count_mismatch",
        "Fewer or more rows are in a file target than were sent.",
        "Stop retries and compare the target with the source.",
    ),
    (
        "published_row_count_mismatch",
        "The commit returned and the target did not gain as many rows as were staged; it was not rolled back.",
        "Stop retries and compare the target with the source; look for another writer of the same target.",
    ),
    (
        "published_rows_not_counted",
        "The commit returned and the rows of the target could not be counted.",
        "Count them and compare with the evidence; as a warning it says that this sink does not count.",
    ),
    (
        "written_rows_unreadable",
        "Files of the target cannot be read back.",
        "Check the disk and the files; the boundary says whether this load is visible.",
    ),
    (
        "target_outcome_unknown",
        "The commit was sent and its answer is lost: the target may be old or new.",
        "Stop retries and compare the target with the evidence.",
    ),
)

_EVIDENCE = _entries(
    Area.EVIDENCE,
    (_EXECUTED,),
    (
        "load_evidence_failed",
        "An audit row could not be written.",
        "Check the audit schema; the boundary says whether the load is committed.",
    ),
    (
        "finalized_evidence_failed",
        "The load is committed and its step could not be recorded.",
        "Do not retry blindly; reconcile the target with load_id.",
    ),
    (
        "staged_cleanup_failed",
        "The load is committed and its staging is still there.",
        "Run `dpone cleanup` for this run id; do not retry blindly.",
    ),
    (
        "evidence_publication_failed",
        "An evidence file could not be written.",
        "Check DPONE_EVIDENCE_DIR; the target may hold the load.",
    ),
    ("evidence_too_large", "An evidence file is larger than a reader accepts.", "Open the file by hand."),
)

_TRANSFER = _entries(
    Area.TRANSFER,
    (_EXECUTED,),
    (
        "partition_key_unsupported",
        "The partitioning column has a type without ranges.",
        "Choose an integer, decimal, date, timestamp, uuid or text column.",
    ),
    (
        "partition_bounds_invalid",
        "The partitioning column holds values that are not finite or not in order.",
        "Choose another column, or filter such values in options.query.",
    ),
    (
        "partition_bounds_do_not_cover",
        "The source holds keys outside the given bounds; their rows would be lost.",
        "Widen source.options.partitioning.bounds, or remove them.",
    ),
    (
        "native_transfer_manual_reconciliation_required",
        "An attempt ended while it published; whether the target holds its rows is not known.",
        "Look with `dpone transfer show`, then say what you found with `dpone transfer reconcile`.",
    ),
    (
        "native_transfer_run_incomplete",
        "Another run has published a part of its ranges and has not finished: rows would come twice, or old ones back.",
        "Run again with that run id, or remove its rows and say so with `dpone transfer reconcile`.",
    ),
    (
        "native_transfer_workload_changed",
        "Ranges of this run are in the target, and its query or schema has changed since.",
        "Restore the query and run again, or remove the rows and say so with `dpone transfer reconcile`.",
    ),
    (
        "native_transfer_cursor_moved",
        "Another load saved a cursor after this run was planned.",
        "Compare the target with the evidence of both loads, then load under another run id.",
    ),
    (
        "native_transfer_plan_mismatch",
        "The plan to publish is not the stored, open one of this run id, or its query or columns changed since.",
        "Clear transfer_plan and everything behind it: an open run resumes, any other is planned anew.",
    ),
    (
        "native_transfer_partition_not_staged",
        "Ranges of the plan are not staged, or not as they were counted when staged; nothing was published.",
        "Clear the mapped tasks transfer_partition of the indexes named, then the load.",
    ),
    (
        "native_transfer_target_missing",
        "Every range is committed and the target does not exist.",
        "Find out who removed it, then load under another run id.",
    ),
    (
        "native_transfer_target_replaced",
        "Every range is committed, and another load has published into the target since; nothing was mutated.",
        "Load under another run id, or leave the target as it is.",
    ),
    (
        "partition_coverage_incomplete",
        "The ranges hold another number of rows than the source held when they were planned.",
        "Load while nobody changes the source, or from a copy that stands still.",
    ),
    (
        "native_transfer_target_commit_guard_invalid",
        "A stored guard cannot be understood, which never counts as resolved.",
        "Find out who changed the checkpoints; then reconcile by hand.",
    ),
    (
        "native_transfer_target_commit_guard_not_armed",
        "A batch would have been committed without its guard; the checkpoints changed under the load.",
        "Find the second writer; then run `dpone transfer show`.",
    ),
    (
        "native_transfer_transition_timestamp_invalid",
        "A checkpoint's moment is not an aware UTC instant, or a partition ended before it began.",
        "Correct the clock, or restore the checkpoints.",
    ),
    (
        "partition_checkpoint_unreadable",
        "Stored checkpoints are damaged elsewhere than at a torn end.",
        "Restore them, or load under another run id after comparing the target with the source.",
    ),
    (
        "partition_checkpoint_counter_invalid",
        "A counter of a partition is not a non-negative integer; nothing was written.",
        "Report it: a connector stated an impossible number of rows.",
    ),
    (
        "partition_checkpoint_not_written",
        "The operating system refused a checkpoint file.",
        "Free or mount the evidence directory; the failure context says whether the target changed.",
    ),
    (
        "partition_checkpoint_superseded",
        "Another process wrote the checkpoint of a range, or planned the run anew, since this one read it: that stands,"
        " and this process changed no target.",
        "Look with `dpone transfer show`: nothing is to be done for a published range; clear the mapped task of any"
        " other, then the load, for rows this process staged may stand where those of the other try stood.",
    ),
    (
        "partition_checkpoint_terminal",
        "A committed partition would have been taken back by a later failure; nothing was written.",
        "Report it.",
    ),
)

_TRANSFER_OPERATIONS = _entries(
    Area.TRANSFER,
    (_REFUSED,),
    (
        "DPONE_TRANSFER_PARTITION_REFUSED",
        "The range asked for is none of the stored, open plan of this run id; nothing was read.",
        "Clear transfer_plan and everything behind it: an open run resumes, any other is planned anew.",
    ),
    (
        "DPONE_TRANSFER_NOT_KEPT",
        "The sink of the process has no control tables, so it keeps no checkpoints.",
        "Set source.options.partitioning.checkpoints to file.",
    ),
    (
        "DPONE_TRANSFER_NOTHING_TO_RECONCILE",
        "No batch of the run is unresolved; nothing was changed.",
        "Look at its ranges with `dpone transfer show`.",
    ),
    (
        "DPONE_TRANSFER_MARKER_CONTRADICTS",
        "The sink's own load marker says otherwise than what was declared; nothing was changed.",
        "Look again; if the target was repaired by hand since, pass --override-marker.",
    ),
)

_STATE = (
    *_entries(
        Area.STATE,
        (_REFUSED,),
        (
            "DPONE_STATE_NOT_KEPT",
            "The process keeps no cursor in its sink.",
            "Set `state: {type: sink}`, or name another process.",
        ),
        (
            "DPONE_STATE_VALUE_INVALID",
            "The value can never be compared with the cursor column.",
            "Write integers as digits, dates and times in ISO 8601.",
        ),
        (
            "DPONE_RUN_UNKNOWN",
            "The audit table of the process knows no load of that run id.",
            "Read run ids from `dpone report` or the load records.",
        ),
        (
            "DPONE_STATE_REASON_REQUIRED",
            "The cursor was to be replaced without a reason.",
            "Pass --reason; it is kept in the evidence.",
        ),
    ),
    *_entries(
        Area.STATE,
        (_EXECUTED,),
        ("load_in_progress", "Another load holds the lease of this target.", "Wait for it; nothing was changed."),
        ("cursor_state_moved", "Another run moved the cursor meanwhile.", "Find the second writer; then decide."),
        (
            "load_already_committed",
            "An earlier append of this process is in the target behind a cursor that was never saved; nothing changed.",
            "Compare the target with that load's evidence, then run `dpone state set` with the pending_cursor_value of "
            "`dpone state show` if its rows stay, or with the cursor as it was once they are removed.",
        ),
        (
            "earlier_load_unknown",
            "An earlier append ended while it published and nothing proves that it is in the target or not.",
            "Look for that load's rows in the target, then proceed as for load_already_committed.",
        ),
        (
            "control_table_incompatible",
            "A control table has other columns.",
            "Migrate it, or use another state schema.",
        ),
        (
            "control_table_unreadable",
            "A line of a control file cannot be read.",
            "Restore the file from a backup; nothing was skipped or changed.",
        ),
        ("control_table_refused", "The sink refused a control table or row.", "Check rights on the state schema."),
        (
            "control_table_busy",
            "Another process has been changing the same control row for longer than a dead one could.",
            "Run again; nothing was changed.",
        ),
    ),
)

_RUN = (
    *_entries(
        Area.RUN,
        (_EXECUTED,),
        ("DPONE_EXECUTION_FAILED", "The run executed and was not successful.", "Read the failure context."),
        ("DPONE_INTERNAL_ERROR", "An error that dpone does not know.", "Report it; only its type is shown."),
    ),
    *_entries(
        Area.RUN,
        (ExitClass.INTERRUPTED,),
        ("DPONE_RUN_INTERRUPTED", "The run was interrupted from the keyboard.", "Read the state, then run again."),
    ),
    *_entries(
        Area.RUN,
        (ExitClass.TERMINATED,),
        ("DPONE_RUN_TERMINATED", "The process was told to end.", "Read the state, then run again if it allows it."),
    ),
)

_WARNING = _entries(
    Area.WARNING,
    (_OK, _EXECUTED),
    ("acceptance_metric_probe_failed", "A probe failed under warn_only.", "Check the engine."),
    ("acceptance_metric_snapshot_invalid", "An answer was not usable under warn_only.", "Report it."),
    ("acceptance_metric_unknown_columns", "A named column does not exist.", "Correct the column list."),
    ("acceptance_metric_uncountable_columns", "A column was left out.", "Leave it out by name, or accept it."),
    ("acceptance_metric_nothing_selected", "Nothing was measured on a side.", "Request a check or a column."),
    (
        "earlier_load_not_published",
        "An earlier append ended before it published, so this load read its rows again.",
        "Nothing; the step earlier_load_examined names that load.",
    ),
    (
        "checkpoint_tail_torn",
        "A crash tore the last checkpoint record; it was left out.",
        "Nothing: its range is transferred again, or its guard blocks.",
    ),
    (
        "source_changed_while_read",
        "The source has no common snapshot, and its number of rows changed while ranges were read.",
        "Compare source and target, or load while nobody writes.",
    ),
    (
        "row_identity_without_unique_key",
        "Row ids were asked for and there is no unique_key.",
        "Name a unique_key, or set row_identity.mode off.",
    ),
    (
        "transfer_run_superseded",
        "This run was planned anew while its load ended; the new plan stands.",
        "Look with `dpone transfer show`; load the new plan, or reconcile it.",
    ),
    (
        "lease_not_released",
        "The target's lease could not be given back.",
        "Wait until it expires; the next load may be refused until then.",
    ),
    (
        "typed_hash_unavailable",
        "Rows of this load could not be read back, so the hash gate did not pass.",
        "Check the engine, then run again.",
    ),
    ("staged_abort_incomplete", "Staging of a failed load could not be removed.", "Run `dpone cleanup`."),
    ("load_status_not_recorded", "The failure could not be written to the loads table.", "Check the audit schema."),
    ("failed_step_not_recorded", "A failed step could not be written.", "Check the audit schema."),
)

CATALOGUE: Final[tuple[CatalogueEntry, ...]] = (
    *_COMMAND,
    *_DOCUMENT,
    *_MANIFEST,
    *_SQL,
    *_CONNECTION,
    *_INVOCATION,
    *_GITOPS,
    *_RECEIPT,
    *_HOOK,
    *_SOURCE,
    *_STAGING,
    *_QUALITY,
    *_ACCEPTANCE,
    *_COMMIT,
    *_EVIDENCE,
    *_TRANSFER,
    *_TRANSFER_OPERATIONS,
    *_STATE,
    *_RUN,
    *_WARNING,
)


def entry_of(code: str) -> CatalogueEntry | None:
    """The entry of a code, None for one that is not ours."""
    return next((entry for entry in CATALOGUE if entry.code == code), None)


def by_area() -> Iterator[tuple[Area, tuple[CatalogueEntry, ...]]]:
    """Areas in order, each with its entries by code."""
    for area in Area:
        yield area, tuple(sorted((entry for entry in CATALOGUE if entry.area is area), key=lambda entry: entry.code))
