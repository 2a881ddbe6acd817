"""What the DuckDB sink guarantees, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    EmbeddedTraits,
    EngineScope,
    Finaliser,
    SinkTraits,
    SourceTraits,
    SqlSyntax,
    SqlTraits,
    words,
)
from dpone_core.model.special_values import SpecialValue
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

MEMORY_LIMIT_BYTES: Final = 2 * 1024**3
"""For statements that hold much at once: merges, exact distinct counts, hooks, sources."""

STREAMING_LIMIT_BYTES: Final = 640 << 20
"""For everything else a sink does: rows pass through, and blocks that are cached beyond it give way."""


_TABLE_FUNCTIONS: Final = words(
    """
    arrow_scan delta_scan duckdb_columns duckdb_schemas duckdb_tables duckdb_views generate_series glob iceberg_scan
    json_each json_tree parquet_metadata parquet_scan parquet_schema range read_blob read_csv read_csv_auto read_json
    read_json_auto read_ndjson read_ndjson_auto read_parquet read_text repeat repeat_row unnest
    """
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.DUCKDB,
    sql=SqlTraits(
        dialect="duckdb",
        syntax=frozenset({SqlSyntax.DOLLAR_QUOTES}),
        maintenance=rf"(VACUUM|ANALYZE|VACUUM\s+ANALYZE)(\s+{SQL_NAME})?",
        table_functions=_TABLE_FUNCTIONS,
    ),
    extra="duckdb",
    uri_schemes=("duckdb",),
    libraries=("pyarrow", "duckdb"),
    embedded=EmbeddedTraits(uri_schemes=("duckdb",)),
    source=SourceTraits(
        reader="arrow stream",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
        special_values=(SpecialValue.INFINITY, SpecialValue.NEGATIVE_INFINITY, SpecialValue.NAN),
        engine=EngineScope.FILE,
    ),
    sink=SinkTraits(
        load_path=LoadPath.STAGED,
        finalisers=(
            Finaliser(
                strategy=StrategyMode.FULL_REFRESH,
                name="swap_in_transaction",
                atomic_for="whole target: one transaction",
                delivery="exactly once: the load marker is written in the same transaction",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=("no constraint or index on the target",),
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_APPEND,
                name="insert_in_transaction",
                atomic_for="whole load: one transaction",
                delivery="exactly once: the load marker is written in the same transaction",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_MERGE,
                name="merge_in_transaction",
                atomic_for="whole load: one transaction",
                delivery="exactly once: the load marker is written in the same transaction",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=("the target holds each key once",),
            ),
            Finaliser(
                strategy=StrategyMode.PARTITION_REPLACE,
                name="replace_in_transaction",
                atomic_for="whole load: one transaction deletes the staged partitions and inserts the staged rows",
                delivery="exactly once: the load marker is written in the same transaction",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
            ),
        ),
        metric_probe=True,
        key_ranges=True,
        identifier_limit_bytes=206,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        default_schema="main",
        column_defaults=True,
    ),
)
