"""What a connector declares about itself. Undeclared = unknown = refused; conformance proves every declared trait."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.model.special_values import SpecialValue
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode


# The names of connectors, as manifests and records hold them; each has a declaration in `declared`.
class ConnectorType(StrEnum):
    """Systems that dpone reads from or loads into, by the word a manifest uses."""

    MSSQL = "mssql"
    POSTGRES = "postgres"
    MYSQL = "mysql"
    CLICKHOUSE = "clickhouse"
    SQLITE = "sqlite"
    DUCKDB = "duckdb"
    FILES = "files"


class EngineScope(StrEnum):
    """How often a process may open an embedded engine: once for each file, or for one directory only."""

    FILE = "file"
    PROCESS = "process"


class SqlSyntax(StrEnum):
    """What one engine reads in a SQL text and others do not; the SQL guard must read the text as the engine does."""

    BACKSLASH_ESCAPES = "backslash_escapes"
    """A backslash in a quoted text escapes the next character."""
    BACKSLASH_BY_MODE = "backslash_by_mode"
    """The session decides whether it does; a backslash before a quote is ambiguous."""
    HASH_COMMENTS = "hash_comments"
    """`#` begins a comment."""
    DASH_COMMENTS_NEED_A_SPACE = "dash_comments_need_a_space"
    """`--` begins a comment only before a blank; without one it is ambiguous."""
    BRACKETED_NAMES = "bracketed_names"
    """`[name]` is a quoted name."""
    DOLLAR_QUOTES = "dollar_quotes"
    """`$tag$ text $tag$` is a quoted text."""
    ATTRIBUTES_CALL = "attributes_call"
    """`(value).name` may call the function `name`."""
    GO_LINES = "go_lines"
    """The engine's usual client splits a script at lines that hold GO alone; such a line is refused."""


SQL_NAME: Final = r"[\w.\"`\[\]]+"
"""Regular expression of a name in a maintenance statement."""


def words(text: str) -> frozenset[str]:
    """The words of a text, which blanks and line ends separate."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlNames:
    """What an engine brings itself and what only reads; whatever has another name may be a user's.

    `functions`, `table_functions`, `file_functions`, `methods`, `types` and `schemas` are in lower case. `spelled` are
    functions whose names the engine tells apart by case; those in `aggregates` may have one of `combinators` behind
    them. `file_functions` read the files they are given. `methods` follow a dot behind a value. Functions may be
    qualified by one of `schemas`. `operators` and `types` are None where no user's operator or cast can act.
    """

    functions: frozenset[str]
    spelled: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    combinators: tuple[str, ...] = ()
    table_functions: frozenset[str] = frozenset()
    file_functions: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    schemas: frozenset[str] = frozenset()
    operators: frozenset[str] | None = None
    types: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlTraits:
    """What the SQL guard must know of an engine. A connector without them executes no SQL.

    `dialect` is sqlglot's name. `names` are those of the engine's own that read only. `maintenance` is a regular
    expression of one statement that changes no row, matched without regard to case. `statement_words` are the words
    that begin a statement of their own without any separator before them.
    """

    dialect: str
    names: SqlNames
    syntax: frozenset[SqlSyntax] = frozenset()
    maintenance: str | None = None
    statement_words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTraits:
    """`reader` names the Arrow reader; `metric_probe` says whether acceptance can ask this source.

    With `formats` it reads files at a path, and no tables: `options.path` and `options.format` take their place.
    `ranged_formats` are those of its `formats` that have key ranges, `special_values` those of its engine's values that
    a manifest may convert. With `row_security` it refuses rows that a policy hides, unless a manifest declares to read
    visible ones. With an `engine` the source runs inside this process: opening it takes the engine's lock,
    and a sink of the same path shares what is opened.
    """

    reader: str
    metric_probe: bool
    statements: bool
    incremental: bool
    formats: tuple[str, ...] = ()
    key_ranges: bool = False
    ranged_formats: tuple[str, ...] = ()
    special_values: tuple[SpecialValue, ...] = ()
    row_security: bool = False
    engine: EngineScope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finaliser:
    """How one strategy becomes visible: what a concurrent reader may see, and what a lost answer allows.

    `assumes` lists what the plan takes for granted offline and the run's preflight checks before extraction.
    """

    strategy: StrategyMode
    name: str
    atomic_for: str
    delivery: str
    retry_after_unknown: RetryClassification
    assumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTraits:
    """`identifier_limit_bytes` bounds staging names; `memory_limit_bytes` is set on every session and shown by plan,
    None for an engine that runs elsewhere. `max_columns` is the most that one of its tables has,
    `column_defaults` whether a load may leave columns to their DEFAULT.

    With `formats` it writes files of `options.files`. `physical_design` says whether a target that dpone creates takes
    a sorting key, a partition key and storage options.
    """

    load_path: LoadPath
    finalisers: tuple[Finaliser, ...]
    metric_probe: bool
    identifier_limit_bytes: int
    memory_limit_bytes: int | None
    default_schema: str
    max_columns: int | None = None
    column_defaults: bool = False
    statements: bool = True
    key_ranges: bool = False
    formats: tuple[str, ...] = ()
    physical_design: bool = False

    def finaliser_for(self, strategy: StrategyMode) -> Finaliser | None:
        """The finaliser this sink declares for a strategy; None when it does not support the strategy."""
        return next((finaliser for finaliser in self.finalisers if finaliser.strategy is strategy), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTraits:
    """An engine inside this process, or plain files: what its URIs name is a path, and never holds a credential.

    `uri_schemes` are those of the connector that open it so. It needs `libraries` beyond those of the connector, and
    an `extra` of its own if that brings them.
    """

    uri_schemes: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    extra: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDescriptor:
    """`extra` is the dependency set that brings the `libraries` (import names); `sql` is how its SQL is read,
    if SQL at all; `uri_schemes` are the connection URIs it opens, the usual one first."""

    type: ConnectorType
    sql: SqlTraits | None
    extra: str
    uri_schemes: tuple[str, ...]
    libraries: tuple[str, ...]
    embedded: EmbeddedTraits | None = None
    source: SourceTraits | None = None
    sink: SinkTraits | None = None

    @property
    def is_always_embedded(self) -> bool:
        """Whether no connection of this connector names a server."""
        return self.embedded is not None and set(self.embedded.uri_schemes) == set(self.uri_schemes)
