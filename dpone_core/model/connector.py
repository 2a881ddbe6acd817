"""What a connector declares about itself. Undeclared = unknown = refused; conformance proves every declared trait."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpone_core.model.special_values import SpecialValue
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode


class ConnectorType(StrEnum):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTraits:
    """`reader` names the Arrow reader; `metric_probe` says whether acceptance can ask this source.

    `ranged_formats` are those of its `formats` that have key ranges, `special_values` those of its engine's values that
    a manifest may convert. With an `engine` the source runs inside this process: opening it takes the engine's lock,
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
    None for an engine that runs elsewhere."""

    load_path: LoadPath
    finalisers: tuple[Finaliser, ...]
    metric_probe: bool
    identifier_limit_bytes: int
    memory_limit_bytes: int | None
    default_schema: str
    statements: bool = True
    key_ranges: bool = False

    def finaliser_for(self, strategy: StrategyMode) -> Finaliser | None:
        return next((finaliser for finaliser in self.finalisers if finaliser.strategy is strategy), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDescriptor:
    """`extra` is the dependency set that brings the `libraries` (import names); `sql_dialect` is sqlglot's name,
    if SQL at all; `uri_schemes` are the connection URIs it opens, the usual one first."""

    type: ConnectorType
    sql_dialect: str | None
    extra: str
    uri_schemes: tuple[str, ...]
    libraries: tuple[str, ...]
    source: SourceTraits | None = None
    sink: SinkTraits | None = None
