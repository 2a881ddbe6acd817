"""What the ClickHouse sink guarantees, embedded or as a server, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.declared.functions import clickhouse as names
from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    EmbeddedTraits,
    EngineScope,
    Finaliser,
    SinkTraits,
    SourceTraits,
    SqlNames,
    SqlSyntax,
    SqlTraits,
)
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

MEMORY_LIMIT_BYTES: Final = 4 * 1024**3
MAX_PARTITIONS_PER_INSERT: Final = 1_000
"""Set on every session (the engine's default is 100); a block with more partitions is refused by name (CH-12)."""

_UNDER_LEASE: Final = (
    "one publication per load id while the target lease is held; a shadow drops rows others write meanwhile"
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.CLICKHOUSE,
    sql=SqlTraits(
        dialect="clickhouse",
        syntax=frozenset({SqlSyntax.BACKSLASH_ESCAPES}),
        maintenance=rf"OPTIMIZE\s+TABLE\s+{SQL_NAME}(\s+ON\s+CLUSTER\s+{SQL_NAME})?(\s+FINAL)?",
        names=SqlNames(
            functions=names.ANY_CASE,
            spelled=names.AS_SPELLED,
            aggregates=names.AGGREGATES,
            combinators=names.COMBINATORS,
            table_functions=names.TABLE_FUNCTIONS,
        ),
    ),
    extra="clickhouse",
    uri_schemes=("chdb", "clickhouse", "clickhouses"),
    libraries=("pyarrow", "clickhouse_connect"),
    embedded=EmbeddedTraits(uri_schemes=("chdb",), libraries=("chdb",), extra="embedded"),
    source=SourceTraits(
        reader="arrow stream",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
        engine=EngineScope.PROCESS,
    ),
    sink=SinkTraits(
        load_path=LoadPath.STAGED,
        finalisers=(
            Finaliser(
                strategy=StrategyMode.FULL_REFRESH,
                name="exchange_tables",
                atomic_for="whole target: a reader sees the old rows or the new rows",
                delivery="one publication per load id: its marker is looked at before any repetition",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=("database engine with EXCHANGE TABLES (Atomic)", "target engine MergeTree"),
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_APPEND,
                name="move_partition_or_exchange",
                atomic_for="whole load: one partition by MOVE PARTITION, several by shadow table and EXCHANGE",
                delivery=_UNDER_LEASE,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(
                    "database engine with EXCHANGE TABLES (Atomic)",
                    "target engine MergeTree",
                    "staging and target on one storage policy",
                ),
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_MERGE,
                name="merge_shadow_and_exchange",
                atomic_for="whole load: a shadow without the staged keys and with the staged rows, and EXCHANGE",
                delivery=_UNDER_LEASE,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(
                    "database engine with EXCHANGE TABLES (Atomic)",
                    "target engine MergeTree",
                    "staging and target on one storage policy",
                    "the target holds each key once",
                ),
            ),
            Finaliser(
                strategy=StrategyMode.PARTITION_REPLACE,
                name="replace_partition_or_exchange",
                atomic_for="whole load: one partition by REPLACE PARTITION, several by shadow table and EXCHANGE",
                delivery=_UNDER_LEASE,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(
                    "database engine with EXCHANGE TABLES (Atomic)",
                    "target engine MergeTree",
                    "target partitioned as the manifest says",
                    "staging and target on one storage policy",
                ),
            ),
        ),
        metric_probe=True,
        key_ranges=True,
        identifier_limit_bytes=206,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        default_schema="default",
        physical_design=True,
    ),
)
